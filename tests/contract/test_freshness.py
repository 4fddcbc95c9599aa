"""The delay between the watermark and the emitted rows of each transform: the documented table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.joins import IntervalJoin, stream_table
from tidegate.patterns import MatchSequence, sequence, step
from tidegate.spark.jars import project_root
from tidegate.testing import StreamDriver
from tidegate.windows import (
    Cumulative,
    Deduplication,
    Hopping,
    Session,
    Sliding,
    Tumbling,
    WindowAggregation,
)

PAGE = "docs/concepts/emission-timing.md"
START = datetime(2026, 1, 1, tzinfo=UTC)
"""The begin of a window, a pane and a slice of all the lengths below."""
TICK = timedelta(milliseconds=1)
"""The watermark is whole milliseconds."""
AT_ONCE = None
"""In the batch of the row, whatever the watermark."""


@dataclass(frozen=True)
class Case:
    """A transform, its input, and when its first result is emitted, in seconds after START.

    certain: the watermark at which no row in time can change the result any more.
    delay: the delay from then to the emitted result, in this worst case.
    most: the documented maximum."""

    transform: Callable[[DataFrame], DataFrame]
    times: Sequence[float]
    certain: float
    delay: float | None
    most: float


def windowed(window: Any) -> WindowAggregation:
    return WindowAggregation(window, by="key", aggs={"n": count()})


def near(events: DataFrame, emission: Any, times: tuple[float, float]) -> DataFrame:
    """Join events with those of the second time, and keep the rows of the first."""
    join = IntervalJoin("key", within=("8 seconds", "500 milliseconds"), how="left", emit=emission)
    is_right = F.col("value") == times[1]
    marked = events.select("event_time", "key", F.col("value"))
    left = marked.where((F.col("value") == times[0]) | F.col("event_time").isNull())
    right = marked.where(is_right | F.col("event_time").isNull())
    return join(left, right.withColumnRenamed("value", "other"))


def titled(events: DataFrame) -> DataFrame:
    titles = events.sparkSession.createDataFrame([("a", "title")], "key string, title string")
    return stream_table(events, titles, "key")


CASES = {
    "`tumbling`": Case(windowed(Tumbling("8 seconds")), [1], 8, 0, 0),
    "`hopping`": Case(windowed(Hopping("8 seconds", "4 seconds")), [1], 4, 0, 0),
    "`cumulative`": Case(windowed(Cumulative("2 seconds", "8 seconds")), [1], 2, 0, 0),
    "`session`": Case(windowed(Session("8 seconds")), [1], 9, 1, 1),
    "`sliding`": Case(windowed(Sliding("7999999 microseconds")), [0], 0, 1, 1),
    "`stream_stream`, a match": Case(
        lambda events: near(events, "early", (1, 1.5)), [1, 1.5], 1.5, AT_ONCE, 0
    ),
    "`stream_stream`, no match": Case(
        lambda events: near(events, "early", (1, 2)), [1, 2], 1.5, 0.003, 0.003
    ),
    "`stream_stream`, final": Case(
        lambda events: near(events, "final", (0, 1)), [0, 1], 0.5, 8.5, 9
    ),
    "`deduplicate`": Case(Deduplication("key", "8 seconds", max_delay="2 seconds"), [0], 0, 2, 2),
    "`match_sequence`": Case(
        MatchSequence(sequence(step("any"), within="1 minute"), by="key"), [1], 1, 0.001, 0.001
    ),
    "`stream_table`": Case(titled, [1], 1, AT_ONCE, 0),
}


@pytest.fixture(autouse=True, scope="module")
def one_task(spark: SparkSession) -> Iterator[None]:
    """One partition of state is enough for one row."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_each_row_of_the_page_s_table_is_measured() -> None:
    lines = (project_root() / PAGE).read_text(encoding="utf-8").splitlines()
    named = [line.split("|")[1].strip() for line in lines if line.startswith("| `")]
    assert named == list(CASES)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_a_result_comes_out_as_long_after_the_watermark_as_the_page_says(
    spark: SparkSession, name: str
) -> None:
    case = CASES[name]
    schema = "event_time timestamp, key string, value double"
    with StreamDriver(spark, schema, case.transform, watermark_delay="1 minute") as stream:
        came = stream.feed(rows(case.times))
        if case.delay is AT_ONCE:
            assert len(came) == 1
            return
        out = START + timedelta(seconds=case.certain + case.delay)
        # The first millisecond at which it is emitted, and the last at which it is not.
        first = START + -((START - out) // TICK) * TICK
        assert came + stream.advance_to(first - TICK) == []
        assert len(stream.advance_to(first)) == 1
    assert case.delay <= case.most


def rows(times: Iterable[float]) -> list[tuple[datetime, str, float]]:
    return [(START + timedelta(seconds=at), "a", float(at)) for at in times]
