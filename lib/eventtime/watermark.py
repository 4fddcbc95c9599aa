"""An input's watermark: heartbeats move it on, and no later filter takes rows from it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import quoted

BEAT = "__tidegate_beat"
"""A boolean column: whether a row is a heartbeat, which has an event time and nothing else."""


def watermarked(rows: DataFrame, time: str, lateness: str) -> DataFrame:
    """Set the watermark over events and heartbeats, and return the events alone, without BEAT.

    Rows without the column BEAT are all events. Every row moves the watermark on, whatever the
    transform that follows filters out.
    """
    marked = rows.withWatermark(time, lateness)
    # The optimiser pushes a filter below the watermark unless the filter names the event time.
    # There it would take away rows that have to move the watermark on: heartbeats above all, whose
    # other columns are null. But the optimiser neither moves a condition that is not deterministic,
    # nor moves another one through it. The number of a partition counts as such a condition, costs
    # nothing, and is never negative.
    if BEAT not in rows.columns:
        return marked.where(F.spark_partition_id() >= 0)
    return marked.where(~quoted(BEAT) | (F.spark_partition_id() < 0)).drop(BEAT)
