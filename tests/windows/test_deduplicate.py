"""Events without their duplicates, within a horizon of event time."""

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

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError
from tidegate.testing import StreamDriver
from tidegate.windows import Deduplication, deduplicate

from ..drawing import few, varied

SECOND = 1_000_000
BASE = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
SCHEMA = "event_time timestamp, key string, place int"
HORIZON, LATENESS, SPAN = 10, 4, 60


class Event(NamedTuple):
    """Seconds since BASE, a key, the place in the log."""

    at: float
    key: str | None
    place: int


class Arrival(NamedTuple):
    """Micro-batches, and after which of them the query is stopped and started."""

    batches: list[list[Event]]
    restarts: set[int]

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Draw events of few keys, in an order in which none is late, cut into micro-batches
    anywhere."""
    ticks = st.one_of(
        st.integers(0, SPAN), st.integers(0, 4 * SPAN).map(lambda n: n / 4), st.just(10.000001)
    )
    event = st.tuples(ticks, st.sampled_from(["a", "b", "c", None]))
    drawn = draw(varied(st.lists(event, min_size=2, max_size=80)))
    delays = draw(st.lists(st.integers(0, LATENESS), min_size=len(drawn), max_size=len(drawn)))
    order = sorted(range(len(drawn)), key=lambda n: drawn[n][0] + delays[n])
    arrived = [Event(*drawn[n], place) for place, n in enumerate(order)]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(arrived) - 1)), max_size=3)))
    batches = [arrived[a:b] for a, b in pairwise([0, *cuts, len(arrived)]) if arrived[a:b]]
    return Arrival(batches, draw(st.sets(st.integers(0, len(batches) - 1), max_size=1)))


def oracle(events: Iterable[Event], horizon: float) -> list[Event]:
    """Return the events that stay, from the definition."""
    kept, last = [], defaultdict[str, float](lambda: float("-inf"))
    for event in sorted(events, key=lambda event: (event.at, event.place)):
        if event.key is None or event.at - last[event.key] > horizon:
            kept.append(event)
        if event.key is not None:
            last[event.key] = event.at
    return sorted(kept, key=by_place)


def at(seconds: float) -> datetime:
    return BASE + timedelta(microseconds=round(seconds * SECOND))


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    return spark.createDataFrame(
        [(at(event.at), event.key, event.place) for event in events], SCHEMA
    )


def events_of(rows: DataFrame) -> list[Event]:
    found = rows.select(F.unix_micros("event_time"), "key", "place").collect()
    start = round(BASE.timestamp() * SECOND)
    return sorted(
        (Event((micros - start) / SECOND, key, place) for micros, key, place in found), key=by_place
    )


def by_place(event: Event) -> int:
    return event.place


def unique(events: DataFrame, hold: str = "3 seconds") -> DataFrame:
    return deduplicate(events, "key", f"{HORIZON} seconds", hold=hold, order="place")


@pytest.mark.draws
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(spark: SparkSession) -> None:
    @few()
    @given(arrivals())
    def agree(arrival: Arrival) -> None:
        expected = oracle(arrival.events, HORIZON)
        assert events_of(unique(frame(spark, arrival.events))) == expected
        with StreamDriver(spark, SCHEMA, unique, lateness=f"{LATENESS} seconds") as stream:
            for number, batch in enumerate(arrival.batches):
                stream.feed(frame(spark, batch))
                if number in arrival.restarts:
                    stream.restart()
            stream.advance_to(at(10 * SPAN))
            assert events_of(stream.results()) == expected

    agree()


@pytest.mark.parametrize(
    "hold", ["10 seconds", "5 seconds", "1 second 700 milliseconds", "100 milliseconds"]
)
def test_how_long_events_are_held_does_not_change_the_answer(
    spark: SparkSession, hold: str
) -> None:
    events = [Event(n * n * 37 % 4_000 / 10, "abcdefg"[n % 7], n) for n in range(400)]
    assert events_of(unique(frame(spark, events), hold)) == oracle(events, HORIZON)


def test_the_horizon_is_inclusive_counts_from_the_last_seen_and_knows_no_epoch(
    spark: SparkSession,
) -> None:
    #  0      10           20.000001     25    1:00  1:00     before 1970
    #  kept   duplicate    kept          dup   kept  dup      kept, dup, kept
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
    kept = events_of(unique(frame(spark, events)))
    assert [event.place for event in kept] == [1, 3, 5, 7, 9]
    assert kept == oracle(events, HORIZON)


def test_an_event_without_its_key_is_no_duplicate(spark: SparkSession) -> None:
    rows = [
        (at(1), "a", None, 1),
        (at(2), "a", None, 2),
        (at(3), "a", "x", 3),
        (at(4), "a", "x", 4),
        (None, "a", "x", 5),
    ]
    events = spark.createDataFrame(rows, "event_time timestamp, key string, part string, place int")
    kept = deduplicate(events, ["key", "part"], "10 seconds", hold="10 seconds", order="place")
    assert kept.columns == events.columns
    assert sorted(row.place for row in kept.collect()) == [1, 2, 3]


@pytest.mark.slow
def test_the_earliest_stays_though_it_came_last_and_comes_out_with_its_pane(
    spark: SparkSession,
) -> None:
    with StreamDriver(spark, SCHEMA, unique, lateness="4 seconds") as stream:
        assert stream.feed([(at(3), "a", 1)]) == []
        assert stream.feed([(at(1), "a", 2)]) == []
        assert [row.place for row in stream.advance_to(at(3))] == [2]
        # The third row is late for its own pane, so it is left out, and not seen by what follows.
        assert stream.feed([(at(2.5), "late", 3), (at(5), "late", 4), (at(5), "b", 5)]) == []
        assert sorted(row.place for row in stream.advance_to(at(6))) == [4, 5]
        assert stream.advance_to(at(60)) == []


@pytest.mark.slow
def test_the_state_is_bounded_by_the_horizon_and_not_by_the_watermark(spark: SparkSession) -> None:
    with StreamDriver(spark, SCHEMA, unique, lateness="1 minute") as stream:
        stream.feed([(at(n), f"k{n}", n) for n in range(20)])
        stream.feed([(at(500), "z", 100)])
        stream.advance_to(at(450))
        query = stream._query
        assert query is not None
        operators = [
            operator for progress in query.recentProgress for operator in progress.stateOperators
        ]
        added, removed = (
            sum(getattr(o, name) for o in operators)
            for name in ("numRowsUpdated", "numRowsRemoved")
        )
        # Each of the 20 keys and z were in their own pane. When it had closed, the keys were in the
        # five panes that ask for it: their own, and the four that their horizon reaches. z's own
        # pane is left.
        assert (added, removed) == (21 + 20 * 5, 20 + 20 * 5)
    with StreamDriver(spark, SCHEMA, unique, lateness="0 seconds") as stream:
        for row in [(at(0), "a", 1)], [(at(9), "b", 2)], [(at(10), "a", 3)], [(at(90), "c", 4)]:
            stream.feed(row)
        # The watermark has long passed the first when the third comes, which is known for a
        # duplicate all the same.
        assert sorted(row.place for row in stream.results().collect()) == [1, 2]


def test_when_an_event_is_late_is_told(spark: SparkSession) -> None:
    ends = frame(spark, [Event(0, "a", 1), Event(2.999999, "a", 2), Event(3, "a", 3)]).select(
        Deduplication("key", "3 seconds", hold="3 seconds").late_at(F.col("event_time"))
    )
    assert [row[0].astimezone(UTC) for row in ends.collect()] == [at(3), at(3), at(6)]


def test_one_key_with_all_the_rows_is_one_row(spark: SparkSession) -> None:
    events = spark.range(50_000).select(
        F.timestamp_micros(F.lit(round(at(0).timestamp() * SECOND)) + F.col("id") * 1_000).alias(
            "event_time"
        ),
        F.lit("hot").alias("key"),
        F.col("id").cast("int").alias("place"),
    )
    assert [row.place for row in unique(events).collect()] == [0]


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"key": "nobody"}, ColumnError, "key names 'nobody'"),
        ({"key": []}, ArgumentError, "key names no column"),
        ({"order": "nothing"}, ColumnError, "order names 'nothing'"),
        ({"horizon": "0 seconds"}, ArgumentError, "horizon"),
        ({"hold": "11 seconds"}, ArgumentError, "hold is '11 seconds'"),
        ({"hold": "99 milliseconds"}, ArgumentError, "a quarter of the horizon"),
        ({"time": "key"}, ColumnTypeError, "time='key'"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], told: str
) -> None:
    arguments: dict[str, Any] = {"key": "key", "horizon": "10 seconds", "hold": "5 seconds"} | given
    with pytest.raises(error, match=told):
        deduplicate(frame(spark, [Event(0, "a", 1)]), **arguments)


def test_a_map_column_and_a_stream_without_a_watermark_are_refused(spark: SparkSession) -> None:
    tagged = frame(spark, [Event(0, "a", 1)]).withColumn("tags", F.create_map(F.lit(1), F.lit(2)))
    with pytest.raises(ColumnTypeError, match="no order"):
        unique(tagged)
    stream = (
        spark.readStream.format("rate")
        .load()
        .withColumnsRenamed({"timestamp": "event_time", "value": "place"})
    )
    with pytest.raises(WatermarkError, match="withWatermark"):
        unique(stream.withColumn("key", F.col("place").cast("string")))
