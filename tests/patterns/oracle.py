"""Sequences in plain Python: one key's events, every way tried one after the other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import NamedTuple

from tidegate.patterns import Absent, Comparison, Pattern, Step

NEVER = 10**30
PREDICATES: dict[str, Callable[[Event], bool]] = {
    "kind = 'a'": lambda event: event.kind == "a",
    "kind = 'b'": lambda event: event.kind == "b",
    "kind = 'c'": lambda event: event.kind == "c",
    "kind <> 'c'": lambda event: event.kind != "c",
    "value > 0": lambda event: _valued(event) > 0,
    "true": lambda event: True,
    "kind = 'd'": lambda event: event.kind == "d",
    "value > 3": lambda event: _valued(event) > 3,
    "value > 10": lambda event: _valued(event) > 10,
    "value > 12": lambda event: _valued(event) > 12,
    "value < 15": lambda event: event.value is not None and event.value < 15,
}


def _valued(event: Event) -> float:
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
    """An event; `number` orders those of one instant."""

    micros: int
    number: int
    key: str | None
    kind: str
    value: int | None


class Match(NamedTuple):
    """What comes out: the events of the path as (step, number), and when that is certain."""

    key: str | None
    decided: int
    matched: bool
    path: tuple[tuple[str, int], ...]


Path = tuple[tuple[int, Event], ...]


class Way(NamedTuple):
    """A step that may take an event, or None for the end."""

    step: int | None
    guards: tuple[Absent, ...]
    direct: bool
    greedy: bool


def matches(
    events: Iterable[Event], pattern: Pattern, within: int, *, skip: str, timeouts: bool
) -> list[Match]:
    """Return all that comes out of some events."""
    by_key = sorted(events, key=lambda event: (repr(event.key), event.micros, event.number))
    found: list[Match] = []
    for key, group in groupby(by_key, key=lambda event: event.key):
        found += _of_key(key, list(group), pattern, within, skip, timeouts)
    return found


def _of_key(
    key: str | None, events: list[Event], pattern: Pattern, within: int, skip: str, timeouts: bool
) -> list[Match]:
    found = []
    at = 0
    latest = -NEVER
    while at < len(events):
        if not _holds(pattern.steps[0].conditions, events[at], ()):
            at += 1
            continue
        attempt = Attempt(events, pattern, at, within)
        path = attempt.run()
        latest = max(latest, attempt.decided) if skip == "past_last" else attempt.decided
        shown = path or attempt.farthest
        if path or (timeouts and attempt.waited):
            steps = tuple((pattern.steps[step].name, event.number) for step, event in shown)
            found.append(Match(key, latest, path is not None, steps))
        if path and skip == "past_last":
            at = events.index(path[-1][1])
        at += 1
    return found


def _holds(conditions: tuple[object, ...], event: Event, path: Path) -> bool:
    return all(_one_holds(each, event, path) for each in conditions)


def _one_holds(condition: object, event: Event, path: Path) -> bool:
    if not isinstance(condition, Comparison):
        return PREDICATES[str(condition)](event)
    asked = condition.earlier
    taken = [each for name, each in path if asked.step in (None, _names[name])]
    if not taken:
        return False
    other = (taken[0] if asked.kind == "first" else taken[-1]).value
    if event.value is None or other is None:
        return False
    return bool(COMPARE[condition.comparator](event.value, other))


_names: dict[int, str] = {}


@dataclass
class Attempt:
    """The ways of a match that begins with one event."""

    events: list[Event]
    pattern: Pattern
    begin: int
    within: int
    waited: bool = False
    decided: int = -NEVER
    farthest: Path = field(default=())

    def run(self) -> Path | None:
        """Return the events of the preferred match; None without one."""
        _names.clear()
        _names.update({at: step.name for at, step in enumerate(self.pattern.steps)})
        first = self.events[self.begin]
        self.decided = first.micros
        return self._from(((0, first),), self.begin, 1)

    @property
    def deadline(self) -> int:
        return self.events[self.begin].micros + self.within

    def _from(self, path: Path, at: int, count: int) -> Path | None:
        if not self.farthest or self.events.index(self.farthest[-1][1]) < at:
            self.farthest = path
        step = path[-1][0]
        for way in self._in_order(self._ways(step, count), path, at):
            taken, forbidden = self._look(way, path, at)
            self._note(way, taken, forbidden, at)
            if way.step is None:
                if forbidden == NEVER:
                    return path
            elif taken != NEVER and taken < forbidden:
                longer = (*path, (way.step, self.events[taken]))
                found = self._from(longer, taken, count + 1 if way.step == step else 1)
                if found:
                    return found
        return None

    def _note(self, way: Way, taken: int, forbidden: int, at: int) -> None:
        """Note up to which instant this way had to be looked at."""
        if way.step is None and not way.guards:
            return
        seen = min(taken, forbidden)
        if way.direct:
            seen = at + 1 if self._inside(at + 1) else NEVER
        if seen == NEVER:
            self.decided = max(self.decided, self.deadline)
            self.waited |= way.step is not None
        else:
            self.decided = max(self.decided, self.events[seen].micros)

    def _inside(self, at: int) -> bool:
        return at < len(self.events) and self.events[at].micros <= self.deadline

    def _look(self, way: Way, path: Path, at: int) -> tuple[int, int]:
        """Return the place of the event that is taken, and of the first that is forbidden."""
        taken = NEVER
        forbidden = NEVER
        place = at + 1
        while self._inside(place):
            event = self.events[place]
            fits = way.step is not None and _holds(
                self.pattern.steps[way.step].conditions, event, path
            )
            if fits and taken == NEVER:
                taken = place
            if forbidden == NEVER and any(_holds(g.conditions, event, path) for g in way.guards):
                forbidden = place
            if way.direct:
                break
            place += 1
        return taken, forbidden

    def _ways(self, step: int, count: int) -> list[Way]:
        asked: Step = self.pattern.steps[step]
        stay = Way(step, (), asked.consecutive, asked.greedy)
        if count < asked.least:
            return [stay]
        on = self._entering(step + 1, self.pattern.absent[step + 1])
        return on if asked.most is not None and count >= asked.most else [stay, *on]

    def _entering(self, step: int, guards: tuple[Absent, ...]) -> list[Way]:
        if step == len(self.pattern.steps):
            return [Way(None, guards, direct=False, greedy=False)]
        asked = self.pattern.steps[step]
        way = Way(step, guards, asked.direct, asked.greedy)
        if asked.least:
            return [way]
        return [way, *self._entering(step + 1, guards + self.pattern.absent[step + 1])]

    def _in_order(self, ways: list[Way], path: Path, at: int) -> list[Way]:
        """Return the ways in which they are tried: a greedy one first unless others come sooner."""
        if len(ways) == 1:
            return ways
        head, *rest = ways
        later = self._in_order(rest, path, at)
        first = head.greedy and self._event(head, path, at) <= min(
            self._event(way, path, at) for way in rest
        )
        return [head, *later] if first else [*later, head]

    def _event(self, way: Way, path: Path, at: int) -> int:
        taken, forbidden = self._look(way, path, at)
        return taken if taken < forbidden else NEVER
