"""Random events and versions of the plans of users, and the expected lookup of each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tidegate.commit.batch import UNIX_EPOCH

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
SPAN = 60
EVENTS = "event_time timestamp, user string, id int"
VERSIONS = "user string, valid_from timestamp, valid_to timestamp, plan string, place int"


class Event(NamedTuple):
    """Seconds since BASE, a key, an ID."""

    at: float | None
    user: str | None
    id: int


class Change(NamedTuple):
    """A change of a row at `at`, valid until `until` at the latest; a None plan is a deletion."""

    at: float | None
    user: str | None
    plan: str | None
    place: int
    until: float | None = None


LookupResult = tuple[int, str | None, int | None]
"""The ID of an event, and the plan and log position of the matching version."""


def expected_lookup(event: Event, changes: Iterable[Change]) -> LookupResult:
    """Return the lookup of an event, from the definition."""
    if event.at is not None and event.user is not None:
        before = [
            (change.at, change.place, change)
            for change in changes
            if change.user == event.user and change.at is not None and change.at <= event.at
        ]
        if before:
            last = max(before)[-1]
            if last.plan is not None and (last.until is None or event.at < last.until):
                return event.id, last.plan, last.place
    return event.id, None, None


def instant(seconds: float | None) -> datetime | None:
    return (
        None
        if seconds is None
        else UNIX_EPOCH + timedelta(microseconds=BASE + round(seconds * SECOND))
    )


def events_frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    return spark.createDataFrame([(instant(e.at), e.user, e.id) for e in events], EVENTS)


def versions_frame(spark: SparkSession, changes: Iterable[Change]) -> DataFrame:
    """Return the changes as a versioned table, in which a deletion is an empty version."""
    rows = [
        (c.user, instant(c.at), instant(c.at if c.plan is None else c.until), c.plan, c.place)
        for c in changes
    ]
    return spark.createDataFrame(rows, VERSIONS)


def lookup_results(joined: DataFrame) -> Counter[LookupResult]:
    return Counter(
        (row.id, row.plan, row.place) for row in joined.select("id", "plan", "place").collect()
    )


TICKS = st.one_of(
    st.integers(0, SPAN), st.integers(0, 4 * SPAN).map(lambda n: n / 4), st.just(10.000001)
)
USERS = st.sampled_from(["a", "b", "c", "d", None])


@st.composite
def lookup_cases(draw: st.DrawFn, spare: bool = True) -> tuple[list[Event], list[Change]]:
    """Draw events and changes of few keys; with `spare`, also versions with ends and nulls."""
    times = st.one_of(TICKS, st.none()) if spare else TICKS
    drawn = draw(st.lists(st.tuples(times, USERS), min_size=1, max_size=60))
    plans = st.sampled_from(["free", "paid", "team", None])
    ends = st.one_of(st.none(), st.integers(0, 20)) if spare else st.none()
    changed = draw(st.lists(st.tuples(times, USERS, plans, ends), min_size=1, max_size=60))
    events = [Event(at, user, number) for number, (at, user) in enumerate(drawn)]
    changes = [
        Change(
            at,
            user,
            plan,
            place,
            None if lasts is None or at is None or plan is None else at + lasts,
        )
        for place, (at, user, plan, lasts) in enumerate(changed)
    ]
    return events, changes
