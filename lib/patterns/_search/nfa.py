"""The nondeterministic finite automaton (NFA) of a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column

from ..language import Comparison, Condition, Pattern

BELOW_MIN = 0
MAY_REPEAT = 1
AT_MAX = 2
"""Phases of a step: below its minimum of events, between minimum and maximum, at its maximum."""


@dataclass(frozen=True)
class ComparisonTest:
    """A comparison: the indexes of its pair of values and of its earlier event."""

    pair_index: int
    comparator: str
    earlier_index: int


@dataclass(frozen=True)
class EventTest:
    """The test of an event: a flag that Spark computes, and comparisons."""

    flag_index: int
    comparisons: tuple[ComparisonTest, ...]


@dataclass(frozen=True)
class Transition:
    """A transition: a step consumes an event, or the match ends.

    step: the step that consumes an event; None ends the match.
    test: the test of the event.
    guards: the tests that no event up to the consumed one may pass.
    contiguous: whether the event must be the next one.
    greedy: whether the transition precedes the ones listed after it if its event is not later than
        theirs; otherwise it follows them.
    """

    step: int | None
    test: EventTest | None
    guards: tuple[EventTest, ...]
    contiguous: bool
    greedy: bool


@dataclass(frozen=True)
class EarlierEvent:
    """An earlier event that comparisons read: the first or last of a step, or of all steps (-1)."""

    step_index: int
    is_first: bool


@dataclass(frozen=True)
class Automaton:
    """The transitions from each step, as plain values that are sent to Spark's workers.

    min_counts, max_counts: the number of events of each step.
    transitions: the transitions by step and phase.
    earlier_events: the earlier events that comparisons read.
    pair_count: the number of comparisons.
    can_drop_unmatched: whether events that satisfy no condition cannot affect a match.
    """

    min_counts: tuple[int, ...]
    max_counts: tuple[int | None, ...]
    transitions: tuple[tuple[tuple[Transition, ...], ...], ...]
    earlier_events: tuple[EarlierEvent, ...]
    pair_count: int
    can_drop_unmatched: bool

    @property
    def has_choices(self) -> bool:
        """Whether any step and phase has more than one transition."""
        return any(len(transitions) > 1 for step in self.transitions for transitions in step)


@dataclass(frozen=True)
class EventInputs:
    """The inputs that Spark computes for each event: conditions as flags, and values to compare."""

    flags: tuple[tuple[str | Column, ...], ...]
    comparisons: tuple[Comparison, ...]


def build_automaton(pattern: Pattern) -> tuple[Automaton, EventInputs]:
    """Return the automaton of a pattern and its inputs; flag 0 is that of the first step."""
    builder = _AutomatonBuilder(pattern)
    steps = pattern.steps
    result = Automaton(
        min_counts=tuple(step.min_count for step in steps),
        max_counts=tuple(step.max_count for step in steps),
        transitions=tuple(builder.step_transitions(index) for index in range(len(steps))),
        earlier_events=tuple(builder.earlier_events),
        pair_count=len(builder.comparisons),
        can_drop_unmatched=not any(step.contiguous or step.consecutive for step in steps),
    )
    return result, EventInputs(tuple(builder.flags), tuple(builder.comparisons))


class _AutomatonBuilder:
    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.flags: list[tuple[str | Column, ...]] = []
        self.comparisons: list[Comparison] = []
        self.earlier_events: list[EarlierEvent] = []
        self.tests = [self._add_test(step.conditions) for step in pattern.steps]
        self.guards = [
            tuple(self._add_test(negation.conditions) for negation in negations)
            for negations in pattern.negations
        ]

    def step_transitions(self, index: int) -> tuple[tuple[Transition, ...], ...]:
        step = self.pattern.steps[index]
        repeat = Transition(index, self.tests[index], (), step.consecutive, step.greedy)
        exits = self._entry_transitions(index + 1, self.guards[index + 1])
        return (repeat,), (repeat, *exits), exits

    def _entry_transitions(
        self, index: int, guards: tuple[EventTest, ...]
    ) -> tuple[Transition, ...]:
        if index == len(self.pattern.steps):
            return (Transition(None, None, guards, contiguous=False, greedy=False),)
        step = self.pattern.steps[index]
        entry = Transition(index, self.tests[index], guards, step.contiguous, step.greedy)
        if step.min_count > 0:
            return (entry,)
        return entry, *self._entry_transitions(index + 1, (*guards, *self.guards[index + 1]))

    def _add_test(self, conditions: Sequence[Condition]) -> EventTest:
        self.flags.append(tuple(each for each in conditions if not isinstance(each, Comparison)))
        comparisons = [each for each in conditions if isinstance(each, Comparison)]
        return EventTest(len(self.flags) - 1, tuple(map(self._add_comparison, comparisons)))

    def _add_comparison(self, comparison: Comparison) -> ComparisonTest:
        measure = comparison.earlier_value
        event = EarlierEvent(self.pattern.step_index(measure.step), measure.function == "first")
        if event not in self.earlier_events:
            self.earlier_events.append(event)
        self.comparisons.append(comparison)
        return ComparisonTest(
            len(self.comparisons) - 1, comparison.comparator, self.earlier_events.index(event)
        )
