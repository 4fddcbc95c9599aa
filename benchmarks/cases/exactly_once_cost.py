"""Measure the cost of exactly-once: of lineage and fencing at each start and with each batch.

python -m benchmarks.cases.exactly_once_cost [--rows 1000000] [--batch 100000]

A job of windows with late rows reads a topic in batches. Each call that reads or writes the lineage
or checks the fence is timed within the job, so that other load on the machine does not hide it; so
is each batch. The first run is a warm-up."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.table import Table

from benchmarks.contestants.window_queries import AGGS, WATERMARK_DELAY
from benchmarks.support.click_topic import SCHEMA, fill
from benchmarks.support.harness import PARTITIONS, Bench, Output, report, start_bench
from tidegate import Input, Job, run, set_log_level, spark_session
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.commit import delta_commit
from tidegate.commit.driver_lease import DriverLease
from tidegate.engine.micro_batch import MicroBatchProcessor
from tidegate.engine.topic_monitor import TopicMonitor
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.startup.preflight import Preflight
from tidegate.telemetry.console import ProgressDisplay
from tidegate.windows import Tumbling, WindowAggregation

START_CALLS: dict[str, tuple[Any, str]] = {
    "preflight checks": (Preflight, "require_all"),
    "claim of an epoch": (DriverLease, "acquire"),
    "fence": (DriverLease, "fence"),
}
BATCH_CALLS: dict[str, tuple[Any, str]] = {
    "batch start": (DriverLease, "on_batch_start"),
    "newest epoch": (DriverLease, "require_newest_epoch"),
    "tables before the batch": (DriverLease, "require_unchanged_tables"),
    "table at its commit": (DriverLease, "require_unchanged"),
    "record of a table": (DriverLease, "record_table"),
    "record of the batch": (DriverLease, "record_batch"),
    "observer of the Delta commit": (delta_commit, "run_before_commit"),
    "topic ids, request": (TopicMonitor, "request_topic_states"),
    "topic ids, check": (TopicMonitor, "require_unchanged"),
}
"""The timed calls: where they are defined, and their names there."""
Spent = dict[str, list[float]]


class Clock:
    """Times calls; of nested calls only the outermost."""

    def __init__(self) -> None:
        self.spent: Spent = defaultdict(list)
        self._inside = threading.local()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        if getattr(self._inside, "part", None) is not None:
            yield
            return
        self._inside.part = part
        started_at = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part].append(time.perf_counter() - started_at)
            self._inside.part = None

    @contextmanager
    def on(self, part: str, owner: Any, name: str) -> Iterator[None]:
        """Time a function within the block; of a context manager, its enter and exit."""
        original = owner.__dict__[name]
        plain = original.__func__ if isinstance(original, classmethod) else original

        def call(*args: Any, **named: Any) -> Any:
            with self.timed(part):
                return plain(*args, **named)

        @contextmanager
        def around(*args: Any, **named: Any) -> Iterator[Any]:
            block = plain(*args, **named)
            with self.timed(part):
                entered = block.__enter__()
            try:
                yield entered
            except BaseException as error:
                block.__exit__(type(error), error, error.__traceback__)
                raise
            with self.timed(part):
                block.__exit__(None, None, None)

        replacement: Any = around if name == "run_before_commit" else call
        setattr(
            owner,
            name,
            classmethod(replacement) if isinstance(original, classmethod) else replacement,
        )
        try:
            yield
        finally:
            setattr(owner, name, original)


@contextmanager
def batches(times: list[float]) -> Iterator[None]:
    """Append the duration of each batch within the block."""
    plain: Callable[..., None] = MicroBatchProcessor.__call__

    def call(steps: MicroBatchProcessor, *args: Any) -> None:
        started_at = time.perf_counter()
        plain(steps, *args)
        times.append(time.perf_counter() - started_at)

    MicroBatchProcessor.__call__ = call  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        MicroBatchProcessor.__call__ = plain  # type: ignore[method-assign]


def measure(spark: SparkSession, job: Job) -> tuple[Spent, list[float], float]:
    """Run a job; return the seconds of each call, of each batch, and in total."""
    clock, times = Clock(), list[float]()
    with ExitStack() as stack:
        stack.enter_context(batches(times))
        for part, (owner, name) in (START_CALLS | BATCH_CALLS).items():
            stack.enter_context(clock.on(part, owner, name))
        started_at = time.perf_counter()
        run(job, spark, display=ProgressDisplay())
        return clock.spent, times, time.perf_counter() - started_at


def job_of(servers: str, topic: str, folder: Path, batch: int) -> Job:
    """Return the measured job, with its tables in a folder."""
    clicks = Input(
        KafkaSource(servers, topic, max_records_per_batch=batch),
        json_format(SCHEMA),
        time="ts",
        time_unit="milliseconds",
        watermark_delay=WATERMARK_DELAY,
        future_tolerance=None,
    )
    return Job(
        name="identity",
        inputs={"clicks": clicks},
        transform=WindowAggregation(Tumbling("10 seconds"), by="page", aggs=AGGS),
        sink=Append(str(folder / "views")),
    )


def to_table(spent: Spent, times: list[float], seconds: float) -> tuple[Table, dict[str, float]]:
    """Return the results as a table, and their sums."""
    number = len(times)
    table = Table("part", "calls", "ms, median", "ms, largest", "ms a batch", "% of the job")
    for part in START_CALLS | BATCH_CALLS:
        results = [1e3 * each for each in spent.get(part, [])]
        if results:
            a_batch = f"{sum(results) / number:.1f}" if part in BATCH_CALLS else "-"
            share = f"{sum(results) / seconds / 10:.2f}"
            middle, most = f"{statistics.median(results):.1f}", f"{max(results):.1f}"
            table.add_row(part, str(len(results)), middle, most, a_batch, share)
    with_batches = 1e3 * sum(sum(spent.get(part, [])) for part in BATCH_CALLS)
    at_start = 1e3 * sum(sum(spent.get(part, [])) for part in START_CALLS)
    sums = {
        "batches": number,
        "ms a batch": with_batches / number,
        "ms a batch in total": 1e3 * statistics.fmean(times),
        "% of the batches": with_batches / sum(times) / 10,
        "ms at the start": at_start,
        "% of the job": (with_batches + at_start) / seconds / 10,
    }
    table.title = ", ".join(f"{name} {value:,.1f}" for name, value in sums.items())
    return table, sums


def measure_starts(bench: Bench, spark: SparkSession, rows: int, batch: int, output: Path) -> None:
    """Warm up, then measure a run from the start of the topic, and one after a driver crash."""
    servers = bench.broker.bootstrap_servers
    results = {}
    for name, count in (("warm", rows // 4), ("measured", rows), ("restarted", rows // 4)):
        topic = "clicks-warm" if name == "warm" else "clicks"
        if name != "restarted":
            bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
        fill(servers, topic, count, PARTITIONS, late_share=0.01)
        folder = bench.folder / topic
        if name == "restarted":
            _simulate_crash(folder / "views.checkpoint")
        spent, times, seconds = measure(spark, job_of(servers, topic, folder, batch))
        table, sums = to_table(spent, times, seconds)
        results[name] = {"sums": sums, "spent": spent, "batches": times, "seconds": seconds}
        table.title = f"{name}: {table.title}"
        report(bench.console, table, output, {"messages": rows, "batch": batch, "runs": results})


def _simulate_crash(checkpoint: Path) -> None:
    """Mark the last driver as not released, so that the next one must fence it off."""
    newest = max((checkpoint / "tidegate").glob("lineage-*.json"))
    left = CheckpointLineage.from_json(newest.read_bytes(), str(newest))
    newest.write_text(replace(left, released=False).to_json())


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 1_000_000,
    batch: Annotated[int, typer.Option(help="Messages in a batch.")] = 100_000,
    output: Output = Path("benchmarks/results/exactly_once_cost.json"),
) -> None:
    """Measure, print a table for each run, and write JSON."""
    spark = spark_session("bench", master="local[2]")
    set_log_level(spark, "ERROR")
    with start_bench() as bench:
        measure_starts(bench, spark, rows, batch, output)
    spark.stop()


if __name__ == "__main__":
    typer.run(main)
