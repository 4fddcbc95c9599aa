"""What a sequence matches: each rule by an example, beside what others document for it."""

from __future__ import annotations

import pytest

from tidegate.durations import microseconds
from tidegate.patterns import Pattern, compare, directly, not_, of, sequence, step, then
from tidegate.patterns._search.matching import FOREVER, Skip

from . import oracle
from .frames import told
from .test_search import found, matching, table

A, B, C, D = ("kind = 'a'", "kind = 'b'", "kind = 'c'", "kind = 'd'")
MORE = (1, None)
a, b, c, d = step("a", A), step("b", B), step("c", C), step("d", D)
WITHIN = "1 hour"


def falling_then_rising(name: str) -> Pattern:
    lower = compare("value", "<", of().last("value"))
    higher = compare("value", ">", of().last("value"))
    return sequence(
        step(name),
        directly(step("down", lower, times=MORE, consecutive=True)),
        directly(step("up", higher)),
        within=WITHIN,
    )


def under_15_between(*, greedy: bool) -> Pattern:
    return sequence(
        step("a", "value > 10"),
        directly(step("b", "value < 15", times=(0, None), greedy=greedy, consecutive=True)),
        directly(step("c", "value > 12")),
        within=WITHIN,
    )


CASES: dict[str, tuple[str, Pattern, Skip, list[list[int]]]] = {
    # Contiguity, as Flink's documentation tells it of "a b" over a c b1 b2.
    "directly": ("a c b b", sequence(a, directly(b), within=WITHIN), "to_next", []),
    "then": ("a c b b", sequence(a, then(b), within=WITHIN), "to_next", [[0, 2]]),
    # Skip strategies, as Flink's documentation tells them of "b+ c" over b1 b2 b3 c.
    "to next": (
        "b b b c",
        sequence(step("b", B, times=MORE), c, within=WITHIN),
        "to_next",
        [[0, 1, 2, 3], [1, 2, 3], [2, 3]],
    ),
    "past last": (
        "b b b c",
        sequence(step("b", B, times=MORE), c, within=WITHIN),
        "past_last",
        [[0, 1, 2, 3]],
    ),
    # Repetition over other events, and greedy loops (Flink's tests of greedy followed-by).
    "greedy over others": (
        "c d a d a d a b",
        sequence(c, step("a", A, times=MORE), b, within=WITHIN),
        "to_next",
        [[0, 2, 4, 6, 7]],
    ),
    "consecutive": (
        "a b d b d b c",
        sequence(a, step("b", B, times=MORE, consecutive=True), c, within=WITHIN),
        "to_next",
        [[0, 1, 6]],
    ),
    "the next step comes sooner": (
        "a b a b",
        sequence(step("a", A, times=MORE), b, within=WITHIN),
        "past_last",
        [[0, 1], [2, 3]],
    ),
    "times": ("a b b b", sequence(a, step("b", B, times=2), within=WITHIN), "to_next", [[0, 1, 2]]),
    "at most": (
        "a b b b b",
        sequence(a, step("b", B, times=(1, 3)), within=WITHIN),
        "to_next",
        [[0, 1, 2, 3]],
    ),
    "optional and there": (
        "a b c",
        sequence(a, step("b", B, times=(0, 1)), c, within=WITHIN),
        "to_next",
        [[0, 1, 2]],
    ),
    "optional and not there": (
        "a d c",
        sequence(a, step("b", B, times=(0, 1)), c, within=WITHIN),
        "to_next",
        [[0, 2]],
    ),
    # Flink's documented greedy and reluctant queries of MATCH_RECOGNIZE, (A B* C).
    "greedy": (
        "x10 x11 x12 x13 x14 x16",
        under_15_between(greedy=True),
        "past_last",
        [[*range(1, 6)]],
    ),
    "reluctant": (
        "x10 x11 x12 x13 x14 x16",
        under_15_between(greedy=False),
        "past_last",
        [[1, 2, 3], [4, 5]],
    ),
    # The falling and rising price of the documentations of Oracle and Flink.
    "falling, then rising": (
        "x12 x17 x19 x21 x25 x18 x15 x14 x24 x25 x19",
        falling_then_rising("start"),
        "past_last",
        [[4, 5, 6, 7, 8]],
    ),
    # Negation: in the middle, and by time-out at the end.
    "not between": ("a d c a b c", sequence(a, not_(B), c, within=WITHIN), "to_next", [[0, 2]]),
    "not at the end": ("a b d a d", sequence(a, not_(B), within=WITHIN), "to_next", [[3]]),
    "not the very event that is awaited": (
        "a x5 x1",
        sequence(a, not_("value > 3"), step("x", "value > 0"), within=WITHIN),
        "to_next",
        [],
    ),
    "an event exactly at the end of the time counts": (
        "a d b",
        sequence(a, b, within="2 seconds"),
        "to_next",
        [[0, 2]],
    ),
    "an event a microsecond later does not": (
        "a d b",
        sequence(a, b, within="1999999 microseconds"),
        "to_next",
        [],
    ),
    "what leads nowhere is tried another way": (
        "a a a b",
        sequence(step("a", A, times=MORE), step("last", A), directly(b), within=WITHIN),
        "past_last",
        [[0, 1, 2, 3]],
    ),
    "one event does not serve two steps": (
        "a",
        sequence(a, step("again", A), within=WITHIN),
        "to_next",
        [],
    ),
    "above the first one's": (
        "a5 b3 b5 b7",
        sequence(a, step("b", B, compare("value", ">", of("a").first("value"))), within=WITHIN),
        "to_next",
        [[0, 3]],
    ),
    "a null compares with nothing": (
        "a b1",
        sequence(a, step("b", B, compare("value", "!=", of("a").last("value"))), within=WITHIN),
        "to_next",
        [],
    ),
}


@pytest.mark.parametrize(("text", "pattern", "skip", "expected"), CASES.values(), ids=list(CASES))
def test_a_sequence_matches(
    text: str, pattern: Pattern, skip: Skip, expected: list[list[int]]
) -> None:
    events = told(text)
    within = microseconds(pattern.within)
    search = matching(pattern, skip, timeouts=False, within=within)
    result, _ = search.advance(search.in_order(table(events, pattern)), FOREVER)
    by_hand = oracle.matches(events, pattern, within, skip=skip, timeouts=False)
    for one in (found(result, pattern), by_hand):
        assert sorted([number for _, number in match.path] for match in one) == expected
