"""Which rows are late: with any disorder, the stream gives what the batch gives of the rows that
were not late, and the late ones are those that `late_at` tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.joins import IntervalJoin
from tidegate.testing import StreamDriver
from tidegate.transform import Transform
from tidegate.windows import (
    Cumulative,
    Deduplication,
    Hopping,
    Session,
    Sliding,
    Tumbling,
    Window,
    Windowed,
)

from ..drawing import few
from .frames import AGGS, SCHEMA, batch, instant
from .oracle import SECOND, Event
from .strategies import BASE, SPAN, events

LATENESS = SECOND
NEAR = ("1 second", "1 second")


@dataclass(frozen=True)
class Sides:
    """A join of one stream with itself, so that one frame is enough."""

    join: IntervalJoin

    def __call__(self, rows: DataFrame) -> DataFrame:
        right = rows.select("event_time", "key", F.col("value").alias("other"))
        return self.join(rows, right)

    def late_at(self, time: Column) -> Column:
        return self.join.late_at(time)


def merging(window: Window) -> Callable[[], Any]:
    return lambda: Windowed(window, by="key", aggs=AGGS)


def bare(window: Window) -> Callable[[], Any]:
    aggs = {"n": ("*", F.count), "top": ("value", F.max)}
    return lambda: Windowed(
        window, by="key", aggs={name: of(value) for name, (value, of) in aggs.items()}
    )


CASES: dict[str, Callable[[], Any]] = {
    "tumbling": merging(Tumbling("5 seconds")),
    "hopping": merging(Hopping("6 seconds", "2 seconds")),
    "hopping, uneven": merging(Hopping("7 seconds", "3 seconds")),
    "hopping, bare": bare(Hopping("7 seconds", "3 seconds")),
    "cumulative": merging(Cumulative("2 seconds", "6 seconds")),
    "cumulative, bare": bare(Cumulative("2 seconds", "6 seconds")),
    "sliding": merging(Sliding("3 seconds")),
    "session": merging(Session("2 seconds")),
    "session, bare": bare(Session("2 seconds")),
    "session, cut": merging(Session("2 seconds", longest="8 seconds")),
    "deduplication": lambda: Deduplication("key", "4 seconds", hold="2 seconds", order="value"),
    "join, early": lambda: Sides(IntervalJoin("key", within=NEAR, how="full")),
    "join, final": lambda: Sides(IntervalJoin("key", within=NEAR, how="left", emission="final")),
}
SHORT = [
    "tumbling",
    "hopping, uneven",
    "cumulative, bare",
    "session, cut",
    "deduplication",
    "join, early",
]
"""One of each kind of window, of transforms that hold rows back, and of joins."""


@pytest.mark.draws("name", short=SHORT, long=list(CASES))
@pytest.mark.slow
def test_the_stream_is_the_batch_of_the_rows_that_were_not_late(
    spark: SparkSession, name: str
) -> None:
    transform = CASES[name]()

    @few()
    @given(st.lists(events(most=25), min_size=2, max_size=4))
    def agree(batches: list[list[Event]]) -> None:
        accepted, late = sorted_out(spark, transform, batches)
        expected = told(transform(batch(spark, accepted)))
        with StreamDriver(
            spark, SCHEMA, transform, lateness=timedelta(microseconds=LATENESS)
        ) as stream:
            for fed in batches:
                stream.feed(batch(spark, fed))
            stream.advance_to(instant(BASE + 10 * SPAN))
            assert told(stream.results()) == expected, (len(accepted), late)

    agree()


def sorted_out(
    spark: SparkSession, transform: Transform, batches: list[list[Event]]
) -> tuple[list[Event], list[Event]]:
    """Return the rows that are in time when their batch comes, and the others."""
    accepted: list[Event] = []
    late: list[Event] = []
    newest = 0
    ends = F.unix_micros(transform.late_at(F.col("event_time")))  # type: ignore[arg-type]
    fed_in_order = [event for fed in batches for event in fed]
    found = (row[0] for row in batch(spark, fed_in_order).select(ends).collect())
    for fed in batches:
        # Spark's watermark has milliseconds.
        watermark = newest // 1_000 * 1_000 - LATENESS if newest else 0
        for event in fed:
            (late if next(found) <= watermark else accepted).append(event)
        newest = max(newest, *(event.micros for event in fed))
    return accepted, late


def told(frame: DataFrame) -> Counter[str]:
    """Return the rows as a multiset of texts."""
    return Counter(repr(row) for row in frame.collect())


@pytest.mark.slow
def test_a_row_exactly_a_gap_after_a_session_that_is_due_is_still_of_it(
    spark: SparkSession,
) -> None:
    # gap 10: a@0 | watermark 10 = the session's end | a@10, in time by the lateness
    sessions = Windowed(Session("10 seconds"), by="key", aggs=AGGS)
    with StreamDriver(spark, SCHEMA, sessions, lateness="0 seconds") as stream:
        stream.feed(batch(spark, [Event(BASE, "a", 1)]))
        stream.advance_to(instant(BASE + 10 * SECOND))
        stream.feed(batch(spark, [Event(BASE + 10 * SECOND, "a", 2)]))
        (row,) = stream.advance_to(instant(BASE + 60 * SECOND))
    assert (row.n, row.window.end.timestamp()) == (2, (BASE + 20 * SECOND) / SECOND)


@pytest.mark.slow
def test_a_row_whose_session_has_come_out_makes_no_second_one(spark: SparkSession) -> None:
    # gap 10: a@0, b@11, b@12 | watermark 12: [0, 10) is out | a@5 is late, as its session is out
    sessions = Windowed(Session("10 seconds"), by="key", aggs=AGGS)
    with StreamDriver(spark, SCHEMA, sessions, lateness="0 seconds") as stream:
        stream.feed(batch(spark, [Event(BASE, "a", 1), Event(BASE + 12 * SECOND, "b", 1)]))
        stream.feed(batch(spark, [Event(BASE + 5 * SECOND, "a", 2)]))
        stream.advance_to(instant(BASE + 60 * SECOND))
        found = [(row.key, row.n) for row in stream.results().collect()]
    assert sorted(found) == [("a", 1), ("b", 1)]


KEYED: dict[str, tuple[Window, Any]] = {
    "sessions, all together": (Session("5 seconds"), ()),
    "sessions": (Session("5 seconds"), "event_time"),
    "tumbling": (Tumbling("5 seconds"), "event_time"),
    "hopping": (Hopping("6 seconds", "2 seconds"), "event_time"),
    "cumulative": (Cumulative("2 seconds", "6 seconds"), "event_time"),
    "sliding": (Sliding("3 seconds"), "event_time"),
}


@pytest.mark.draws("name", short=["sessions, all together", "sliding"], long=list(KEYED))
@pytest.mark.slow
def test_windows_of_all_events_together_or_by_their_time_run_as_a_stream(
    spark: SparkSession, name: str
) -> None:
    window, by = KEYED[name]
    rows = [Event(BASE + at * SECOND, "a", at) for at in (0, 1, 20)]
    windows = Windowed(window, by=by, aggs={"n": AGGS["n"]})
    with StreamDriver(spark, SCHEMA, windows, lateness="0 seconds") as stream:
        stream.feed(batch(spark, rows))
        stream.advance_to(instant(BASE + 60 * SECOND))
        assert told(stream.results()) == told(windows(batch(spark, rows)))
