"""Deduplication within an interval of event time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few, varied
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError
from tidegate.testing import StreamDriver
from tidegate.windows import Deduplication, deduplicate

SECOND = 1_000_000
BASE = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
SCHEMA = "event_time timestamp, key string, position int"
WITHIN, WATERMARK_DELAY, SPAN = 10, 4, 60


class Event(NamedTuple):
    """Seconds since BASE, a key, the position in the log."""

    at: float
    key: str | None
    position: int


class Arrival(NamedTuple):
    """Micro-batches, and after which of them the query is stopped and started."""

    batches: list[list[Event]]
    restarts: set[int]

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Draw events of few keys in random micro-batches, in an order without late events."""
    ticks = st.one_of(
        st.integers(0, SPAN), st.integers(0, 4 * SPAN).map(lambda n: n / 4), st.just(10.000001)
    )
    event = st.tuples(ticks, st.sampled_from(["a", "b", "c", None]))
    drawn = draw(varied(st.lists(event, min_size=2, max_size=80)))
    delays = draw(
        st.lists(st.integers(0, WATERMARK_DELAY), min_size=len(drawn), max_size=len(drawn))
    )
    order = sorted(range(len(drawn)), key=lambda n: drawn[n][0] + delays[n])
    arrived = [Event(*drawn[n], position) for position, n in enumerate(order)]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(arrived) - 1)), max_size=3)))
    batches = [arrived[a:b] for a, b in pairwise([0, *cuts, len(arrived)]) if arrived[a:b]]
    return Arrival(batches, draw(st.sets(st.integers(0, len(batches) - 1), max_size=1)))


def oracle(events: Iterable[Event], within: float) -> list[Event]:
    """Return the events that are not duplicates, by definition."""
    unique_events, last = [], defaultdict[str, float](lambda: float("-inf"))
    for event in sorted(events, key=lambda event: (event.at, event.position)):
        if event.key is None or event.at - last[event.key] > within:
            unique_events.append(event)
        if event.key is not None:
            last[event.key] = event.at
    return sorted(unique_events, key=by_position)


def instant(seconds: float) -> datetime:
    return BASE + timedelta(microseconds=round(seconds * SECOND))


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    return spark.createDataFrame(
        [(instant(event.at), event.key, event.position) for event in events], SCHEMA
    )


def events_of(rows: DataFrame) -> list[Event]:
    collected = rows.select(F.unix_micros("event_time"), "key", "position").collect()
    start = round(BASE.timestamp() * SECOND)
    return sorted(
        (Event((micros - start) / SECOND, key, position) for micros, key, position in collected),
        key=by_position,
    )


def by_position(event: Event) -> int:
    return event.position


def deduplicated(events: DataFrame, max_delay: str = "3 seconds") -> DataFrame:
    return deduplicate(events, "key", f"{WITHIN} seconds", max_delay=max_delay, order="position")


@pytest.mark.draws
@pytest.mark.slow
def test_stream_and_batch_equal_the_oracle(spark: SparkSession) -> None:
    @few()
    @given(arrivals())
    def agree(arrival: Arrival) -> None:
        expected = oracle(arrival.events, WITHIN)
        assert events_of(deduplicated(frame(spark, arrival.events))) == expected
        with StreamDriver(
            spark, SCHEMA, deduplicated, watermark_delay=f"{WATERMARK_DELAY} seconds"
        ) as stream:
            for number, batch in enumerate(arrival.batches):
                stream.feed(frame(spark, batch))
                if number in arrival.restarts:
                    stream.restart()
            stream.advance_to(instant(10 * SPAN))
            assert events_of(stream.results()) == expected

    agree()


@pytest.mark.parametrize(
    "max_delay", ["10 seconds", "5 seconds", "1 second 700 milliseconds", "100 milliseconds"]
)
def test_max_delay_does_not_change_the_result(spark: SparkSession, max_delay: str) -> None:
    events = [Event(n * n * 37 % 4_000 / 10, "abcdefg"[n % 7], n) for n in range(400)]
    assert events_of(deduplicated(frame(spark, events), max_delay)) == oracle(events, WITHIN)


def test_the_interval_is_inclusive_counts_from_the_previous_event_and_spans_1970(
    spark: SparkSession,
) -> None:
    #  0      10           20.000001     25    1:00  1:00     before 1970
    #  first  duplicate    first         dup   first dup      first, dup, first
    past = (datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC) - BASE).total_seconds()
    events = [
        Event(0, "a", 1),
        Event(10, "a", 2),
        Event(20.000001, "a", 3),
        Event(25, "a", 4),
        Event(60, "a", 6),
        Event(60, "a", 5),
        Event(past, "p", 7),
        Event(past + 10, "p", 8),
        Event(past + 20.5, "p", 9),
    ]
    unique_events = events_of(deduplicated(frame(spark, events)))
    assert [event.position for event in unique_events] == [1, 3, 5, 7, 9]
    assert unique_events == oracle(events, WITHIN)


def test_an_event_with_a_null_key_is_not_a_duplicate(spark: SparkSession) -> None:
    rows = [
        (instant(1), "a", None, 1),
        (instant(2), "a", None, 2),
        (instant(3), "a", "x", 3),
        (instant(4), "a", "x", 4),
        (None, "a", "x", 5),
    ]
    events = spark.createDataFrame(
        rows, "event_time timestamp, key string, part string, position int"
    )
    unique_events = deduplicate(
        events, ["key", "part"], "10 seconds", max_delay="10 seconds", order="position"
    )
    assert unique_events.columns == events.columns
    assert sorted(row.position for row in unique_events.collect()) == [1, 2, 3]


@pytest.mark.slow
def test_the_earliest_event_is_emitted_with_its_pane_even_if_it_arrives_last(
    spark: SparkSession,
) -> None:
    with StreamDriver(spark, SCHEMA, deduplicated, watermark_delay="4 seconds") as stream:
        assert stream.feed([(instant(3), "a", 1)]) == []
        assert stream.feed([(instant(1), "a", 2)]) == []
        assert [row.position for row in stream.advance_to(instant(3))] == [2]
        # The third row is late for its pane, so it is dropped and later events ignore it.
        assert (
            stream.feed([(instant(2.5), "late", 3), (instant(5), "late", 4), (instant(5), "b", 5)])
            == []
        )
        assert sorted(row.position for row in stream.advance_to(instant(6))) == [4, 5]
        assert stream.advance_to(instant(60)) == []


@pytest.mark.slow
def test_the_state_is_bounded_by_within_and_not_by_the_watermark(spark: SparkSession) -> None:
    with StreamDriver(spark, SCHEMA, deduplicated, watermark_delay="1 minute") as stream:
        stream.feed([(instant(n), f"k{n}", n) for n in range(20)])
        stream.feed([(instant(500), "z", 100)])
        stream.advance_to(instant(450))
        query = stream._query
        assert query is not None
        operators = [
            operator for progress in query.recentProgress for operator in progress.stateOperators
        ]
        added, removed = (
            sum(getattr(o, name) for o in operators)
            for name in ("numRowsUpdated", "numRowsRemoved")
        )
        # 21 rows for the panes of the 20 keys and z. When the panes of the keys closed, each key
        # had a row in five panes: its own and the four within reach. The pane of z remains open.
        assert (added, removed) == (21 + 20 * 5, 20 + 20 * 5)
    with StreamDriver(spark, SCHEMA, deduplicated, watermark_delay="0 seconds") as stream:
        for row in (
            [(instant(0), "a", 1)],
            [(instant(9), "b", 2)],
            [(instant(10), "a", 3)],
            [(instant(90), "c", 4)],
        ):
            stream.feed(row)
        # The watermark has passed the first event when its duplicate, the third event, arrives.
        assert sorted(row.position for row in stream.results().collect()) == [1, 2]


def test_late_at_is_the_end_of_the_pane(spark: SparkSession) -> None:
    ends = frame(spark, [Event(0, "a", 1), Event(2.999999, "a", 2), Event(3, "a", 3)]).select(
        Deduplication("key", "3 seconds", max_delay="3 seconds").late_at(F.col("event_time"))
    )
    assert [row[0].astimezone(UTC) for row in ends.collect()] == [
        instant(3),
        instant(3),
        instant(6),
    ]


def test_many_events_of_one_key_return_one_row(spark: SparkSession) -> None:
    events = spark.range(50_000).select(
        F.timestamp_micros(
            F.lit(round(instant(0).timestamp() * SECOND)) + F.col("id") * 1_000
        ).alias("event_time"),
        F.lit("hot").alias("key"),
        F.col("id").cast("int").alias("position"),
    )
    assert [row.position for row in deduplicated(events).collect()] == [0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": "nobody"}, ColumnError, "invalid key: no column 'nobody'"),
        ({"key": []}, ArgumentError, "invalid key: no columns"),
        ({"order": "nothing"}, ColumnError, "invalid order: no column 'nothing'"),
        ({"within": "0 seconds"}, ArgumentError, "invalid within"),
        ({"max_delay": "11 seconds"}, ArgumentError, "invalid max_delay: '11 seconds'"),
        ({"max_delay": "99 milliseconds"}, ArgumentError, "a quarter of `within`"),
        ({"time": "key"}, ColumnTypeError, "invalid time: column 'key'"),
    ],
)
def test_invalid_arguments_raise_at_the_call(
    spark: SparkSession, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {
        "key": "key",
        "within": "10 seconds",
        "max_delay": "5 seconds",
    } | options
    with pytest.raises(error, match=message):
        deduplicate(frame(spark, [Event(0, "a", 1)]), **arguments)


def test_a_map_column_and_a_stream_without_a_watermark_raise(spark: SparkSession) -> None:
    tagged = frame(spark, [Event(0, "a", 1)]).withColumn("tags", F.create_map(F.lit(1), F.lit(2)))
    with pytest.raises(ColumnTypeError, match="without an order"):
        deduplicated(tagged)
    stream = (
        spark.readStream.format("rate")
        .load()
        .withColumnsRenamed({"timestamp": "event_time", "value": "position"})
    )
    with pytest.raises(WatermarkError, match="withWatermark"):
        deduplicated(stream.withColumn("key", F.col("position").cast("string")))
