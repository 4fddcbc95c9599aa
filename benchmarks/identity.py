"""Measure what a checkpoint's identity and the fence cost: at each start, and with each batch.

python -m benchmarks.identity [--rows 1000000] [--batch 100000]

A job of windows with late rows reads a topic, a part of it in each batch. Each call of the library
that looks at the identity, writes it or asks for the fence is timed by itself, within the job, so
that what else the machine does does not hide it; and so is each batch. The first run warms up."""

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

from tidegate.commit import delta_log
from tidegate.commit.identity import Identity
from tidegate.commit.ledger import Ledger
from tidegate.formats import json_format
from tidegate.runtime import quiet, spark_session
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.preflight import Preflight
from tidegate.runtime.query.run import run
from tidegate.runtime.query.steps import Steps
from tidegate.runtime.query.topics import Topics
from tidegate.runtime.telemetry.progress import Show
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.windows import Tumbling, Windowed

from .contestants import AGGS, LATENESS
from .harness import PARTITIONS, Arena, Output, arena, report
from .topic import SCHEMA, fill

STARTS: dict[str, tuple[Any, str]] = {
    "checks of a start": (Preflight, "require"),
    "claim of an epoch": (Ledger, "claimed"),
    "fence": (Ledger, "fence"),
}
PARTS: dict[str, tuple[Any, str]] = {
    "sources, at the first batch": (Ledger, "begins"),
    "newest epoch": (Ledger, "require_newest"),
    "tables before the batch": (Ledger, "require_tables"),
    "table at its commit": (Ledger, "require_kept"),
    "note of a table": (Ledger, "note"),
    "identity written": (Ledger, "finished"),
    "observer of Delta's commit": (delta_log, "at_the_commit"),
    "ids of the topics, asked": (Topics, "ask"),
    "ids of the topics, answered": (Topics, "require_same"),
}
"""What is timed, by where it is defined and its name there."""
Spent = dict[str, list[float]]


class Clock:
    """Times calls; of calls within one another the outermost alone."""

    def __init__(self) -> None:
        self.spent: Spent = defaultdict(list)
        self._inside = threading.local()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        if getattr(self._inside, "part", None) is not None:
            yield
            return
        self._inside.part = part
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part].append(time.perf_counter() - began)
            self._inside.part = None

    @contextmanager
    def on(self, part: str, owner: Any, name: str) -> Iterator[None]:
        """Time a function while the block runs; of a context manager its begin and its end."""
        found = owner.__dict__[name]
        plain = found.__func__ if isinstance(found, classmethod) else found

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

        made: Any = around if name == "at_the_commit" else call
        setattr(owner, name, classmethod(made) if isinstance(found, classmethod) else made)
        try:
            yield
        finally:
            setattr(owner, name, found)


@contextmanager
def batches(times: list[float]) -> Iterator[None]:
    """Note how long each batch takes while the block runs."""
    plain: Callable[..., None] = Steps.__call__

    def call(steps: Steps, *args: Any) -> None:
        began = time.perf_counter()
        plain(steps, *args)
        times.append(time.perf_counter() - began)

    Steps.__call__ = call  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Steps.__call__ = plain  # type: ignore[method-assign]


def measured(spark: SparkSession, job: Job) -> tuple[Spent, list[float], float]:
    """Run a job; return what was spent on each part, on each batch, and in all, in seconds."""
    clock, times = Clock(), list[float]()
    with ExitStack() as stack:
        stack.enter_context(batches(times))
        for part, (owner, name) in (STARTS | PARTS).items():
            stack.enter_context(clock.on(part, owner, name))
        began = time.perf_counter()
        run(job, spark, show=Show())
        return clock.spent, times, time.perf_counter() - began


def job_of(servers: str, topic: str, folder: Path, batch: int) -> Job:
    """Return the job that is measured, whose tables are below a folder."""
    reading = Reading(
        KafkaSource(servers, topic, max_rows=batch),
        json_format(SCHEMA),
        time="ts",
        time_unit="milliseconds",
        lateness=LATENESS,
        future_tolerance=None,
    )
    return Job(
        name="identity",
        inputs={"clicks": Input(reading)},
        transform=Windowed(Tumbling("10 seconds"), by="page", aggs=AGGS),
        sink=Append(str(folder / "views")),
    )


def shown(spent: Spent, times: list[float], seconds: float) -> tuple[Table, dict[str, float]]:
    """Return the figures as a table, and the sums that count."""
    number = len(times)
    made = Table("part", "calls", "ms, median", "ms, largest", "ms a batch", "% of the job")
    for part in STARTS | PARTS:
        found = [1e3 * each for each in spent.get(part, [])]
        if found:
            a_batch = f"{sum(found) / number:.1f}" if part in PARTS else "-"
            share = f"{sum(found) / seconds / 10:.2f}"
            middle, most = f"{statistics.median(found):.1f}", f"{max(found):.1f}"
            made.add_row(part, str(len(found)), middle, most, a_batch, share)
    with_batches = 1e3 * sum(sum(spent.get(part, [])) for part in PARTS)
    at_start = 1e3 * sum(sum(spent.get(part, [])) for part in STARTS)
    sums = {
        "batches": number,
        "ms a batch": with_batches / number,
        "ms of a batch in all": 1e3 * statistics.fmean(times),
        "% of the batches": with_batches / sum(times) / 10,
        "ms at the start": at_start,
        "% of the job": (with_batches + at_start) / seconds / 10,
    }
    made.title = ", ".join(f"{name} {value:,.1f}" for name, value in sums.items())
    return made, sums


def races(place: Arena, spark: SparkSession, rows: int, batch: int, output: Path) -> None:
    """Warm up, then measure a run from the topic's start, and one after a driver's death."""
    servers = place.broker.servers
    found = {}
    for name, count in (("warm", rows // 4), ("measured", rows), ("started again", rows // 4)):
        topic = "clicks-warm" if name == "warm" else "clicks"
        if name != "started again":
            place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
        fill(servers, topic, count, PARTITIONS, stragglers=0.01)
        folder = place.folder / topic
        if name == "started again":
            _died(folder / "views.checkpoint")
        spent, times, seconds = measured(spark, job_of(servers, topic, folder, batch))
        made, sums = shown(spent, times, seconds)
        found[name] = {"sums": sums, "spent": spent, "batches": times, "seconds": seconds}
        made.title = f"{name}: {made.title}"
        report(place.console, made, output, {"messages": rows, "batch": batch, "runs": found})


def _died(checkpoint: Path) -> None:
    """Let the last driver seem to have died, so that the next one has it to fence off."""
    newest = max((checkpoint / "tidegate").glob("identity-*.json"))
    left = Identity.parse(newest.read_bytes(), str(newest))
    newest.write_text(replace(left, ended=False).text())


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 1_000_000,
    batch: Annotated[int, typer.Option(help="Messages in a batch.")] = 100_000,
    output: Output = Path("benchmarks/results/identity.json"),
) -> None:
    """Measure, print a table for each run, and keep the figures as JSON."""
    spark = spark_session("bench", master="local[2]")
    quiet(spark, "ERROR")
    with arena() as place:
        races(place, spark, rows, batch, output)
    spark.stop()


if __name__ == "__main__":
    typer.run(main)
