"""A stream-stream join and a view that pair the records of two topics by id."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.support.delta_tables import rows
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, json_format
from tidegate.joins import IntervalJoin
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.views import KeyedTable, View

START = datetime(2026, 3, 2, 9, 40, tzinfo=UTC)
TEN = START + timedelta(minutes=20)
IDS = range(6)
SIDES = ("left", "right")
Build = Callable[[str, str, Path], Job]
"""Builds a job from the servers, the name of its topics without the side, and a folder."""


def inputs(servers: str, topic: str) -> dict[str, Input]:
    """Return the inputs of both jobs; `where` is true until ten o'clock UTC."""
    return {
        side: Input(
            KafkaSource(servers, f"{topic}-{side}", max_records_per_batch=4),
            json_format(f"id INT, {side} STRING, at TIMESTAMP"),
            time="at",
            watermark_delay="0 seconds",
            future_tolerance=None,
            where="hour(at) < 10",
        )
        for side in SIDES
    }


def create_topics(broker: Broker, topic: str) -> None:
    """Create the topic of each side."""
    for side in SIDES:
        broker.create_topic(f"{topic}-{side}", retention_ms=-1)


def join_job(servers: str, topic: str, root: Path) -> Job:
    """Return a job whose table gets the pairs of both topics."""
    return Job(
        name="pairs",
        inputs=inputs(servers, topic),
        transform=IntervalJoin("id", within=("1 minute", "1 minute"), how="inner"),
        sink=Append(str(root / "pairs")),
    )


def view_job(servers: str, topic: str, root: Path) -> Job:
    """Return a job whose view has the pairs of the newest row of each id of both topics."""

    def table(side: str) -> KeyedTable:
        def changes(frame: DataFrame) -> DataFrame:
            return frame.selectExpr("id", side, "event_time AS changed", "false AS deleted")

        return KeyedTable(
            str(root / side),
            output=side,
            input=side,
            key="id",
            lookup_by="id",
            order_by="changed",
            to_changes=changes,
        )

    view = View(str(root / "pairs"), left=table("left"), right=table("right"), on="id")
    return Job(name="view", inputs=inputs(servers, topic), sink=view)


def send(servers: str, topic: str, ids: Sequence[int], *others: int) -> None:
    """Send a record of each id to both topics, and others whose time is ten o'clock."""
    for side in SIDES:
        values = [
            {"id": number, side: f"{side} {number}", "at": START + timedelta(minutes=2 * number)}
            for number in ids
        ]
        values += [{"id": other, side: "filtered", "at": TEN} for other in others]
        records = [json.dumps(value, default=datetime.isoformat).encode() for value in values]
        produce(servers, f"{topic}-{side}", records)


def pairs(root: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the table of either job."""
    return sorted((row["id"], row["left"], row["right"]) for row in rows(root / "pairs"))


def expected(ids: Sequence[int]) -> list[tuple[int, str, str]]:
    """Return the rows for ids that were sent to both topics."""
    return [(number, f"left {number}", f"right {number}") for number in ids]
