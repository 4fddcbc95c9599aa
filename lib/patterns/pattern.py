"""The language of sequences: steps one after another, and what must not come between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import Column

from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError
from .measures import Comparison

Condition = str | Column | Comparison
Times = int | tuple[int, int | None]


@dataclass(frozen=True)
class Step:
    """Events that a sequence takes, one or several; `step` makes it.

    Args:
        name: by which measures and comparisons speak of the events.
        conditions: of which all must hold; none means any event.
        least, most: how many events are taken; None is without a bound.
        greedy: whether as many as can be are taken, or as few.
        consecutive: whether no other event of the key may be between the events of the step.
        direct: whether no other event of the key may be before the step's first event.
    """

    name: str
    conditions: tuple[Condition, ...]
    least: int = 1
    most: int | None = 1
    greedy: bool = True
    consecutive: bool = False
    direct: bool = False


@dataclass(frozen=True)
class Absent:
    """What must not come before the next step, or, at the end, within the time; `not_` makes it."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Pattern:
    """A sequence of steps within a time; `sequence` makes it and tells what it matches.

    Args:
        steps: the steps, in their order.
        absent: what must not come before each step, and last what must not come after the last.
        within: the longest time from the first event of a match to its last.
    """

    steps: tuple[Step, ...]
    absent: tuple[tuple[Absent, ...], ...]
    within: str | timedelta

    def place(self, name: str | None) -> int:
        """Return the number of the step of a name; -1 for None, which stands for all."""
        return -1 if name is None else [step.name for step in self.steps].index(name)


def step(
    name: str,
    *conditions: Condition,
    times: Times = 1,
    greedy: bool = True,
    consecutive: bool = False,
) -> Step:
    """Return a step of a sequence: the events that it takes, by its name.

    Args:
        name: by which measures and comparisons speak of the step's events.
        conditions: of which all must hold, each as Spark's SQL, a Column, or `compare` with an
            earlier event; without one any event is taken.
        times: how many events: a number, or the least and the most of them, None for any number.
            (0, 1) is a step that may be left out, (1, None) one that repeats.
        greedy: whether the step takes as many events as it can, or as few.
        consecutive: whether the step's events follow one another with no other event of the key
            between them.

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> step("add", "event = 'add'", times=(1, None)).most is None
    True
    """
    if not isinstance(name, str) or not name.strip():
        raise ArgumentError(f"a step's name is {name!r}.", "text.", "step('paid', ...)")
    _require_conditions(conditions, f"step {name!r}")
    least, most = _times(times, name)
    for what, flag in (("greedy", greedy), ("consecutive", consecutive)):
        if not isinstance(flag, bool):
            raise ColumnTypeError(f"step {name!r}: {what} is {flag!r}.", "True or False.")
    return Step(name, conditions, least, most, greedy, consecutive)


def then(taken: Step) -> Step:
    """Return a step that follows the one before, whatever other events come between them.

    It takes the first event that fits: relaxed contiguity.

    >>> then(step("paid", "event = 'paid'")).direct
    False
    """
    return replace(_step(taken, "then"), direct=False)


def directly(taken: Step) -> Step:
    """Return a step that follows the one before with no other event of the key between.

    >>> directly(step("paid", "event = 'paid'")).direct
    True
    """
    return replace(_step(taken, "directly"), direct=True)


def not_(*conditions: Condition) -> Absent:
    """Return what must not come: before the next step's first event, or until the time is over.

    In the middle an event of which all conditions hold, after the step before, up to and with the
    one that the next step would take, ends the match. At the end of a sequence such an event ends
    it until `within` after the first event, inclusive: the match is there once this time is over.

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> not_("event = 'paid'").conditions
    ("event = 'paid'",)
    """
    if not conditions:
        raise ArgumentError("not_ has no condition.", "at least one.", "not_(\"event = 'paid'\")")
    _require_conditions(conditions, "not_")
    return Absent(conditions)


def sequence(*parts: Step | Absent, within: str | timedelta) -> Pattern:
    """Return a pattern: events of one key, one step after another, within a time.

    A match begins with each event that its first step can take, and each gives one match at most,
    the preferred one. A step takes the first event after those before that fits; a step that
    repeats takes the next that fits, until it has enough or, if greedy, until the following step
    finds its event earlier; an event that fits both goes to the greedy one, and to the following
    one where the step is reluctant, which leaves out what it need not take. Where such a choice
    leads to no match the other one is tried.

    Args:
        parts: what `step`, `then`, `directly` and `not_` return. A step without `then` or
            `directly` follows as with `then`.
        within: the longest time from the first event of a match to its last, both inclusive. It
            bounds what is held on a stream.

    Raises:
        ArgumentError, ColumnTypeError: at the call, for a pattern that cannot match.

    >>> begun, paid = step("begun", "event = 'checkout'"), "event = 'paid'"
    >>> unpaid = sequence(begun, not_(paid), within="10 minutes")
    >>> [step.name for step in unpaid.steps]
    ['begun']
    """
    microseconds(within, "within")
    steps: list[Step] = []
    absent: list[list[Absent]] = [[]]
    for part in parts:
        if isinstance(part, Step):
            steps.append(part)
            absent.append([])
        elif isinstance(part, Absent):
            absent[-1].append(part)
        else:
            raise ColumnTypeError(
                f"a sequence holds {part!r}, a {type(part).__name__}.",
                "what step, then, directly and not_ return.",
                "sequence(step('a', ...), then(step('b', ...)), within='10 minutes')",
            )
    _require_matching(steps, absent)
    return Pattern(tuple(steps), tuple(map(tuple, absent)), within)


def _require_matching(steps: list[Step], absent: list[list[Absent]]) -> None:
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


def _times(times: Any, name: str) -> tuple[int, int | None]:
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


def _require_conditions(conditions: Sequence[Condition], what: str) -> None:
    for each in conditions:
        if not isinstance(each, str | Column | Comparison) or (
            isinstance(each, str) and not each.strip()
        ):
            raise ColumnTypeError(
                f"{what} has the condition {each!r}, a {type(each).__name__}.",
                "a condition as text, a Column, or compare(...).",
                "step('paid', \"event = 'paid'\")",
            )


def _step(given: object, what: str) -> Step:
    if not isinstance(given, Step):
        raise ColumnTypeError(
            f"{what} is given {given!r}, a {type(given).__name__}.",
            "what step returns.",
            f"{what}(step('paid', \"event = 'paid'\"))",
        )
    return given
