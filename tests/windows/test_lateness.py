"""Late rows: a stream equals the batch of the rows that are not late by `late_at`."""

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

from tests.support.hypothesis_profiles import few
from tests.support.window_frames import AGGS, SCHEMA, batch, instant
from tests.support.window_oracle import SECOND, Event
from tests.support.window_strategies import BASE, SPAN, events
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
    WindowAggregation,
)

WATERMARK_DELAY = SECOND
WITHIN = ("1 second", "1 second")


@dataclass(frozen=True)
class SelfJoin:
    """A join of one stream with itself, as a transform of one frame."""

    join: IntervalJoin

    def __call__(self, rows: DataFrame) -> DataFrame:
        right = rows.select("event_time", "key", F.col("value").alias("other"))
        return self.join(rows, right)

    def late_at(self, time: Column) -> Column:
        return self.join.late_at(time)


def mergeable(window: Window) -> Callable[[], Any]:
    return lambda: WindowAggregation(window, by="key", aggs=AGGS)


def spark_aggregates(window: Window) -> Callable[[], Any]:
    aggs = {"n": ("*", F.count), "top": ("value", F.max)}
    return lambda: WindowAggregation(
        window, by="key", aggs={name: of(value) for name, (value, of) in aggs.items()}
    )


CASES: dict[str, Callable[[], Any]] = {
    "tumbling": mergeable(Tumbling("5 seconds")),
    "hopping": mergeable(Hopping("6 seconds", "2 seconds")),
    "hopping, uneven": mergeable(Hopping("7 seconds", "3 seconds")),
    "hopping, Spark aggregates": spark_aggregates(Hopping("7 seconds", "3 seconds")),
    "cumulative": mergeable(Cumulative("2 seconds", "6 seconds")),
    "cumulative, Spark aggregates": spark_aggregates(Cumulative("2 seconds", "6 seconds")),
    "sliding": mergeable(Sliding("3 seconds")),
    "session": mergeable(Session("2 seconds")),
    "session, Spark aggregates": spark_aggregates(Session("2 seconds")),
    "session, max_duration": mergeable(Session("2 seconds", max_duration="8 seconds")),
    "deduplication": lambda: Deduplication(
        "key", "4 seconds", max_delay="2 seconds", order="value"
    ),
    "join, early": lambda: SelfJoin(IntervalJoin("key", within=WITHIN, how="full")),
    "join, final": lambda: SelfJoin(IntervalJoin("key", within=WITHIN, how="left", emit="final")),
}
SHORT = [
    "tumbling",
    "hopping, uneven",
    "cumulative, Spark aggregates",
    "session, max_duration",
    "deduplication",
    "join, early",
]
"""One of each kind of window, of transforms that delay rows, and of joins."""


@pytest.mark.draws("name", short=SHORT, long=list(CASES))
@pytest.mark.slow
def test_a_stream_equals_the_batch_of_the_rows_that_are_not_late(
    spark: SparkSession, name: str
) -> None:
    transform = CASES[name]()

    @few()
    @given(st.lists(events(max_size=25), min_size=2, max_size=4))
    def agree(batches: list[list[Event]]) -> None:
        accepted, late = split_by_lateness(spark, transform, batches)
        expected = row_texts(transform(batch(spark, accepted)))
        with StreamDriver(
            spark, SCHEMA, transform, watermark_delay=timedelta(microseconds=WATERMARK_DELAY)
        ) as stream:
            for events_of_batch in batches:
                stream.feed(batch(spark, events_of_batch))
            stream.advance_to(instant(BASE + 10 * SPAN))
            assert row_texts(stream.results()) == expected, (len(accepted), late)

    agree()


def split_by_lateness(
    spark: SparkSession, transform: Transform, batches: list[list[Event]]
) -> tuple[list[Event], list[Event]]:
    """Return the rows in time and the late rows, by the watermark before their batch."""
    accepted: list[Event] = []
    late: list[Event] = []
    max_time = 0
    ends = F.unix_micros(transform.late_at(F.col("event_time")))  # type: ignore[arg-type]
    all_events = [event for events_of_batch in batches for event in events_of_batch]
    late_at = (row[0] for row in batch(spark, all_events).select(ends).collect())
    for events_of_batch in batches:
        # Spark's watermark has millisecond precision.
        watermark = max_time // 1_000 * 1_000 - WATERMARK_DELAY if max_time else 0
        for event in events_of_batch:
            (late if next(late_at) <= watermark else accepted).append(event)
        max_time = max(max_time, *(event.micros for event in events_of_batch))
    return accepted, late


def row_texts(frame: DataFrame) -> Counter[str]:
    """Return the rows as a multiset of texts."""
    return Counter(repr(row) for row in frame.collect())


@pytest.mark.slow
def test_a_row_exactly_a_gap_after_the_last_event_extends_the_session(
    spark: SparkSession,
) -> None:
    # gap 10: a@0 | watermark 10, the end of the session | a@10 is in time
    sessions = WindowAggregation(Session("10 seconds"), by="key", aggs=AGGS)
    with StreamDriver(spark, SCHEMA, sessions, watermark_delay="0 seconds") as stream:
        stream.feed(batch(spark, [Event(BASE, "a", 1)]))
        stream.advance_to(instant(BASE + 10 * SECOND))
        stream.feed(batch(spark, [Event(BASE + 10 * SECOND, "a", 2)]))
        (row,) = stream.advance_to(instant(BASE + 60 * SECOND))
    assert (row.n, row.window.end.timestamp()) == (2, (BASE + 20 * SECOND) / SECOND)


@pytest.mark.slow
def test_a_row_of_an_emitted_session_is_late(spark: SparkSession) -> None:
    # gap 10: a@0, b@12 | watermark 12: [0, 10) is emitted | a@5 is late
    sessions = WindowAggregation(Session("10 seconds"), by="key", aggs=AGGS)
    with StreamDriver(spark, SCHEMA, sessions, watermark_delay="0 seconds") as stream:
        stream.feed(batch(spark, [Event(BASE, "a", 1), Event(BASE + 12 * SECOND, "b", 1)]))
        stream.feed(batch(spark, [Event(BASE + 5 * SECOND, "a", 2)]))
        stream.advance_to(instant(BASE + 60 * SECOND))
        sessions_by_key = [(row.key, row.n) for row in stream.results().collect()]
    assert sorted(sessions_by_key) == [("a", 1), ("b", 1)]


KEYS: dict[str, tuple[Window, Any]] = {
    "sessions, no key": (Session("5 seconds"), ()),
    "sessions": (Session("5 seconds"), "event_time"),
    "tumbling": (Tumbling("5 seconds"), "event_time"),
    "hopping": (Hopping("6 seconds", "2 seconds"), "event_time"),
    "cumulative": (Cumulative("2 seconds", "6 seconds"), "event_time"),
    "sliding": (Sliding("3 seconds"), "event_time"),
}


@pytest.mark.draws("name", short=["sessions, no key", "sliding"], long=list(KEYS))
@pytest.mark.slow
def test_windows_without_a_key_or_by_event_time_run_as_a_stream(
    spark: SparkSession, name: str
) -> None:
    window, by = KEYS[name]
    rows = [Event(BASE + at * SECOND, "a", at) for at in (0, 1, 20)]
    windows = WindowAggregation(window, by=by, aggs={"n": AGGS["n"]})
    with StreamDriver(spark, SCHEMA, windows, watermark_delay="0 seconds") as stream:
        stream.feed(batch(spark, rows))
        stream.advance_to(instant(BASE + 60 * SECOND))
        assert row_texts(stream.results()) == row_texts(windows(batch(spark, rows)))
