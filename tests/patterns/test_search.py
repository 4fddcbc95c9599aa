"""The search over arrays finds what plain Python finds, all at once or instant by instant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.patterns import Pattern
from tidegate.patterns._search.automaton import automaton
from tidegate.patterns._search.matching import DONE, FOREVER, Matching, Reading, Skip
from tidegate.patterns._search.waiting import Sorted

from . import oracle
from .oracle import PREDICATES, Event, Match
from .strategies import BASE, SECOND, SPAN, WITHIN, events, patterns

MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def matching(pattern: Pattern, skip: Skip, *, timeouts: bool, within: int = WITHIN) -> Matching:
    """Return a search that reads the numbers of all events, and of each step's."""
    machine, _ = automaton(pattern)
    readings = [Reading(at, "list", 0) for at in range(len(pattern.steps))]
    return Matching(machine, within, 1, 1, skip, timeouts, tuple(readings))


def table(given: list[Event], pattern: Pattern) -> pa.Table:
    """Return events as Spark hands them to the search."""
    _, asked = automaton(pattern)
    columns: dict[str, Any] = {
        "key:0": pa.array([event.key for event in given], pa.string()),
        "time": pa.array([event.micros for event in given], pa.int64()),
        "order:0": pa.array([event.number for event in given], pa.int64()),
        "flags": pa.array([_flags(event, asked.flags) for event in given], pa.int64()),
        "tie": pa.array([0 for _ in given], pa.int64()),
        "value:0": pa.array([event.number for event in given], pa.int64()),
        DONE: pa.array([False for _ in given], pa.bool_()),
    }
    values = pa.array([event.value for event in given], pa.int32())
    for at, _pair in enumerate(asked.pairs):
        columns[f"left:{at}"] = columns[f"right:{at}"] = values
    return pa.table(columns)


def _flags(event: Event, flags: tuple[tuple[Any, ...], ...]) -> int:
    holding = [all(PREDICATES[each](event) for each in conditions) for conditions in flags]
    return sum(1 << at for at, holds in enumerate(holding) if holds)


def found(rows: pa.Table, pattern: Pattern) -> list[Match]:
    """Return results as the oracle has them."""
    made = []
    for row in rows.to_pylist():
        path = [
            (number, step.name)
            for at, step in enumerate(pattern.steps)
            for number in row[f"measure:{at}"]
        ]
        made.append((row["key:0"], row["decided"], row["matched"], path))
    return [
        Match(key, decided, matched, tuple((name, number) for number, name in path))
        for key, decided, matched, path in made
    ]


def comparable(result: list[Match]) -> Counter[Any]:
    return Counter(result)


@MANY
@given(patterns(), events(), st.sampled_from(["past_last", "to_next"]), st.booleans())
def test_all_events_at_once(
    pattern: Pattern, given: list[Event], skip: Skip, timeouts: bool
) -> None:
    search = matching(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(given, pattern, WITHIN, skip=skip, timeouts=timeouts)
    result, held = search.advance(search.in_order(table(given, pattern)), FOREVER)
    assert comparable(found(result, pattern)) == comparable(expected)
    assert held.num_rows == 0


@MANY
@given(
    patterns(),
    events(),
    st.sampled_from(["past_last", "to_next"]),
    st.booleans(),
    st.lists(st.integers(0, SPAN + 8), max_size=6),
)
@pytest.mark.slow
def test_instant_by_instant(
    pattern: Pattern, given: list[Event], skip: Skip, timeouts: bool, instants: list[int]
) -> None:
    search = matching(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(given, pattern, WITHIN, skip=skip, timeouts=timeouts)
    result: list[Match] = []
    rows = table(given, pattern)
    before = 0
    held = rows.slice(0, 0)
    for instant in [*sorted(instants), None]:
        until = FOREVER if instant is None else BASE + instant * SECOND
        times = rows.column("time").to_numpy()
        # Events come as late as they may: just before they count.
        came = rows.filter(pa.array((times >= before) & (times < until)))
        out, held = search.advance(search.in_order(pa.concat_tables([held, came])), until)
        step = found(out, pattern)
        assert all(before <= match.decided < until for match in step)
        assert not any(time < until - 2 * WITHIN for time in held.column("time").to_pylist())
        result += step
        before = until
    assert comparable(result) == comparable(expected)


@MANY
@given(
    patterns(),
    events(),
    st.sampled_from(["past_last", "to_next"]),
    st.booleans(),
    st.integers(1, 8),
    st.integers(1, 12),
)
@pytest.mark.slow
def test_sorted_events_cut_anywhere(
    pattern: Pattern, given: list[Event], skip: Skip, timeouts: bool, size: int, at_once: int
) -> None:
    search = matching(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(given, pattern, WITHIN, skip=skip, timeouts=timeouts)
    rows = search.in_order(table(given, pattern)).drop_columns([DONE])
    result = Sorted(search, at_once)(rows.to_batches(max_chunksize=size))
    matches = [match for part in result for match in found(pa.Table.from_batches([part]), pattern)]
    assert comparable(matches) == comparable(expected)
