"""Compare one job that replicates many tables with a job for each table, and with one large table.

python -m benchmarks.cases.replicate [--tables 200] [--changes 200000] [--batches 4] [--sampled 8]

The changes have schema parts, as Debezium writes them, and are spread evenly over the tables: three
updates follow each insert. Each contestant gets the same number of changes. Of the jobs for one
table each, some are run one after another in one session, and their times multiplied: in practice
each has a driver of its own. Seconds per batch exclude the first, which creates the tables."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from rich.table import Table

from benchmarks.support.contestant_process import bench_session
from benchmarks.support.harness import Bench, Output, start_bench
from tidegate import Job, run
from tidegate.kafka.producer import Record, deliver
from tidegate.replication import ReplicatedTables, replicated_input
from tidegate.sources import KafkaSource

NOW = int(time.time() * 1000)
COLUMNS = {"id": "int64", "customer": "string", "total": "double", "items": "int32"}
ALL_IN_ONE = "large.public.all"


def declared(
    name: str, fields: Sequence[Mapping[str, object]], field: str = ""
) -> dict[str, object]:
    """Return the declaration of a struct of Kafka Connect, as a field or the whole."""
    declaration: dict[str, object] = {"type": "struct", "name": name, "fields": fields}
    return {**declaration, "optional": True, "field": field} if field else declaration


ROW = [{"type": kind, "optional": True, "field": name} for name, kind in COLUMNS.items()]
SOURCE = [{"type": "int64", "field": "lsn"}, {"type": "int64", "field": "ts_ms"}]
ENVELOPE = declared(
    "shop.Envelope",
    [
        declared("shop.Value", ROW, "before"),
        declared("shop.Value", ROW, "after"),
        declared("io.debezium.connector.postgresql.Source", SOURCE, "source"),
        {"type": "string", "field": "op"},
    ],
)
KEY = declared("shop.Key", ROW[:1])


def with_schema(schema: object, payload: object) -> bytes:
    """Return JSON as Kafka Connect's converter writes it."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def changes_of(topics: list[str], count: int) -> Iterator[Record]:
    """Yield changes that take turns among the topics."""
    for number in range(count):
        turn, table = divmod(number, len(topics))
        row = {
            "id": turn // 4,
            "customer": f"c-{turn}",
            "total": turn / 8,
            "items": turn % 7,
        }
        payload = {
            "before": None,
            "after": row,
            "source": {"lsn": number + 1, "ts_ms": NOW + number},
            "op": "u" if turn % 4 else "c",
        }
        key = with_schema(KEY, {"id": row["id"]})
        yield Record(topics[table], with_schema(ENVELOPE, payload), NOW, key)


@dataclass(frozen=True)
class Replication:
    """One replication job, over the topics of a list."""

    servers: str
    topics: list[str]
    root: Path
    records_per_batch: int

    def run(self, spark: SparkSession) -> tuple[float, float]:
        """Run the job; return its seconds, and those of a batch."""
        source = KafkaSource(
            self.servers, self.topics, max_records_per_batch=self.records_per_batch
        )
        control = str(self.root / "replication")
        job = Job(
            name="bench",
            inputs={"changes": replicated_input(source)},
            sink=ReplicatedTables(control, source=source, root=str(self.root / "tables")),
        )
        started_at = time.monotonic()
        run(job, spark)
        seconds = time.monotonic() - started_at
        commits = DeltaTable.forPath(spark, control).history().sort("version").collect()
        times = [commit["timestamp"] for commit in commits]
        between = [after - before for before, after in pairwise(times)]
        return seconds, sum(each.total_seconds() for each in between) / max(1, len(between))


def measured(
    bench: Bench, spark: SparkSession, tables: int, changes: int, batches: int, sampled: int
) -> dict[str, dict[str, float]]:
    """Return the measurements of each contestant."""
    servers = bench.broker.bootstrap_servers
    topics = [f"shop.public.t{number:03}" for number in range(tables)]
    for topic in (*topics, ALL_IN_ONE, "warm.public.t"):
        bench.broker.create_topic(topic, partitions=1, retention_ms=-1)
    deliver(servers, changes_of(["warm.public.t"], 2_000))
    deliver(servers, changes_of(topics, changes))
    deliver(servers, changes_of([ALL_IN_ONE], changes))
    Replication(servers, ["warm.public.t"], bench.folder / "warm", 500).run(spark)
    results = {}
    for name, read, times in (
        (f"one job, {tables} tables", [topics], 1.0),
        (f"{tables} jobs", [[topic] for topic in topics[:sampled]], tables / sampled),
        ("one job, one table", [[ALL_IN_ONE]], 1.0),
    ):
        seconds = per_batch = 0.0
        for number, of_job in enumerate(read):
            folder = bench.folder / f"{name}-{number}".replace(" ", "-")
            records = changes if len(read) == 1 else changes // tables
            job = Replication(servers, of_job, folder, -(-records // batches))
            all_batches, one_batch = job.run(spark)
            seconds, per_batch = seconds + all_batches * times, per_batch + one_batch * times
        results[name] = {"seconds": seconds, "seconds_per_batch": per_batch}
        bench.console.print(f"  {name:24} {seconds:9,.1f} s, {per_batch:7,.1f} s a batch")
    return results


def main(
    tables: Annotated[int, typer.Option(help="Number of tables.")] = 200,
    changes: Annotated[int, typer.Option(help="Number of changes, over all tables.")] = 200_000,
    batches: Annotated[int, typer.Option(help="Number of batches of each job.")] = 4,
    sampled: Annotated[int, typer.Option(help="Number of jobs for one table to run.")] = 8,
    output: Output = Path("benchmarks/results/replicate.json"),
) -> None:
    """Measure, print a table, and write JSON."""
    with start_bench() as bench:
        spark = bench_session()
        results = measured(bench, spark, tables, changes, batches, min(sampled, tables))
        table = Table("contestant", "changes/s", "seconds", "seconds a batch", title="replicate")
        for name, result in results.items():
            speed = changes / result["seconds"]
            values = (speed, result["seconds"], result["seconds_per_batch"])
            table.add_row(name, *(f"{value:,.1f}" for value in values))
        bench.console.print(table)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"changes": changes, "runs": results}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
