"""A log cut in two: the batch's results before the cut and the stream's after it are the answer."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, total
from tidegate.joins import IntervalJoin
from tidegate.joins.stream_stream import How, JoinEmission
from tidegate.runtime.query.cut import boundary
from tidegate.testing import StreamDriver
from tidegate.transform import Transform
from tidegate.windows import (
    Cumulative,
    Deduplication,
    Hopping,
    Session,
    Sliding,
    Window,
    Windowed,
)

from ..drawing import few
from ..windows.frames import SCHEMA, batch, instant
from ..windows.oracle import SECOND, Event
from ..windows.strategies import BASE, LATENESS, SPAN, Arrival, arrivals

DELAY = f"{LATENESS // SECOND} seconds"
MICROSECOND = timedelta(microseconds=1)


def windows(window: Window) -> Windowed:
    return Windowed(window, by="key", aggs={"n": count(), "sum": total("value")})


def join(how: How, emission: JoinEmission, before: str = "1 second") -> IntervalJoin:
    return IntervalJoin("key", within=(before, "2 seconds"), how=how, emission=emission)


ONE: dict[str, Transform] = {
    "hopping": windows(Hopping("7 seconds", "2 seconds")),
    "cumulative": windows(Cumulative("2 seconds", "10 seconds")),
    "session": windows(Session("1 second")),
    "sliding": windows(Sliding("3 seconds")),
    "deduplication": Deduplication("key", "4 seconds", hold="1 second", order="value"),
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


def told(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def since(transform: Transform, rows: DataFrame, until: int) -> list[int]:
    """Return from which time on the stream needs each input's rows that the batch has read."""
    if isinstance(transform, IntervalJoin):
        return [until - each // MICROSECOND for each in transform.reaches]
    window = getattr(transform, "window", None)
    if not isinstance(window, Session):
        assert transform.reach is not None
        return [until - transform.reach // MICROSECOND]
    open_ones = rows.where(F.col("window.end") >= F.timestamp_micros(F.lit(until)))
    oldest: Any = open_ones.agg(F.min(F.unix_micros("window.start"))).collect()[0][0]
    return [until if oldest is None else min(until, oldest)]


def cut_in_two(
    spark: SparkSession, transform: Transform, log: list[list[Event]], at: int
) -> Counter[str]:
    """Return the rows of the batch over the log's first events, and of the stream after it."""
    read = [events[:at] for events in log]
    newest = [max((event.micros for event in events), default=None) for events in read]
    if None in newest:
        return told(transform(*[batch(spark, events) for events in log]))
    until = boundary(spark, transform, min(filter(None, newest)) - LATENESS)
    assert until is not None
    whole = transform(*[batch(spark, events) for events in read])
    time = transform.result_time
    assert time is not None
    done = told(whole.where(time < F.timestamp_micros(F.lit(until))))
    again = since(transform, whole, until)
    names = ["left", "right"][: len(log)]
    schemas = dict.fromkeys(names, SCHEMA)

    def after(*frames: DataFrame) -> DataFrame:
        return transform(*frames).where(time >= F.timestamp_micros(F.lit(until)))

    with StreamDriver(spark, schemas, after, lateness=DELAY) as stream:
        kept = [
            [event for event in events if event.micros >= first]
            for events, first in zip(read, again, strict=True)
        ]
        stream.feed(**{name: batch(spark, own) for name, own in zip(names, kept, strict=True)})
        rest = [events[at:] for events in log]
        stream.feed(**{name: batch(spark, own) for name, own in zip(names, rest, strict=True)})
        stream.advance_to(instant(BASE + 10 * SPAN))
        return done + told(stream.results())


@pytest.mark.draws("kind", short=["hopping", "session", "sliding"], long=list(ONE))
@pytest.mark.slow
def test_batch_before_the_cut_and_stream_after_it_are_the_whole_batch(
    spark: SparkSession, kind: str
) -> None:
    transform = ONE[kind]

    @few()
    @given(arrivals(), st.integers(20, 100))
    def agree(arrival: Arrival, at: int) -> None:
        events = arrival.events
        assert cut_in_two(spark, transform, [events], at) == told(transform(batch(spark, events)))

    agree()


@pytest.mark.draws("kind", short=["inner early", "full early", "anti final"], long=list(TWO))
@pytest.mark.slow
def test_joins_are_cut_in_two(spark: SparkSession, kind: str) -> None:
    transform = TWO[kind]

    @few()
    @given(arrivals(), arrivals(), st.integers(10, 60))
    def agree(left: Arrival, right: Arrival, at: int) -> None:
        log = [left.events, right.events]
        expected = told(transform(*[batch(spark, events) for events in log]))
        assert cut_in_two(spark, transform, log, at) == expected

    agree()
