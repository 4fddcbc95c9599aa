"""Measure reading and parsing a topic, by the retained Kafka columns.

python -m benchmarks.cases.kafka_reading [--rows 4000000] [--rounds 5] [--unreadable 0]
    [--only NAME]...

Each run reads the topic as one batch and discards the rows. All runs share one session; the first
round is a warm-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from benchmarks.support.click_topic import SCHEMA, fill
from benchmarks.support.contestant_process import Contestant, RunContext, bench_session, measure
from benchmarks.support.harness import (
    PARTITIONS,
    Only,
    Output,
    Rounds,
    Runs,
    comparison_table,
    report,
    select_contestants,
    start_bench,
)
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.kafka.admin import Cluster
from tidegate.sources import Input, KafkaSource

NO_COLUMNS = "no Kafka columns"
_OFFSET = ("partition", "offset")
_NO_HEADERS = ("topic", *_OFFSET, "timestamp", "key")


def _reader(kafka_columns: Sequence[str]) -> Contestant:
    """Return a contestant that reads the topic with these Kafka columns."""

    def read(spark: SparkSession, context: RunContext) -> None:
        ends = Cluster(context.servers, ()).end_offsets({context.topic: range(PARTITIONS)})
        end = {context.topic: {part: stop for (_, part), stop in ends.items()}}
        clicks = Input(
            source=KafkaSource(context.servers, context.topic),
            format=json_format(SCHEMA),
            time=epoch_to_timestamp(F.col("ts"), "milliseconds"),
            watermark_delay="0 seconds",
            kafka_columns=kafka_columns,
            future_tolerance=None,
        )
        rows = clicks.batch(spark, {}, end, Observation())
        rows.write.format("noop").mode("overwrite").save()

    return read


READERS: dict[str, Contestant] = {
    NO_COLUMNS: _reader(()),
    "partition and offset": _reader(_OFFSET),
    "all but headers": _reader(_NO_HEADERS),
    "all": _reader((*_NO_HEADERS, "headers")),
}


def main(
    rows: Annotated[int, typer.Option(help="Number of messages in the topic.")] = 4_000_000,
    rounds: Rounds = 5,
    unreadable: Annotated[float, typer.Option(help="Share of truncated records.")] = 0.0,
    only: Only = None,
    output: Output = Path("benchmarks/results/kafka_reading.json"),
) -> None:
    """Measure, print a table of ratios, and write JSON."""
    names = select_contestants(READERS, only)
    runs: Runs = defaultdict(list)
    with start_bench() as bench:
        topic = bench.broker.create_topic("clicks", PARTITIONS, retention_ms=-1)
        fill(bench.broker.bootstrap_servers, topic, rows, PARTITIONS, unreadable=unreadable)
        spark = bench_session()
        for number in range(rounds + 1):
            for name in names:
                results = measure(
                    spark,
                    READERS[name],
                    RunContext(bench.broker.bootstrap_servers, topic, bench.folder / name),
                )
                if number:
                    runs[name].append(results)
                speed = rows / results["seconds"] / 1e3
                bench.console.print(f"  round {number}  {name:24} {speed:9,.1f} thousand/s")
        spark.stop()
        comparison = comparison_table(
            runs, rows, dict.fromkeys(READERS, NO_COLUMNS), title="Reading a topic"
        )
        report(
            bench.console,
            comparison,
            output,
            {"rows": rows, "unreadable": unreadable, "runs": runs},
        )


if __name__ == "__main__":
    typer.run(main)
