"""Rows of two streams, their join in plain Python, and random ways for them to arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.joins import stream_stream
from tidegate.joins.stream_stream import How, JoinEmission

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
SPAN, LATENESS = 20 * SECOND, 3 * SECOND
KINDS: tuple[How, ...] = ("inner", "left", "right", "full", "semi", "anti")
SCHEMA = "side string, event_time timestamp, key string, id int"


class Event(NamedTuple):
    """A row of one side: its time in microseconds after BASE."""

    side: str
    micros: int
    key: str | None
    id: int


class Bounds(NamedTuple):
    """The range of right times around a left one, in microseconds."""

    before: int
    after: int

    @property
    def within(self) -> tuple[timedelta, timedelta]:
        """The same as the join's argument."""
        return timedelta(microseconds=self.before), timedelta(microseconds=self.after)


Answer = tuple[str, int | None, int | None]
"""The kind of join, and the ids of left and right."""


def joined(
    events: Iterable[Event], bounds: Bounds, kinds: Sequence[How] = KINDS
) -> Counter[Answer]:
    """Join the rows by each kind, from the definition, with no regard to cost."""
    sides = {side: [event for event in events if event.side == side] for side in ("left", "right")}
    pairs = [
        (one, other)
        for one in sides["left"]
        for other in sides["right"]
        if match(one, other, bounds)
    ]
    alone = {
        side: [e for e in rows if not any(e in pair for pair in pairs)]
        for side, rows in sides.items()
    }
    met = [one for one in sides["left"] if one not in alone["left"]]
    inner: list[tuple[int | None, int | None]] = [(one.id, other.id) for one, other in pairs]
    left: list[tuple[int | None, int | None]] = [(one.id, None) for one in alone["left"]]
    right: list[tuple[int | None, int | None]] = [(None, other.id) for other in alone["right"]]
    answers: dict[How, list[tuple[int | None, int | None]]] = {
        "inner": inner,
        "left": inner + left,
        "right": inner + right,
        "full": inner + left + right,
        "semi": [(one.id, None) for one in met],
        "anti": left,
    }
    return Counter((kind, *ids) for kind in kinds for ids in answers[kind])


def match(left: Event, right: Event, bounds: Bounds) -> bool:
    """Return whether two rows belong together."""
    near = left.micros - bounds.before <= right.micros <= left.micros + bounds.after
    return near and left.key is not None and left.key == right.key


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """Return the rows of both sides as one DataFrame."""
    return spark.createDataFrame([(e.side, instant(e.micros), e.key, e.id) for e in events], SCHEMA)


def instant(micros: int) -> datetime:
    """Return the instant so many microseconds after BASE."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=BASE + micros)


def side(events: DataFrame, name: str) -> DataFrame:
    """Take one side; both sides of a stream see the time of all its rows, since the filter names
    it."""
    return events.where((F.col("side") == name) | F.col("event_time").isNull()).drop("side")


def every_kind(
    events: DataFrame,
    bounds: Bounds,
    kinds: Sequence[How] = KINDS,
    emission: JoinEmission = "early",
) -> DataFrame:
    """Join by each kind, as rows of the oracle's columns."""
    made = []
    for kind in kinds:
        rows = stream_stream(
            side(events, "left"),
            side(events, "right"),
            "key",
            within=bounds.within,
            how=kind,
            emission=emission,
        )
        ids = ("id_left", "id_right") if "id_left" in rows.columns else ("id", None)
        left, right = (F.lit(None).cast("int") if name is None else F.col(name) for name in ids)
        made.append(
            rows.select(F.lit(kind).alias("kind"), left.alias("left"), right.alias("right"))
        )
    whole = made[0]
    for more in made[1:]:
        whole = whole.unionByName(more)
    return whole


def events(most: int = 60) -> st.SearchStrategy[list[Event]]:
    """Draw rows with crowded times and few keys, so that ties, edges and several equal keys are
    frequent."""
    micros = st.one_of(
        st.integers(0, SPAN // SECOND).map(lambda second: second * SECOND),
        st.integers(0, SPAN),
        st.integers(0, 6).map(lambda tick: 10 * SECOND + tick),
    )
    row = st.tuples(
        st.sampled_from(["left", "right"]), micros, st.sampled_from(["a", "b", "c", None])
    )
    return st.lists(row, min_size=1, max_size=most).map(
        lambda rows: [Event(side, at, key, number) for number, (side, at, key) in enumerate(rows)]
    )


def bounds() -> st.SearchStrategy[Bounds]:
    """Draw ranges that hold the left row's own time, and ranges before or after it."""
    whole = st.integers(-4, 4).map(lambda second: second * SECOND)
    edge = st.one_of(whole, st.integers(-4 * SECOND, 4 * SECOND), st.integers(-6, 6))
    return st.tuples(edge, edge).filter(lambda pair: sum(pair) >= 0).map(lambda pair: Bounds(*pair))


class Arrival(NamedTuple):
    """Rows as a stream sees them: micro-batches, after which the query is started anew, and the
    join's range."""

    batches: list[list[Event]]
    restart: int
    bounds: Bounds


def arrived(seed: int) -> Arrival:
    """Make rows that arrive out of order and in three batches, a tenth of them, and the last two,
    far too late."""
    random = Random(seed)
    crowded = [random.randrange(SPAN // SECOND) * SECOND for _ in range(60)]
    times = (
        crowded
        + [random.randrange(SPAN) for _ in range(60)]
        + [10 * SECOND + random.randrange(6) for _ in range(20)]
    )
    rows = [
        (
            random.randrange(LATENESS) + (random.random() < 0.1) * 4 * LATENESS,
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
