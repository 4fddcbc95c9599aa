"""Measure what it takes to read and parse a topic, by what the rows keep of Kafka.

python -m benchmarks.reading [--rows 4000000] [--rounds 5] [--unreadable 0] [--only NAME]...

Batches over the whole topic, whose rows go nowhere; all in one session, in rounds over one topic,
after a round that is not counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from tidegate.command.kafka import Cluster
from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.sources import KafkaSource, Reading

from .contest import Contestant, Place, measured, started
from .harness import PARTITIONS, Only, Output, Rounds, Runs, arena, chosen, report, table
from .topic import SCHEMA, fill

NOTHING = "nothing of Kafka's"
_PLACE = ("partition", "offset")
_BUT_HEADERS = ("topic", *_PLACE, "timestamp", "key")


def _keeping(keep: Sequence[str]) -> Contestant:
    """Return a contestant that reads the topic, with some of Kafka's columns."""

    def read(spark: SparkSession, place: Place) -> None:
        ends = Cluster(place.servers, ()).ends({place.topic: range(PARTITIONS)})
        end = {place.topic: {part: stop for (_, part), stop in ends.items()}}
        reading = Reading(
            source=KafkaSource(place.servers, place.topic),
            format=json_format(SCHEMA),
            time=instant(F.col("ts"), "milliseconds"),
            lateness="0 seconds",
            keep=keep,
            future_tolerance=None,
        )
        rows = reading.batch(spark, {}, end, Observation())
        rows.write.format("noop").mode("overwrite").save()

    return read


KEEPING: dict[str, Contestant] = {
    NOTHING: _keeping(()),
    "partition and offset": _keeping(_PLACE),
    "all but headers": _keeping(_BUT_HEADERS),
    "all": _keeping((*_BUT_HEADERS, "headers")),
}
"""By name: a reading, by what its rows keep of Kafka."""


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 4_000_000,
    rounds: Rounds = 5,
    unreadable: Annotated[float, typer.Option(help="The share of records that are cut off.")] = 0.0,
    only: Only = None,
    output: Output = Path("benchmarks/results/reading.json"),
) -> None:
    """Measure, print a table of ratios, and keep the figures as JSON."""
    names = chosen(KEEPING, only)
    runs: Runs = defaultdict(list)
    with arena() as place:
        topic = place.broker.create_topic("clicks", PARTITIONS, retention_ms=-1)
        fill(place.broker.servers, topic, rows, PARTITIONS, unreadable=unreadable)
        spark = started()
        for number in range(rounds + 1):
            for name in names:
                found = measured(
                    spark, KEEPING[name], Place(place.broker.servers, topic, place.folder / name)
                )
                if number:
                    runs[name].append(found)
                speed = rows / found["seconds"] / 1e3
                place.console.print(f"  round {number}  {name:24} {speed:9,.1f} thousand/s")
        spark.stop()
        made = table(runs, rows, dict.fromkeys(KEEPING, NOTHING), title="a topic read")
        report(place.console, made, output, {"rows": rows, "unreadable": unreadable, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
