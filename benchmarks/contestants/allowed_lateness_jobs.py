"""Jobs of tumbling windows that store late rows, or correct windows with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.contestants.window_queries import AGGS, ROWS_A_BATCH, WATERMARK_DELAY
from benchmarks.support.click_topic import SCHEMA
from benchmarks.support.contestant_process import Contestant, RunContext, run_contestant
from tidegate import Input, Job, run
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.sinks import Append, CorrectedWindows, Sink
from tidegate.sources import KafkaSource
from tidegate.telemetry.console import ProgressDisplay
from tidegate.windows import Tumbling, WindowAggregation

SIZE, ALLOWED_LATENESS = "10 seconds", "10 minutes"


def _input(context: RunContext, **settings: Any) -> Input:
    clicks = Input(
        source=KafkaSource(
            bootstrap_servers=context.servers,
            topics=[context.topic],
            max_records_per_batch=ROWS_A_BATCH,
        ),
        format=json_format(SCHEMA),
        time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
        watermark_delay=WATERMARK_DELAY,
        future_tolerance=None,
    )
    return replace(clicks, **settings)


WINDOWS = WindowAggregation(Tumbling(SIZE), by="page", aggs=AGGS)


def _run(
    spark: SparkSession, context: RunContext, given: Input, sink: Sink, *, correct: bool
) -> None:
    job = Job(
        name="bench",
        inputs={"clicks": given},
        transform=WINDOWS,
        sink=sink,
        checkpoint=str(context.folder / "checkpoint"),
        dead_letters=str(context.folder / "dead"),
        late_rows=str(context.folder / "late"),
        allowed_lateness=ALLOWED_LATENESS if correct else None,
    )
    run(job, spark, display=ProgressDisplay())


def _final(**settings: Any) -> Contestant:
    def run_job(spark: SparkSession, context: RunContext) -> None:
        sink = Append(path=str(context.folder / "table"))
        _run(spark, context, _input(context, **settings), sink, correct=False)

    return run_job


def _corrected(spark: SparkSession, context: RunContext) -> None:
    """Correct closed windows with late rows, and log each version."""
    folder = context.folder
    sink = CorrectedWindows(str(folder / "table"), aggregation=WINDOWS, log=str(folder / "log"))
    _run(spark, context, _input(context), sink, correct=True)


CONTESTANTS: dict[str, Contestant] = {
    "final": _final(),
    "partition watermarks": _final(watermarks="partition"),
    "corrected": _corrected,
}
"""By name. The first two write late rows to a side table."""


if __name__ == "__main__":
    run_contestant(CONTESTANTS)
