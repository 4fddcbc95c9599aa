"""Pattern matching in plain Python: depth-first search over the events of one key."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import NamedTuple

from tidegate.patterns import Comparison, Negation, Pattern

NEVER = 10**30
PREDICATES: dict[str, Callable[[Event], bool]] = {
    "kind = 'a'": lambda event: event.kind == "a",
    "kind = 'b'": lambda event: event.kind == "b",
    "kind = 'c'": lambda event: event.kind == "c",
    "kind <> 'c'": lambda event: event.kind != "c",
    "value > 0": lambda event: _value_or_lowest(event) > 0,
    "true": lambda event: True,
    "kind = 'd'": lambda event: event.kind == "d",
    "value > 3": lambda event: _value_or_lowest(event) > 3,
    "value > 10": lambda event: _value_or_lowest(event) > 10,
    "value > 12": lambda event: _value_or_lowest(event) > 12,
    "value < 15": lambda event: event.value is not None and event.value < 15,
}


def _value_or_lowest(event: Event) -> float:
    return -inf if event.value is None else event.value


COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class Event(NamedTuple):
    """An event; `number` orders events of one instant."""

    micros: int
    number: int
    key: str | None
    kind: str
    value: int | None


class Match(NamedTuple):
    """A match or timeout: its events as (step, number), and the time at which it is decided."""

    key: str | None
    decided: int
    matched: bool
    path: tuple[tuple[str, int], ...]


Path = tuple[tuple[int, Event], ...]


class Transition(NamedTuple):
    """A transition to a step, or to the end of the match if `step` is None."""

    step: int | None
    negations: tuple[Negation, ...]
    contiguous: bool
    greedy: bool


def matches(
    events: Iterable[Event], pattern: Pattern, within: int, *, skip: str, timeouts: bool
) -> list[Match]:
    """Return all matches, and with `timeouts` all timeouts."""
    by_key = sorted(events, key=lambda event: (repr(event.key), event.micros, event.number))
    result: list[Match] = []
    for key, group in groupby(by_key, key=lambda event: event.key):
        result += _matches_of_key(key, list(group), pattern, within, skip, timeouts)
    return result


def _matches_of_key(
    key: str | None, events: list[Event], pattern: Pattern, within: int, skip: str, timeouts: bool
) -> list[Match]:
    result = []
    at = 0
    latest = -NEVER
    while at < len(events):
        if not _satisfies(pattern, pattern.steps[0].conditions, events[at], ()):
            at += 1
            continue
        attempt = Attempt(events, pattern, at, within)
        path = attempt.run()
        latest = max(latest, attempt.decided) if skip == "past_last" else attempt.decided
        if path or (timeouts and attempt.timed_out):
            steps = tuple(
                (pattern.steps[step].name, event.number)
                for step, event in path or attempt.longest_path
            )
            result.append(Match(key, latest, path is not None, steps))
        if path and skip == "past_last":
            at = events.index(path[-1][1])
        at += 1
    return result


def _satisfies(pattern: Pattern, conditions: tuple[object, ...], event: Event, path: Path) -> bool:
    return all(_satisfies_one(pattern, each, event, path) for each in conditions)


def _satisfies_one(pattern: Pattern, condition: object, event: Event, path: Path) -> bool:
    if not isinstance(condition, Comparison):
        return PREDICATES[str(condition)](event)
    measure = condition.earlier_value
    earlier = [each for step, each in path if measure.step in (None, pattern.steps[step].name)]
    if not earlier:
        return False
    other = (earlier[0] if measure.function == "first" else earlier[-1]).value
    if event.value is None or other is None:
        return False
    return bool(COMPARE[condition.comparator](event.value, other))


@dataclass
class Attempt:
    """The search for a match that begins with one event."""

    events: list[Event]
    pattern: Pattern
    start: int
    within: int
    timed_out: bool = False
    decided: int = -NEVER
    longest_path: Path = field(default=())

    def run(self) -> Path | None:
        """Return the events of the preferred match; None without a match."""
        first = self.events[self.start]
        self.decided = first.micros
        return self._search(((0, first),), self.start, 1)

    @property
    def deadline(self) -> int:
        return self.events[self.start].micros + self.within

    def _search(self, path: Path, at: int, count: int) -> Path | None:
        if not self.longest_path or self.events.index(self.longest_path[-1][1]) < at:
            self.longest_path = path
        step = path[-1][0]
        for transition in self._by_preference(self._transitions(step, count), path, at):
            consumed, forbidden = self._examine(transition, path, at)
            self._record_decision(transition, consumed, forbidden, at)
            if transition.step is None:
                if forbidden == NEVER:
                    return path
            elif consumed != NEVER and consumed < forbidden:
                longer = (*path, (transition.step, self.events[consumed]))
                next_count = count + 1 if transition.step == step else 1
                match = self._search(longer, consumed, next_count)
                if match:
                    return match
        return None

    def _record_decision(
        self, transition: Transition, consumed: int, forbidden: int, at: int
    ) -> None:
        """Record the time up to which events determine the outcome of a transition."""
        if transition.step is None and not transition.negations:
            return
        examined = min(consumed, forbidden)
        if transition.contiguous:
            examined = at + 1 if self._is_in_time(at + 1) else NEVER
        if examined == NEVER:
            self.decided = max(self.decided, self.deadline)
            self.timed_out |= transition.step is not None
        else:
            self.decided = max(self.decided, self.events[examined].micros)

    def _is_in_time(self, at: int) -> bool:
        return at < len(self.events) and self.events[at].micros <= self.deadline

    def _examine(self, transition: Transition, path: Path, at: int) -> tuple[int, int]:
        """Return the positions of the event to consume and of the first forbidden event."""
        consumed = NEVER
        forbidden = NEVER
        position = at + 1
        while self._is_in_time(position):
            event = self.events[position]
            is_satisfied = transition.step is not None and _satisfies(
                self.pattern, self.pattern.steps[transition.step].conditions, event, path
            )
            if is_satisfied and consumed == NEVER:
                consumed = position
            if forbidden == NEVER and any(
                _satisfies(self.pattern, negation.conditions, event, path)
                for negation in transition.negations
            ):
                forbidden = position
            if transition.contiguous:
                break
            position += 1
        return consumed, forbidden

    def _transitions(self, index: int, count: int) -> list[Transition]:
        step = self.pattern.steps[index]
        repeat = Transition(index, (), step.consecutive, step.greedy)
        if count < step.min_count:
            return [repeat]
        exits = self._entries(index + 1, self.pattern.negations[index + 1])
        return exits if step.max_count is not None and count >= step.max_count else [repeat, *exits]

    def _entries(self, index: int, negations: tuple[Negation, ...]) -> list[Transition]:
        if index == len(self.pattern.steps):
            return [Transition(None, negations, contiguous=False, greedy=False)]
        step = self.pattern.steps[index]
        entry = Transition(index, negations, step.contiguous, step.greedy)
        if step.min_count:
            return [entry]
        return [entry, *self._entries(index + 1, negations + self.pattern.negations[index + 1])]

    def _by_preference(
        self, transitions: list[Transition], path: Path, at: int
    ) -> list[Transition]:
        """Return transitions in the order of trial: greedy first unless others consume earlier."""
        if len(transitions) == 1:
            return transitions
        head, *rest = transitions
        later = self._by_preference(rest, path, at)
        is_first = head.greedy and self._consumed(head, path, at) <= min(
            self._consumed(transition, path, at) for transition in rest
        )
        return [head, *later] if is_first else [*later, head]

    def _consumed(self, transition: Transition, path: Path, at: int) -> int:
        consumed, forbidden = self._examine(transition, path, at)
        return consumed if consumed < forbidden else NEVER
