"""Hypothesis strategies for patterns and events."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.support.hypothesis_profiles import varied
from tests.support.pattern_oracle import COMPARE, PREDICATES, Event
from tidegate.errors import ArgumentError
from tidegate.patterns import (
    Condition,
    Negation,
    Pattern,
    Step,
    compare,
    events_of,
    not_followed_by,
    sequence,
    step,
)
from tidegate.patterns.language import Times

SECOND = 1_000_000
WITHIN = 12 * SECOND
BASE = 1_760_000_000 * SECOND
SPAN = 30
FIRST_TIMES: list[Times] = [1, 1, 2, (1, None), (1, 3)]
TIMES: list[Times] = [1, 1, 1, 2, (0, 1), (1, None), (1, 2), (2, 3), (0, None), (2, None)]


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Draw a valid pattern of steps a, b, c, ..., with all features of the language."""
    parts: list[Step | Negation] = []
    names: list[str] = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        if names and draw(st.integers(0, 3)) == 0:
            parts.append(not_followed_by(*draw(_conditions(names))))
        drawn = step(
            name,
            *draw(_conditions(names)),
            times=draw(st.sampled_from(TIMES if names else FIRST_TIMES)),
            greedy=draw(st.booleans()),
            consecutive=draw(st.integers(0, 3)) == 0,
        )
        parts.append(replace(drawn, contiguous=bool(names) and draw(st.integers(0, 3)) == 0))
        names.append(name)
    if draw(st.integers(0, 3)) == 0:
        parts.append(not_followed_by(*draw(_conditions(names))))
    try:
        return sequence(*parts, within=f"{WITHIN} microseconds")
    except ArgumentError:
        # A drawn pattern that cannot match is replaced.
        return sequence(step("a", "kind = 'a'"), step("b", "kind = 'b'"), within="12 seconds")


@st.composite
def _conditions(draw: st.DrawFn, earlier: list[str]) -> list[Condition]:
    conditions: list[Condition] = [draw(st.sampled_from(list(PREDICATES)[:6]))]
    if earlier and draw(st.integers(0, 3)) == 0:
        events = events_of(draw(st.sampled_from([None, *earlier])))
        other = events.first("value") if draw(st.booleans()) else events.last("value")
        conditions.append(compare("value", draw(st.sampled_from(list(COMPARE))), other))
    return conditions


@st.composite
def events(draw: st.DrawFn, most: int = 40) -> list[Event]:
    """Draw events in any order, many of them at equal times."""
    kinds = st.sampled_from(["a", "a", "b", "b", "c"])
    values = st.one_of(st.none(), st.integers(-2, 2))
    keys = st.sampled_from(["x", "x", "x", "y", None])
    row = st.tuples(st.integers(0, SPAN), keys, kinds, values)
    rows = draw(varied(st.lists(row, min_size=draw(st.integers(2, most // 2)), max_size=most)))
    return [
        Event(BASE + at * SECOND, number, key, kind, value)
        for number, (at, key, kind, value) in enumerate(rows)
    ]
