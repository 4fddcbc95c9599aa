"""Where the rows of a stream-stream join wait.

They wait in slices, by their own time, and then in panes, with all rows that they may match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError

Within = tuple[str | timedelta, str | timedelta]

SLICES = 8
"""How many slices a pane has. More of them mean that less is written again while a slice is open,
and more groups."""

_SHORTEST = 1_000_000


@dataclass(frozen=True)
class Panes:
    """The times at which rows of one side can meet those of the other, in microseconds.

    A right row at r matches a left row at l if l - before <= r <= l + after. Each row is in one
    slice, by its own time; slices lie side by side, SLICES of them to a pane. A pane is as long as
    the farther bound, so that what its rows may meet lies in two or three panes.
    """

    before: int
    after: int

    @property
    def slice(self) -> int:
        """The length of a slice."""
        return -(-max(abs(self.before), abs(self.after), _SHORTEST) // SLICES)

    @property
    def length(self) -> int:
        """The length of a pane."""
        return SLICES * self.slice

    def swapped(self) -> Panes:
        """The same panes with left and right exchanged."""
        return Panes(self.after, self.before)

    def slice_of(self, time: Column) -> Column:
        """Return the slice that holds an instant: a struct of start, and end exclusive."""
        start = _floor(F.unix_micros(time), self.slice)
        return span(start, start + F.lit(self.slice))

    def home(self, start: Column) -> Column:
        """Return the start of the pane that a slice is of."""
        return _floor(start, self.length)

    def met(self, start: Column) -> tuple[Column, Column]:
        """Return where the first and the last pane begin that a slice's right rows belong to.

        A pane needs the right rows that its left rows may match.
        """
        last_row = start + F.lit(self.slice - 1)
        first = _floor(start - F.lit(self.after), self.length)
        last = _floor(last_row + F.lit(self.before), self.length)
        return first, last

    def until(self, *, full: bool) -> int:
        """Return how long after its start a pane has all rows that its left rows may match.

        `full` asks the same of its right rows too.
        """
        beyond = max(0, self.after, self.before if full else 0)
        return -(-(self.length + beyond) // self.slice) * self.slice


def span(start: Column, end: Column) -> Column:
    """Return a window of two instants in microseconds."""
    return F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end"))


def panes(within: Within) -> Panes:
    """Check the bounds of a join, and return its panes."""
    if isinstance(within, str) or not isinstance(within, Sequence) or len(within) != 2:
        raise ColumnTypeError(
            f"within is {within!r}.",
            "two durations: how far before and how far after the left row's time a right row may "
            "be.",
            'within=("0 seconds", "1 hour")',
        )
    before = microseconds(within[0], "within", least=-(10**18))
    after = microseconds(within[1], "within", least=-(10**18))
    if before + after < 0:
        raise ArgumentError(
            f"within is {within!r}: [left - before, left + after] ends before it begins, and "
            "nothing could match.",
            "bounds of any sign whose sum is zero or more.",
            'within=("-10 minutes", "1 hour"): from 10 minutes to an hour after the left row.',
        )
    return Panes(before, after)


def _floor(micros: Column, width: int) -> Column:
    return micros - F.pmod(micros, F.lit(width))
