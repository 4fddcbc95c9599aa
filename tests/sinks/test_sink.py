"""What every sink tells of itself."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.errors import ArgumentError
from tidegate.sinks import (
    Append,
    Corrected,
    FanOut,
    FirstSeen,
    Mapped,
    Sink,
    TemporalJoin,
    VersionTable,
    sole,
)
from tidegate.sketches import BloomTable
from tidegate.windows import Tumbling, Windowed

VIEWS = Windowed(Tumbling("1 minute"), aggs={"n": count()})
SINKS: dict[str, tuple[Sink, list[tuple[str, str]]]] = {
    "append": (Append("a"), [("a", "append")]),
    "corrected": (
        Corrected("a", windowed=VIEWS, log="l"),
        [("l", "windows_log"), ("a", "windows")],
    ),
    "corrected without a log": (
        Corrected("a", windowed=VIEWS, log=None),
        [("a", "windows")],
    ),
    "first seen": (
        FirstSeen("a", repeated="r", seen="s", known=BloomTable(key="id", keys=1_000)),
        [("r", "repeated"), ("a", "append"), ("s", "seen")],
    ),
    "temporal join": (
        TemporalJoin(
            "a",
            waiting="w",
            misses="m",
            versions=VersionTable("v", on="user", order=["offset"]),
            lateness="1 second",
        ),
        [("v", "versions"), ("m", "misses"), ("a", "append"), ("w", "waiting")],
    ),
    "several": (
        FanOut(Append("a"), also=[Mapped(rows=lambda rows: rows, sink=Append("h", step="h"))]),
        [("h", "h"), ("a", "append")],
    ),
}


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_lists_every_table_that_it_writes_in_their_order(name: str) -> None:
    sink, tables = SINKS[name]
    assert sink.tables() == tables
    assert (sink.path, sink.step) in tables


def test_a_sink_of_one_table_refuses_the_frames_of_several_inputs(spark: SparkSession) -> None:
    frame = spark.range(1)
    assert sole({"rows": frame}) is frame
    with pytest.raises(ArgumentError, match="the frames clicks, users"):
        sole({"clicks": frame, "users": frame})
    with pytest.raises(ArgumentError, match="the frames none"):
        sole({})
