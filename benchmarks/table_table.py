"""Measure a view of two changing tables: posts and follows joined into timelines.

python -m benchmarks.table_table [--rows 100000] [--batch 10000] [--rounds 3] [--large 1000000]
    [--changes 100]

First: `rows` changes of each table, in batches of `batch` messages, half of them of either table:
new rows, and for two of ten a deletion or a move of an older one to another author. Authors have
about eight posts and eight followers each. Beside it the same by hand, in plain PySpark: each batch
is appended to a log of each table, and the join of the newest rows of both is computed anew and
written over the last one. Both run in turns in one session, in rounds, after a round that is not
counted. The view and its tables have 16 buckets.

Then: tables of `large` rows each, four posts and four followers an author, loaded in one batch and
compacted, as a view does by itself after some batches; and batches of `changes` messages. How long
they take, beside the same by hand in a process of its own, and what is read and written of each
table, in rows and files, by Spark's metrics of each scan and Delta's of each commit."""

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

from tidegate.testing.scans import Scans

from .contest import Usage, started
from .harness import Rounds, ratio
from .table_contestants import CONTESTANTS, Write, messages, timelines

SMALL_BATCHES, SMALL_BUCKETS = 10, 16
_IN_TURNS = "in turns"
Found = dict[str, Any]


def main(
    rows: Annotated[int, typer.Option(help="Changes of each table.")] = 100_000,
    batch: Annotated[int, typer.Option(help="Messages of a batch.")] = 10_000,
    rounds: Rounds = 3,
    large: Annotated[
        int, typer.Option(help="Rows of each of the large tables; 0 leaves them out.")
    ] = 1_000_000,
    changes: Annotated[
        int, typer.Option(help="Messages of a batch that changes the large tables.")
    ] = 100,
    buckets: Annotated[int, typer.Option(help="Buckets of each of the large tables.")] = 1_000,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/results/table_table.json"
    ),
    only: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, print tables, and keep the figures as JSON."""
    if only is not None:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            found = (
                in_turns(Path(folder), rows, batch, rounds)
                if only == _IN_TURNS
                else grown(only, Path(folder), large, changes, buckets)
            )
        output.write_text(json.dumps(found), encoding="utf-8")
        return
    runs = {_IN_TURNS: alone(_IN_TURNS)}
    if large:
        runs |= {name: alone(name) for name in CONTESTANTS}
    Console(width=140).print(*shown(runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


def alone(name: str) -> Found:
    """Run a part of this program in a process of its own, with the options that it was given, and
    give what it measured."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place = Path(folder) / "measured.json"
        line = [
            sys.executable,
            "-m",
            "benchmarks.table_table",
            *sys.argv[1:],
            "--only",
            name,
            "--output",
            str(place),
        ]
        subprocess.run(line, check=True)
        found: Found = json.loads(place.read_text(encoding="utf-8"))
        return found


def in_turns(folder: Path, rows: int, batch: int, rounds: int) -> Found:
    """Let the contestants keep the timelines current, one after the other, again and again."""
    spark, runs = started(), defaultdict(list)
    frames = list(prepared(spark, folder / "many", rows, batch))
    for number in range(rounds + 1):
        for name in CONTESTANTS:
            found = kept_current(spark, name, folder / f"{number}-{name}", frames)
            if number:
                runs[name].append(found)
    return {"messages": 2 * rows, "batches": len(frames), "runs": runs}


def kept_current(
    spark: SparkSession, name: str, folder: Path, frames: Sequence[DataFrame]
) -> Found:
    """Let one contestant keep the timelines current, batch by batch."""
    with Usage() as usage:
        began = time.monotonic()
        feed(CONTESTANTS[name](spark, folder, SMALL_BUCKETS), frames)
        seconds = time.monotonic() - began
    table = spark.read.format("delta").load(str(folder / "view"))
    print_ = table.select(
        F.sum(F.xxhash64("author", "post", "text", "follower").cast("decimal(38,0)"))
    ).head()
    return {
        "seconds": seconds,
        "cpu": usage.cpu,
        "rows": table.count(),
        "print": str(print_[0] if print_ else None),
    }


def feed(write: Write, frames: Iterable[DataFrame]) -> None:
    """Write the batches one after the other, each kept in memory as the runner does."""
    for number, frame in enumerate(frames):
        frame.persist()
        write(frame, number)
        frame.unpersist()


def prepared(spark: SparkSession, folder: Path, rows: int, batch: int) -> Iterator[DataFrame]:
    """Return the batches, read from files, so that their making is not measured."""
    count, half = -(-2 * rows // batch), batch // 2
    for number in range(count):
        messages(
            spark, number * half, min(rows, (number + 1) * half), rows // 10, version=1
        ).write.parquet(str(folder / str(number)))
    return (spark.read.parquet(str(folder / str(number))) for number in range(count))


def grown(name: str, folder: Path, large: int, changes: int, buckets: int) -> Found:
    """Load the large tables in one batch, then change a few rows, and say how long it took and what
    was touched."""
    spark, authors = started(), large // 4
    write = CONTESTANTS[name](spark, folder, buckets)
    fresh = messages(spark, 0, large * 10 // 8, authors, version=1)
    began = time.monotonic()
    feed(write, [fresh])
    if name == "view":
        timelines(folder, buckets).compact(spark)
    loaded, batches = time.monotonic() - began, []
    for number in range(1, SMALL_BATCHES + 1):
        start = 2 * large + number * changes
        rows = messages(spark, start, start + changes // 2, authors, version=1).collect()
        frame = spark.createDataFrame(rows, fresh.schema).persist()
        began = time.monotonic()
        with Scans(spark) as scans:
            write(frame, number)
        seconds = time.monotonic() - began
        tables = (
            {table: touched(spark, folder, table, scans) for table in TABLES}
            if name == "view"
            else {}
        )
        batches.append({"seconds": seconds, "tables": tables})
    return {"loaded_seconds": loaded, "batches": batches}


TABLES = ("view", "posts", "follows")


def touched(spark: SparkSession, folder: Path, name: str, scans: Scans) -> Found:
    """Say what a table holds, what of it was read, and what its last commit wrote."""
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


def shown(runs: dict[str, Found]) -> Iterator[Table]:
    """Return the figures as tables."""
    small = runs[_IN_TURNS]
    beside_hand = ("k messages/s", "time to by hand", "CPU time", "batches", "rows")
    first = Table("", *beside_hand, title="timelines kept current")
    rival = small["runs"]["by hand"]
    for name, found in small["runs"].items():
        seconds = statistics.median(run["seconds"] for run in found)
        speed = f"{small['messages'] / seconds / 1e3:,.2f}"
        beside = [ratio(found, rival, key) for key in ("seconds", "cpu")]
        first.add_row(name, speed, *beside, f"{small['batches']}", f"{found[0]['rows']:,}")
    if len({run["print"] for found in small["runs"].values() for run in found}) > 1:
        first.caption = "the views DIFFER"
    yield first
    if "view" not in runs:
        return
    columns = (
        "rows",
        "files",
        "most rows read by a scan",
        "files",
        "rows written",
        "copied",
        "files added",
        "removed",
    )
    batches = runs["view"]["batches"]
    second = Table("table", *columns, title="the last batch of few changes")
    for name, table in batches[-1]["tables"].items():
        files, rows = max(table["scans"], key=lambda scan: scan[1], default=(0, 0))
        held = [f"{table[key]:,}" for key in ("rows", "files")]
        wrote = [
            f"{table[key]:,}"
            for key in ("rows_written", "rows_copied", "files_added", "files_removed")
        ]
        second.add_row(name, *held, f"{rows:,}", f"{files:,}", *wrote)
    yield second
    third = Table("", "loaded, s", "median batch, s", "batches, s", title="batches of few changes")
    for name in CONTESTANTS:
        run = runs[name]
        times = [each["seconds"] for each in run["batches"]]
        each = " ".join(f"{seconds:.1f}" for seconds in times)
        third.add_row(name, f"{run['loaded_seconds']:.0f}", f"{statistics.median(times):.1f}", each)
    yield third


if __name__ == "__main__":
    typer.run(main)
