"""A pattern as an automaton: what may come next, in the order in which it is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column

from ..measures import Comparison
from ..pattern import Absent, Condition, Pattern, Step

LACKING = 0
FREE = 1
FULL = 2
"""A step has taken too few events; may take more; can take no more."""


@dataclass(frozen=True)
class Compared:
    """A comparison: the places of both values among the pairs, and the earlier event's."""

    pair: int
    comparator: str
    earlier: int


@dataclass(frozen=True)
class Test:
    """What an event is asked: a flag that Spark has computed, and comparisons."""

    flag: int
    comparisons: tuple[Compared, ...]


@dataclass(frozen=True)
class Option:
    """One way on: a step takes its next event, or the match ends.

    step: the step that takes an event; None ends the match.
    test: what the event is asked.
    guards: what no event may be, up to the one that is taken.
    direct: whether the event must be the very next one.
    greedy: whether the option goes before those listed after it where its event is not later than
        theirs, or behind them.
    """

    step: int | None
    test: Test | None
    guards: tuple[Test, ...]
    direct: bool
    greedy: bool


@dataclass(frozen=True)
class Earlier:
    """An event of the match that comparisons ask for: of a step, or -1 for any; first or last."""

    step: int
    first: bool


@dataclass(frozen=True)
class Automaton:
    """The ways on from each step: plain values, which go to Spark's workers.

    least, most: how many events each step takes. options: for each step and phase the ways on.
    earlier: the events that comparisons ask for. pairs: how many comparisons there are.
    skips: whether events of which no condition holds are of no account.
    """

    least: tuple[int, ...]
    most: tuple[int | None, ...]
    options: tuple[tuple[tuple[Option, ...], ...], ...]
    earlier: tuple[Earlier, ...]
    pairs: int
    skips: bool

    @property
    def chooses(self) -> bool:
        """Whether there is more than one way on anywhere."""
        return any(len(ways) > 1 for step in self.options for ways in step)


@dataclass(frozen=True)
class Asked:
    """What Spark computes of each event: conditions that become flags, and values to compare."""

    flags: tuple[tuple[str | Column, ...], ...]
    pairs: tuple[Comparison, ...]


def automaton(pattern: Pattern) -> tuple[Automaton, Asked]:
    """Return the automaton of a pattern, and what it asks of each event.

    The first flag is that of the first step.
    """
    making = _Making(pattern)
    options = making.options()
    steps = pattern.steps
    made = Automaton(
        least=tuple(step.least for step in steps),
        most=tuple(step.most for step in steps),
        options=options,
        earlier=tuple(making.earlier),
        pairs=len(making.pairs),
        skips=not any(step.direct or step.consecutive for step in steps),
    )
    return made, Asked(tuple(making.flags), tuple(making.pairs))


class _Making:
    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.flags: list[tuple[str | Column, ...]] = []
        self.pairs: list[Comparison] = []
        self.earlier: list[Earlier] = []
        self.tests = [self._test(step.conditions) for step in pattern.steps]
        self.guards = [self._guards(absent) for absent in pattern.absent]

    def options(self) -> tuple[tuple[tuple[Option, ...], ...], ...]:
        return tuple(self._of_step(at, step) for at, step in enumerate(self.pattern.steps))

    def _of_step(self, at: int, step: Step) -> tuple[tuple[Option, ...], ...]:
        stay = Option(at, self.tests[at], (), step.consecutive, step.greedy)
        on = self._entering(at + 1, self.guards[at + 1])
        return (stay,), (stay, *on), on

    def _entering(self, at: int, guards: tuple[Test, ...]) -> tuple[Option, ...]:
        if at == len(self.pattern.steps):
            return (Option(None, None, guards, direct=False, greedy=False),)
        step = self.pattern.steps[at]
        taking = Option(at, self.tests[at], guards, step.direct, step.greedy)
        if step.least > 0:
            return (taking,)
        return taking, *self._entering(at + 1, (*guards, *self.guards[at + 1]))

    def _guards(self, absent: Sequence[Absent]) -> tuple[Test, ...]:
        return tuple(self._test(each.conditions) for each in absent)

    def _test(self, conditions: Sequence[Condition]) -> Test:
        self.flags.append(tuple(each for each in conditions if not isinstance(each, Comparison)))
        flag = len(self.flags) - 1
        compared = [each for each in conditions if isinstance(each, Comparison)]
        return Test(flag, tuple(self._compared(each) for each in compared))

    def _compared(self, comparison: Comparison) -> Compared:
        asked = comparison.earlier
        event = Earlier(self.pattern.place(asked.step), asked.kind == "first")
        if event not in self.earlier:
            self.earlier.append(event)
        self.pairs.append(comparison)
        return Compared(len(self.pairs) - 1, comparison.comparator, self.earlier.index(event))
