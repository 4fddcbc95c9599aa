"""Splitting a log into a backfill and a stream does not change the results."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.window_frames import SCHEMA, batch, instant
from tests.support.window_oracle import SECOND, Event
from tests.support.window_strategies import BASE, SPAN, WATERMARK_DELAY, Arrival, arrivals
from tidegate import aggregates as agg
from tidegate.engine.backfill_planning import last_lateness_boundary
from tidegate.joins import IntervalJoin
from tidegate.joins.interval_join import IntervalJoinType, JoinEmit
from tidegate.testing import StreamDriver
from tidegate.transform import Transform
from tidegate.windows import (
    Cumulative,
    Deduplication,
    Hopping,
    Session,
    Sliding,
    Window,
    WindowAggregation,
)

pytestmark = pytest.mark.jobs

DELAY = f"{WATERMARK_DELAY // SECOND} seconds"
MICROSECOND = timedelta(microseconds=1)


def windows(window: Window) -> WindowAggregation:
    return WindowAggregation(window, by="key", aggs={"n": agg.count(), "sum": agg.sum("value")})


def join(how: IntervalJoinType, emission: JoinEmit, before: str = "1 second") -> IntervalJoin:
    return IntervalJoin("key", within=(before, "2 seconds"), how=how, emit=emission)


ONE: dict[str, Transform] = {
    "hopping": windows(Hopping("7 seconds", "2 seconds")),
    "cumulative": windows(Cumulative("2 seconds", "10 seconds")),
    "session": windows(Session("1 second")),
    "sliding": windows(Sliding("3 seconds")),
    "deduplication": Deduplication("key", "4 seconds", max_delay="1 second", order="value"),
}
TWO: dict[str, IntervalJoin] = {
    "inner early": join("inner", "early"),
    "inner, never before": join("inner", "early", before="-1 second"),
    "right early": join("right", "early"),
    "full early": join("full", "early"),
    "left final": join("left", "final"),
    "semi early": join("semi", "early"),
    "anti final": join("anti", "final"),
}


def row_counts(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def since(transform: Transform, rows: DataFrame, until: int) -> list[int]:
    """Return the time from which the stream reads each input's rows again."""
    if isinstance(transform, IntervalJoin):
        return [until - each // MICROSECOND for each in transform.lookbacks]
    window = getattr(transform, "window", None)
    if not isinstance(window, Session):
        assert transform.lookback is not None
        return [until - transform.lookback // MICROSECOND]
    open_ones = rows.where(F.col("window.end") >= F.timestamp_micros(F.lit(until)))
    oldest: Any = open_ones.agg(F.min(F.unix_micros("window.start"))).collect()[0][0]
    return [until if oldest is None else min(until, oldest)]


def split_results(
    spark: SparkSession, transform: Transform, log: list[list[Event]], at: int
) -> Counter[str]:
    """Return the results of a backfill of the log's first events, and of the stream after it."""
    read = [events[:at] for events in log]
    max_times = [max((event.micros for event in events), default=None) for events in read]
    if None in max_times:
        return row_counts(transform(*[batch(spark, events) for events in log]))
    until = last_lateness_boundary(spark, transform, min(filter(None, max_times)) - WATERMARK_DELAY)
    assert until is not None
    results = transform(*[batch(spark, events) for events in read])
    time = transform.result_time
    assert time is not None
    done = row_counts(results.where(time < F.timestamp_micros(F.lit(until))))
    again = since(transform, results, until)
    names = ["left", "right"][: len(log)]
    schemas = dict.fromkeys(names, SCHEMA)

    def after(*frames: DataFrame) -> DataFrame:
        return transform(*frames).where(time >= F.timestamp_micros(F.lit(until)))

    with StreamDriver(spark, schemas, after, watermark_delay=DELAY) as stream:
        reread = [
            [event for event in events if event.micros >= first]
            for events, first in zip(read, again, strict=True)
        ]
        stream.feed(**{name: batch(spark, own) for name, own in zip(names, reread, strict=True)})
        rest = [events[at:] for events in log]
        stream.feed(**{name: batch(spark, own) for name, own in zip(names, rest, strict=True)})
        stream.advance_to(instant(BASE + 10 * SPAN))
        return done + row_counts(stream.results())


@pytest.mark.draws("kind", short=["hopping", "session", "sliding"], long=list(ONE))
@pytest.mark.slow
def test_a_backfill_and_a_stream_have_the_results_of_one_batch(
    spark: SparkSession, kind: str
) -> None:
    transform = ONE[kind]

    @few()
    @given(arrivals(), st.integers(20, 100))
    def agree(arrival: Arrival, at: int) -> None:
        events = arrival.events
        assert split_results(spark, transform, [events], at) == row_counts(
            transform(batch(spark, events))
        )

    agree()


@pytest.mark.draws("kind", short=["inner early", "full early", "anti final"], long=list(TWO))
@pytest.mark.slow
def test_joins_can_be_split_into_a_backfill_and_a_stream(spark: SparkSession, kind: str) -> None:
    transform = TWO[kind]

    @few()
    @given(arrivals(), arrivals(), st.integers(10, 60))
    def agree(left: Arrival, right: Arrival, at: int) -> None:
        log = [left.events, right.events]
        expected = row_counts(transform(*[batch(spark, events) for events in log]))
        assert split_results(spark, transform, log, at) == expected

    agree()
