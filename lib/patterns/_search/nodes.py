"""Where the search for matches stands: the events that were taken, and the ways on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .automaton import Option
from .events import NEVER, Flags, Ints

NONE = -1


class Nodes:
    """Events that steps have taken, each with the node before it; grows as the search goes on.

    Its rows are: the event, the step, how many events the step has taken with it, the node before,
    how many ways on have been tried, and the events that comparisons ask for.
    """

    EVENT, STEP, COUNT, PARENT, TRIED, EARLIER = range(6)

    def __init__(self, earlier: int) -> None:
        self._values = np.empty((self.EARLIER + earlier, 1024), dtype=np.int64)
        self.size = 0

    def add(self, rows: Sequence[Ints], earlier: Ints) -> Ints:
        """Add nodes, and return their numbers."""
        more = len(rows[0])
        while self.size + more > self._values.shape[1]:
            self._values = np.concatenate([self._values, np.empty_like(self._values)], axis=1)
        added = np.arange(self.size, self.size + more)
        for row, values in enumerate(rows):
            self._values[row, added] = values
        self._values[self.EARLIER :, added] = earlier
        self.size += more
        return added

    def row(self, row: int) -> Ints:
        """Return one row of all nodes."""
        found: Ints = self._values[row, : self.size]
        return found

    def earlier(self, node: Ints) -> Ints:
        """Return the events that comparisons ask for, a row for each of these."""
        found: Ints = self._values[self.EARLIER :, node]
        return found


@dataclass
class Tries:
    """What came of the ways on that some walkers have: a row for each way.

    event: the event that is taken; NEVER for none. passes: whether the way can be gone. looked: the
    instant up to which events were looked at.
    """

    event: Ints
    passes: Flags
    looked: Ints
    waited: Flags

    def order(self, options: Sequence[Option]) -> Ints:
        """Return in which order each walker tries its ways."""
        ways, walkers = self.event.shape
        place = np.zeros((ways, walkers), dtype=np.int64)
        earliest = np.where(self.passes, self.event, NEVER)
        for way in range(ways - 2, -1, -1):
            rest = earliest[way + 1 :].min(axis=0)
            first = options[way].greedy & (earliest[way] <= rest)
            place[way] = np.where(first, way - ways, ways - way)
        return np.argsort(place, axis=0, kind="stable")
