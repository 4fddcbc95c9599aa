"""The vectorized search equals the oracle, for all events at once and in increments."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import pattern_oracle as oracle
from tests.support.pattern_oracle import PREDICATES, Event, Match
from tests.support.pattern_strategies import BASE, SECOND, SPAN, WITHIN, events, patterns
from tidegate.patterns import Pattern
from tidegate.patterns._search.nfa import build_automaton
from tidegate.patterns._search.sequence_matcher import (
    END_OF_TIME,
    EXHAUSTED,
    MeasureInput,
    SequenceMatcher,
    Skip,
    SortedEvents,
)

MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def build_matcher(
    pattern: Pattern, skip: Skip, *, timeouts: bool, within: int = WITHIN
) -> SequenceMatcher:
    """Return a matcher with the event numbers of each step as measures."""
    automaton, _ = build_automaton(pattern)
    measures = tuple(MeasureInput(index, "list", 0) for index in range(len(pattern.steps)))
    return SequenceMatcher(automaton, within, 1, 1, skip, timeouts, measures)


def input_table(rows: list[Event], pattern: Pattern) -> pa.Table:
    """Return events as the input table of the search."""
    _, inputs = build_automaton(pattern)
    columns: dict[str, Any] = {
        "key:0": pa.array([event.key for event in rows], pa.string()),
        "time": pa.array([event.micros for event in rows], pa.int64()),
        "order:0": pa.array([event.number for event in rows], pa.int64()),
        "flags": pa.array([_flags(event, inputs.flags) for event in rows], pa.int64()),
        "tie": pa.array([0 for _ in rows], pa.int64()),
        "value:0": pa.array([event.number for event in rows], pa.int64()),
        EXHAUSTED: pa.array([False for _ in rows], pa.bool_()),
    }
    values = pa.array([event.value for event in rows], pa.int32())
    for index in range(len(inputs.comparisons)):
        columns[f"left:{index}"] = columns[f"right:{index}"] = values
    return pa.table(columns)


def _flags(event: Event, flags: tuple[tuple[Any, ...], ...]) -> int:
    satisfied = [all(PREDICATES[each](event) for each in conditions) for conditions in flags]
    return sum(1 << index for index, is_set in enumerate(satisfied) if is_set)


def to_matches(rows: pa.Table, pattern: Pattern) -> list[Match]:
    """Return the rows of a result as matches of the oracle."""
    return [
        Match(
            row["key:0"],
            row["decided"],
            row["matched"],
            tuple(
                (step.name, number)
                for index, step in enumerate(pattern.steps)
                for number in row[f"measure:{index}"]
            ),
        )
        for row in rows.to_pylist()
    ]


@MANY
@given(patterns(), events(), st.sampled_from(["past_last", "to_next"]), st.booleans())
def test_matches_of_all_events_at_once_equal_the_oracle(
    pattern: Pattern, rows: list[Event], skip: Skip, timeouts: bool
) -> None:
    matcher = build_matcher(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(rows, pattern, WITHIN, skip=skip, timeouts=timeouts)
    sorted_rows = matcher.sort_rows(input_table(rows, pattern))
    matches, remaining = matcher.advance(sorted_rows, END_OF_TIME)
    assert Counter(to_matches(matches, pattern)) == Counter(expected)
    assert remaining.num_rows == 0


@MANY
@given(
    patterns(),
    events(),
    st.sampled_from(["past_last", "to_next"]),
    st.booleans(),
    st.lists(st.integers(0, SPAN + 8), max_size=6),
)
@pytest.mark.slow
def test_matches_at_increasing_watermarks_equal_the_oracle(
    pattern: Pattern, rows: list[Event], skip: Skip, timeouts: bool, instants: list[int]
) -> None:
    matcher = build_matcher(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(rows, pattern, WITHIN, skip=skip, timeouts=timeouts)
    result: list[Match] = []
    all_rows = input_table(rows, pattern)
    times = all_rows.column("time").to_numpy()
    previous = 0
    remaining = all_rows.slice(0, 0)
    for instant in [*sorted(instants), None]:
        watermark = END_OF_TIME if instant is None else BASE + instant * SECOND
        # Events arrive as late as possible without being late.
        arrived = all_rows.filter(pa.array((times >= previous) & (times < watermark)))
        sorted_rows = matcher.sort_rows(pa.concat_tables([remaining, arrived]))
        matches, remaining = matcher.advance(sorted_rows, watermark)
        step = to_matches(matches, pattern)
        assert all(previous <= match.decided < watermark for match in step)
        retained_times = remaining.column("time").to_pylist()
        assert not any(time < watermark - 2 * WITHIN for time in retained_times)
        result += step
        previous = watermark
    assert Counter(result) == Counter(expected)


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
def test_matches_of_sorted_record_batches_equal_the_oracle(
    pattern: Pattern, rows: list[Event], skip: Skip, timeouts: bool, size: int, rows_per_pass: int
) -> None:
    matcher = build_matcher(pattern, skip, timeouts=timeouts)
    expected = oracle.matches(rows, pattern, WITHIN, skip=skip, timeouts=timeouts)
    sorted_rows = matcher.sort_rows(input_table(rows, pattern)).drop_columns([EXHAUSTED])
    result = SortedEvents(matcher, rows_per_pass)(sorted_rows.to_batches(max_chunksize=size))
    matches = [
        match for part in result for match in to_matches(pa.Table.from_batches([part]), pattern)
    ]
    assert Counter(matches) == Counter(expected)
