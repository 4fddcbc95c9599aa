"""What a sequence is made of: steps one after another, and what must not come between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column

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
