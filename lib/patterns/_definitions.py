"""Checks of a pattern, when it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column

from ..errors import ArgumentError, ColumnTypeError
from .measures import Comparison
from .pattern import Absent, Condition, Step


def require_matching(steps: list[Step], absent: list[list[Absent]]) -> None:
    """Refuse steps that no events can match, and say which."""
    if not steps:
        raise ArgumentError("a sequence has no step.", "at least one step.")
    if absent[0]:
        raise ArgumentError(
            "a sequence begins with not_.",
            "a step first: what must not come is told from its event on.",
        )
    known = [step.name for step in steps]
    twice = sorted({name for name in known if known.count(name) > 1})
    if twice:
        raise ArgumentError(f"two steps are named {', '.join(twice)}.", "each name once.")
    if steps[0].least == 0 or steps[0].direct:
        raise ArgumentError(
            f"the first step {known[0]!r} may be left out, or follows directly.",
            "a first step that takes an event, with which the match begins.",
        )
    if not steps[-1].greedy and steps[-1].least != steps[-1].most:
        raise ArgumentError(
            f"the last step {known[-1]!r} is reluctant: it never takes more than it must.",
            "greedy, or a fixed number of times.",
        )
    for number, step in enumerate(steps):
        _require_possible(step, absent[number], known[:number])
    for guard in absent[-1]:
        _require_earlier(guard.conditions, known, "not_ at the end")


def _require_possible(step: Step, guards: Sequence[Absent], earlier: list[str]) -> None:
    what = f"step {step.name!r}"
    _require_earlier(step.conditions, earlier, what)
    wanted = {each for each in step.conditions if isinstance(each, str)}
    for guard in guards:
        _require_earlier(guard.conditions, earlier, f"not_ before {what}")
        if all(isinstance(each, str) and each in wanted for each in guard.conditions):
            raise ArgumentError(
                f"{what} wants what the not_ before it forbids, so that nothing can match.",
                "another condition of one of them.",
            )


def _require_earlier(conditions: Sequence[Condition], earlier: list[str], what: str) -> None:
    for each in conditions:
        if isinstance(each, Comparison) and not (
            each.earlier.step in earlier or (each.earlier.step is None and earlier)
        ):
            raise ArgumentError(
                f"{what} is compared with an event of {each.earlier.step!r}, and none can have "
                "been taken before.",
                f"a step before it ({', '.join(earlier) or 'there is none'}), or of() for the "
                "event taken before, whichever step took it.",
                "compare('price', '>', of().last('price'))",
            )


def counts(times: Any, name: str) -> tuple[int, int | None]:
    """Return the least and the most events of a step."""
    pair = (times, times) if isinstance(times, int) else times
    whole = isinstance(pair, tuple) and len(pair) == 2 and _is_count(pair[0])
    if not whole or not (pair[1] is None or _is_count(pair[1])):
        raise ArgumentError(
            f"step {name!r}: times is {times!r}.",
            "a number, or the least and the most, where None is any number.",
            "times=(1, None)",
        )
    if pair[0] < 0 or (pair[1] is not None and pair[1] < max(1, pair[0])):
        raise ArgumentError(
            f"step {name!r}: times is {times!r}, which no number of events fits.",
            "0 or more, and at most 1 or more.",
        )
    return pair[0], pair[1]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def require_conditions(conditions: Sequence[Condition], what: str) -> None:
    """Refuse what is no condition."""
    for each in conditions:
        if not isinstance(each, str | Column | Comparison) or (
            isinstance(each, str) and not each.strip()
        ):
            raise ColumnTypeError(
                f"{what} has the condition {each!r}, a {type(each).__name__}.",
                "a condition as text, a Column, or compare(...).",
                "step('paid', \"event = 'paid'\")",
            )


def require_step(given: object, what: str) -> Step:
    """Return a step, and refuse what is none."""
    if not isinstance(given, Step):
        raise ColumnTypeError(
            f"{what} is given {given!r}, a {type(given).__name__}.",
            "what step returns.",
            f"{what}(step('paid', \"event = 'paid'\"))",
        )
    return given
