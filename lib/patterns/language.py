"""The language of sequences: the functions that patterns are written with."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._definitions import counts, require_conditions, require_matching, require_step
from .pattern import Absent, Condition, Pattern, Step, Times


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
    require_conditions(conditions, f"step {name!r}")
    least, most = counts(times, name)
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
    return replace(require_step(taken, "then"), direct=False)


def directly(taken: Step) -> Step:
    """Return a step that follows the one before with no other event of the key between.

    >>> directly(step("paid", "event = 'paid'")).direct
    True
    """
    return replace(require_step(taken, "directly"), direct=True)


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
    require_conditions(conditions, "not_")
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
    require_matching(steps, absent)
    return Pattern(tuple(steps), tuple(map(tuple, absent)), within)
