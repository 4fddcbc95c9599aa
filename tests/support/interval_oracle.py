"""Rows of two streams, their join in plain Python, and random arrivals in micro-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate.joins import stream_stream
from tidegate.joins.interval_join import IntervalJoinType, JoinEmit

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
SPAN, WATERMARK_DELAY = 20 * SECOND, 3 * SECOND
JOIN_TYPES: tuple[IntervalJoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
SCHEMA = "side string, event_time timestamp, key string, id int"


class Event(NamedTuple):
    """A row of one side: its time in microseconds after BASE."""

    side: str
    micros: int
    key: str | None
    id: int


class Bounds(NamedTuple):
    """The bounds of right times around a left time, in microseconds."""

    before: int
    after: int

    @property
    def within(self) -> tuple[timedelta, timedelta]:
        """The bounds as the argument of a join."""
        return timedelta(microseconds=self.before), timedelta(microseconds=self.after)


JoinedIds = tuple[str, int | None, int | None]
"""The join type, and the IDs of the left and right row."""


def expected_join(
    events: Iterable[Event], bounds: Bounds, join_types: Sequence[IntervalJoinType] = JOIN_TYPES
) -> Counter[JoinedIds]:
    """Return the join of the rows by each join type, from the definition."""
    sides = {side: [event for event in events if event.side == side] for side in ("left", "right")}
    pairs = [
        (one, other)
        for one in sides["left"]
        for other in sides["right"]
        if match(one, other, bounds)
    ]
    unmatched = {
        side: [e for e in rows if not any(e in pair for pair in pairs)]
        for side, rows in sides.items()
    }
    matched = [one for one in sides["left"] if one not in unmatched["left"]]
    inner: list[tuple[int | None, int | None]] = [(one.id, other.id) for one, other in pairs]
    left: list[tuple[int | None, int | None]] = [(one.id, None) for one in unmatched["left"]]
    right: list[tuple[int | None, int | None]] = [(None, other.id) for other in unmatched["right"]]
    ids_by_type: dict[IntervalJoinType, list[tuple[int | None, int | None]]] = {
        "inner": inner,
        "left": inner + left,
        "right": inner + right,
        "full": inner + left + right,
        "semi": [(one.id, None) for one in matched],
        "anti": left,
    }
    return Counter((kind, *ids) for kind in join_types for ids in ids_by_type[kind])


def joined_ids(rows: Iterable[Row]) -> Counter[JoinedIds]:
    """Count the rows of `join_by_types` by join type and ids."""
    return Counter((row.kind, row.left, row.right) for row in rows)


def match(left: Event, right: Event, bounds: Bounds) -> bool:
    """Return whether two rows match."""
    near = left.micros - bounds.before <= right.micros <= left.micros + bounds.after
    return near and left.key is not None and left.key == right.key


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the rows of both sides as one DataFrame."""
    return spark.createDataFrame([(e.side, instant(e.micros), e.key, e.id) for e in events], SCHEMA)


def instant(micros: int) -> datetime:
    """Return the timestamp of microseconds after BASE."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=BASE + micros)


def side(events: DataFrame, name: str) -> DataFrame:
    """Return one side; the filter references the time, so that all rows advance the watermark."""
    return events.where((F.col("side") == name) | F.col("event_time").isNull()).drop("side")


def join_by_types(
    events: DataFrame,
    bounds: Bounds,
    join_types: Sequence[IntervalJoinType] = JOIN_TYPES,
    emit: JoinEmit = "early",
) -> DataFrame:
    """Return the join by each join type, with the columns of the oracle."""
    results = []
    for kind in join_types:
        rows = stream_stream(
            side(events, "left"),
            side(events, "right"),
            "key",
            within=bounds.within,
            how=kind,
            emit=emit,
        )
        ids = ("id_left", "id_right") if "id_left" in rows.columns else ("id", None)
        left, right = (F.lit(None).cast("int") if name is None else F.col(name) for name in ids)
        results.append(
            rows.select(F.lit(kind).alias("kind"), left.alias("left"), right.alias("right"))
        )
    return reduce(DataFrame.unionByName, results)


def events(max_size: int = 60) -> st.SearchStrategy[list[Event]]:
    """Draw rows with clustered times and few keys, so that ties and equal keys are frequent."""
    micros = st.one_of(
        st.integers(0, SPAN // SECOND).map(lambda second: second * SECOND),
        st.integers(0, SPAN),
        st.integers(0, 6).map(lambda tick: 10 * SECOND + tick),
    )
    row = st.tuples(
        st.sampled_from(["left", "right"]), micros, st.sampled_from(["a", "b", "c", None])
    )
    return st.lists(row, min_size=1, max_size=max_size).map(
        lambda rows: [Event(side, at, key, number) for number, (side, at, key) in enumerate(rows)]
    )


def bounds() -> st.SearchStrategy[Bounds]:
    """Draw bounds that include the time of the left row, and bounds before or after it."""
    seconds = st.integers(-4, 4).map(lambda second: second * SECOND)
    edge = st.one_of(seconds, st.integers(-4 * SECOND, 4 * SECOND), st.integers(-6, 6))
    return st.tuples(edge, edge).filter(lambda pair: sum(pair) >= 0).map(lambda pair: Bounds(*pair))


class Arrival(NamedTuple):
    """The micro-batches of a stream, the batch before a restart, and the bounds of the join."""

    batches: list[list[Event]]
    restart: int
    bounds: Bounds


def random_arrival(seed: int) -> Arrival:
    """Return rows out of order in three batches; a tenth of them and the last two are late."""
    random = Random(seed)
    clustered = [random.randrange(SPAN // SECOND) * SECOND for _ in range(60)]
    times = (
        clustered
        + [random.randrange(SPAN) for _ in range(60)]
        + [10 * SECOND + random.randrange(6) for _ in range(20)]
    )
    rows = [
        (
            random.randrange(WATERMARK_DELAY) + (random.random() < 0.1) * 4 * WATERMARK_DELAY,
            at,
            random.choice(["left", "right"]),
        )
        for at in times
    ]
    keys = [random.choice(["a", "b", "c", "d", None]) for _ in rows]
    events = [
        (delay + at, Event(side, at, key, number))
        for number, ((delay, at, side), key) in enumerate(zip(rows, keys, strict=True))
    ]
    ordered = [event for _, event in sorted(events, key=lambda pair: pair[0])]
    ordered += [
        Event(side, 0, "a", len(events) + number) for number, side in enumerate(("left", "right"))
    ]
    cuts = sorted(random.sample(range(40, len(ordered)), 2))
    batches = [ordered[start:stop] for start, stop in pairwise([0, *cuts, len(ordered)])]
    before, after = (
        random.randrange(-2 * SECOND, 3 * SECOND),
        random.randrange(2 * SECOND, 4 * SECOND),
    )
    return Arrival(batches, random.randrange(3), Bounds(before, after))
