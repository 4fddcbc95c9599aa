"""What a pattern matches: an example for each rule, including documented examples of Flink."""

from __future__ import annotations

import pytest

from tests.patterns.test_search import build_matcher, input_table, to_matches
from tests.support import pattern_oracle as oracle
from tests.support.pattern_frames import parse_events
from tidegate.durations import microseconds
from tidegate.patterns import (
    Pattern,
    compare,
    events_of,
    followed_by,
    next_,
    not_followed_by,
    sequence,
    step,
)
from tidegate.patterns._search.sequence_matcher import END_OF_TIME, Skip

A, B, C, D = ("kind = 'a'", "kind = 'b'", "kind = 'c'", "kind = 'd'")
MORE = (1, None)
a, b, c, d = step("a", A), step("b", B), step("c", C), step("d", D)
WITHIN = "1 hour"


def falling_then_rising(name: str) -> Pattern:
    lower = compare("value", "<", events_of().last("value"))
    higher = compare("value", ">", events_of().last("value"))
    return sequence(
        step(name),
        next_(step("down", lower, times=MORE, consecutive=True)),
        next_(step("up", higher)),
        within=WITHIN,
    )


def under_15_between(*, greedy: bool) -> Pattern:
    return sequence(
        step("a", "value > 10"),
        next_(step("b", "value < 15", times=(0, None), greedy=greedy, consecutive=True)),
        next_(step("c", "value > 12")),
        within=WITHIN,
    )


CASES: dict[str, tuple[str, Pattern, Skip, list[list[int]]]] = {
    # Contiguity: the example of Flink's documentation, "a b" over a c b1 b2.
    "next": ("a c b b", sequence(a, next_(b), within=WITHIN), "to_next", []),
    "followed by": ("a c b b", sequence(a, followed_by(b), within=WITHIN), "to_next", [[0, 2]]),
    # Skip strategies: the example of Flink's documentation, "b+ c" over b1 b2 b3 c.
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
    # Repetition with other events in between, and greedy loops (Flink's tests of followedBy).
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
    "the next step matches earlier": (
        "a b a b",
        sequence(step("a", A, times=MORE), b, within=WITHIN),
        "past_last",
        [[0, 1], [2, 3]],
    ),
    "times": ("a b b b", sequence(a, step("b", B, times=2), within=WITHIN), "to_next", [[0, 1, 2]]),
    "maximum": (
        "a b b b b",
        sequence(a, step("b", B, times=(1, 3)), within=WITHIN),
        "to_next",
        [[0, 1, 2, 3]],
    ),
    "optional and present": (
        "a b c",
        sequence(a, step("b", B, times=(0, 1)), c, within=WITHIN),
        "to_next",
        [[0, 1, 2]],
    ),
    "optional and absent": (
        "a d c",
        sequence(a, step("b", B, times=(0, 1)), c, within=WITHIN),
        "to_next",
        [[0, 2]],
    ),
    # Greedy and reluctant quantifiers: Flink's documented MATCH_RECOGNIZE queries, (A B* C).
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
    # The V-shaped price of the documentation of Oracle and Flink.
    "falling, then rising": (
        "x12 x17 x19 x21 x25 x18 x15 x14 x24 x25 x19",
        falling_then_rising("start"),
        "past_last",
        [[4, 5, 6, 7, 8]],
    ),
    # Negation between steps, and at the end.
    "not between": (
        "a d c a b c",
        sequence(a, not_followed_by(B), c, within=WITHIN),
        "to_next",
        [[0, 2]],
    ),
    "not at the end": (
        "a b d a d",
        sequence(a, not_followed_by(B), within=WITHIN),
        "to_next",
        [[3]],
    ),
    "the awaited event is forbidden": (
        "a x5 x1",
        sequence(a, not_followed_by("value > 3"), step("x", "value > 0"), within=WITHIN),
        "to_next",
        [],
    ),
    "an event at the deadline matches": (
        "a d b",
        sequence(a, b, within="2 seconds"),
        "to_next",
        [[0, 2]],
    ),
    "an event a microsecond after the deadline does not match": (
        "a d b",
        sequence(a, b, within="1999999 microseconds"),
        "to_next",
        [],
    ),
    "backtracking": (
        "a a a b",
        sequence(step("a", A, times=MORE), step("last", A), next_(b), within=WITHIN),
        "past_last",
        [[0, 1, 2, 3]],
    ),
    "an event matches one step only": (
        "a",
        sequence(a, step("again", A), within=WITHIN),
        "to_next",
        [],
    ),
    "above the value of the first event": (
        "a5 b3 b5 b7",
        sequence(
            a, step("b", B, compare("value", ">", events_of("a").first("value"))), within=WITHIN
        ),
        "to_next",
        [[0, 3]],
    ),
    "a comparison with null is false": (
        "a b1",
        sequence(
            a, step("b", B, compare("value", "!=", events_of("a").last("value"))), within=WITHIN
        ),
        "to_next",
        [],
    ),
}


@pytest.mark.parametrize(("text", "pattern", "skip", "expected"), CASES.values(), ids=list(CASES))
def test_the_search_and_the_oracle_return_the_expected_matches(
    text: str, pattern: Pattern, skip: Skip, expected: list[list[int]]
) -> None:
    events = parse_events(text)
    within = microseconds(pattern.within)
    matcher = build_matcher(pattern, skip, timeouts=False, within=within)
    sorted_rows = matcher.sort_rows(input_table(events, pattern))
    result, _ = matcher.advance(sorted_rows, END_OF_TIME)
    from_oracle = oracle.matches(events, pattern, within, skip=skip, timeouts=False)
    for matches in (to_matches(result, pattern), from_oracle):
        assert sorted([number for _, number in match.path] for match in matches) == expected
