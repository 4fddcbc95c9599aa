"""Measure a materialized view of two changing tables: posts and follows joined into timelines.

python -m benchmarks.cases.table_table [--rows 100000] [--batch 10000] [--rounds 3]
    [--large 1000000] [--changes 100]

First part: `rows` changes of each table, in batches of `batch` messages, half of them of either
table: new rows, and for two of ten a delete, or a move of an earlier row to another author. Authors
have about eight posts and eight followers each. Plain PySpark appends each batch to a log of each
table, recomputes the join of the latest rows and overwrites the result. Both alternate in one
session, in rounds; the first round is a warm-up. The view and its tables have 16 buckets.

Second part: tables of `large` rows each, with four posts and four followers an author, loaded in
one batch and compacted; then batches of `changes` messages. The program reports the times, those of
plain PySpark in a separate process, and the rows and files read and written of each table, by the
scan metrics of Spark and the commit metrics of Delta."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.contestants.view_queries import CONTESTANTS, Write, messages, timelines
from benchmarks.support.contestant_process import Usage, bench_session
from benchmarks.support.harness import Rounds, ratio
from tests.support.scan_metrics import ScanRecorder

SMALL_BATCHES, SMALL_BUCKETS = 10, 16
_ALTERNATING = "alternating"
Measurement = dict[str, Any]


def main(
    rows: Annotated[int, typer.Option(help="Number of changes of each table.")] = 100_000,
    batch: Annotated[int, typer.Option(help="Number of messages in a batch.")] = 10_000,
    rounds: Rounds = 3,
    large: Annotated[
        int, typer.Option(help="Number of rows of each large table; 0 skips this part.")
    ] = 1_000_000,
    changes: Annotated[
        int, typer.Option(help="Number of messages in a batch of the large tables.")
    ] = 100,
    buckets: Annotated[int, typer.Option(help="Number of buckets of each large table.")] = 1_000,
    output: Annotated[Path, typer.Option(help="File of the results, JSON.")] = Path(
        "benchmarks/results/table_table.json"
    ),
    only: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, print tables, and write JSON."""
    if only is not None:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            results = (
                measure_alternating(Path(folder), rows, batch, rounds)
                if only == _ALTERNATING
                else measure_large_tables(only, Path(folder), large, changes, buckets)
            )
        output.write_text(json.dumps(results), encoding="utf-8")
        return
    runs = {_ALTERNATING: run_part(_ALTERNATING)}
    if large:
        runs |= {name: run_part(name) for name in CONTESTANTS}
    Console(width=140).print(*to_table(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


def run_part(name: str) -> Measurement:
    """Run a part of this program in a subprocess, with the same options."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        result_file = Path(folder) / "measured.json"
        line = [
            sys.executable,
            "-m",
            "benchmarks.cases.table_table",
            *sys.argv[1:],
            "--only",
            name,
            "--output",
            str(result_file),
        ]
        subprocess.run(line, check=True)
        results: Measurement = json.loads(result_file.read_text(encoding="utf-8"))
        return results


def measure_alternating(folder: Path, rows: int, batch: int, rounds: int) -> Measurement:
    """Run the contestants, which maintain the timelines, in alternation."""
    spark, runs = bench_session(), defaultdict(list)
    frames = list(prepare_batches(spark, folder / "many", rows, batch))
    for number in range(rounds + 1):
        for name in CONTESTANTS:
            results = maintain_view(spark, name, folder / f"{number}-{name}", frames)
            if number:
                runs[name].append(results)
    return {"messages": 2 * rows, "batches": len(frames), "runs": runs}


def maintain_view(
    spark: SparkSession, name: str, folder: Path, frames: Sequence[DataFrame]
) -> Measurement:
    """Run one contestant, which maintains the timelines, batch by batch."""
    with Usage() as usage:
        started_at = time.monotonic()
        feed(CONTESTANTS[name](spark, folder, SMALL_BUCKETS), frames)
        seconds = time.monotonic() - started_at
    table = spark.read.format("delta").load(str(folder / "view"))
    checksum = table.select(
        F.sum(F.xxhash64("author", "post", "text", "follower").cast("decimal(38,0)"))
    ).head()
    return {
        "seconds": seconds,
        "cpu": usage.cpu,
        "rows": table.count(),
        "checksum": str(checksum[0] if checksum else None),
    }


def feed(write: Write, frames: Iterable[DataFrame]) -> None:
    """Write the batches in order, each cached as by the runner."""
    for number, frame in enumerate(frames):
        frame.persist()
        write(frame, number)
        frame.unpersist()


def prepare_batches(
    spark: SparkSession, folder: Path, rows: int, batch: int
) -> Iterator[DataFrame]:
    """Return the batches, read from files, so that their generation is not measured."""
    count, half = -(-2 * rows // batch), batch // 2
    for number in range(count):
        messages(
            spark, number * half, min(rows, (number + 1) * half), rows // 10, version=1
        ).write.parquet(str(folder / str(number)))
    return (spark.read.parquet(str(folder / str(number))) for number in range(count))


def measure_large_tables(
    name: str, folder: Path, large: int, changes: int, buckets: int
) -> Measurement:
    """Load the large tables in one batch, then measure batches of few changes."""
    spark, authors = bench_session(), large // 4
    write = CONTESTANTS[name](spark, folder, buckets)
    fresh = messages(spark, 0, large * 10 // 8, authors, version=1)
    started_at = time.monotonic()
    feed(write, [fresh])
    if name == "view":
        timelines(folder, buckets).compact(spark)
    loaded, batches = time.monotonic() - started_at, []
    for number in range(1, SMALL_BATCHES + 1):
        start = 2 * large + number * changes
        rows = messages(spark, start, start + changes // 2, authors, version=1).collect()
        frame = spark.createDataFrame(rows, fresh.schema).persist()
        started_at = time.monotonic()
        with ScanRecorder(spark) as scans:
            write(frame, number)
        seconds = time.monotonic() - started_at
        tables = (
            {table: table_metrics(spark, folder, table, scans) for table in TABLES}
            if name == "view"
            else {}
        )
        batches.append({"seconds": seconds, "tables": tables})
    return {"loaded_seconds": loaded, "batches": batches}


TABLES = ("view", "posts", "follows")


def table_metrics(spark: SparkSession, folder: Path, name: str, scans: ScanRecorder) -> Measurement:
    """Return the size of a table, its scans, and the metrics of its last commit."""
    path = str(folder / name)
    detail, last = (
        DeltaTable.forPath(spark, path).detail().head(),
        DeltaTable.forPath(spark, path).history(1).head(),
    )
    metrics = {} if last is None else dict(last["operationMetrics"])
    read = scans.tables[name]
    return {
        "rows": spark.read.format("delta").load(path).count(),
        "files": 0 if detail is None else detail["numFiles"],
        "scans": read.scans,
        "rows_written": int(metrics["numOutputRows"]),
        "rows_copied": int(metrics.get("numTargetRowsCopied", 0)),
        "files_added": int(metrics.get("numTargetFilesAdded", metrics.get("numFiles", 0))),
        "files_removed": int(metrics.get("numTargetFilesRemoved", 0)),
        "deletion_vectors": int(metrics.get("numTargetDeletionVectorsAdded", 0)),
    }


def to_table(runs: dict[str, Measurement]) -> Iterator[Table]:
    """Return the results as tables."""
    small = runs[_ALTERNATING]
    first_columns = ("k messages/s", "time / plain PySpark", "CPU time", "batches", "rows")
    first = Table("", *first_columns, title="maintenance of the timelines")
    baseline = small["runs"]["plain PySpark"]
    for name, results in small["runs"].items():
        seconds = statistics.median(run["seconds"] for run in results)
        speed = f"{small['messages'] / seconds / 1e3:,.2f}"
        ratios = [ratio(results, baseline, key) for key in ("seconds", "cpu")]
        first.add_row(name, speed, *ratios, f"{small['batches']}", f"{results[0]['rows']:,}")
    if len({run["checksum"] for results in small["runs"].values() for run in results}) > 1:
        first.caption = "the views DIFFER"
    yield first
    if "view" not in runs:
        return
    columns = (
        "rows",
        "files",
        "max. rows of a scan",
        "files",
        "rows written",
        "copied",
        "files added",
        "removed",
    )
    batches = runs["view"]["batches"]
    second = Table("table", *columns, title="last small batch")
    for name, table in batches[-1]["tables"].items():
        files, rows = max(table["scans"], key=lambda scan: scan[1], default=(0, 0))
        sizes = [f"{table[key]:,}" for key in ("rows", "files")]
        wrote = [
            f"{table[key]:,}"
            for key in ("rows_written", "rows_copied", "files_added", "files_removed")
        ]
        second.add_row(name, *sizes, f"{rows:,}", f"{files:,}", *wrote)
    yield second
    third = Table("", "loaded, s", "median batch, s", "batches, s", title="small batches")
    for name in CONTESTANTS:
        run = runs[name]
        times = [each["seconds"] for each in run["batches"]]
        each = " ".join(f"{seconds:.1f}" for seconds in times)
        third.add_row(name, f"{run['loaded_seconds']:.0f}", f"{statistics.median(times):.1f}", each)
    yield third


if __name__ == "__main__":
    typer.run(main)
