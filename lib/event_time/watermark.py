"""The watermark of an input, which heartbeats and all rows advance."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import quoted_column

IS_HEARTBEAT = "__tidegate_beat"
"""A boolean column: whether a row is a heartbeat, which has only an event time."""


def with_watermark(rows: DataFrame, time: str, watermark_delay: str) -> DataFrame:
    """Set a watermark on events and heartbeats, and return the events without IS_HEARTBEAT.

    Without the column IS_HEARTBEAT all rows are events. Every row advances the watermark, including
    rows that the transform filters out.
    """
    delayed_rows = rows.withWatermark(time, watermark_delay)
    # Spark pushes filters that do not reference the event time below the watermark, where they
    # would remove rows that must advance it. It does not push filters through a nondeterministic
    # condition; the partition ID is nondeterministic and never negative.
    if IS_HEARTBEAT not in rows.columns:
        return delayed_rows.where(F.spark_partition_id() >= 0)
    is_event = ~quoted_column(IS_HEARTBEAT) | (F.spark_partition_id() < 0)
    return delayed_rows.where(is_event).drop(IS_HEARTBEAT)
