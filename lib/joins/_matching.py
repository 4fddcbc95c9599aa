"""The matching part of a stream-stream join, in numpy: rows of one pane, one key and near times.

Keys become numbers, times their rank, and both together one number by which the right rows are
sorted. The right rows that match a left row then stand side by side, and two binary searches find
them. The cost is n log n of a pane's rows, and the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Kind = Literal["inner", "left", "full", "semi", "anti"]

ROWS_A_BATCH = 65_536
_MOST_PLACES = 2**31
"""Above this the numbers of places are dealt out anew, so that their products stay below 2^63."""


@dataclass(frozen=True)
class Side:
    """One side's rows of several groups.

    group: the number of each row's group.
    time: the event time of each row, in microseconds.
    columns: all columns of the rows: time, keys..., others...
    """

    group: Ints
    time: Ints
    columns: list[pa.Array]

    @classmethod
    def of(cls, lists: pa.ListArray) -> Side:
        """Return the rows of a column that holds a list of lists for each group."""
        parts = lists.flatten()
        group_of_part = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        group = np.repeat(group_of_part, parts.value_lengths().to_numpy())
        columns = parts.flatten().flatten()
        return cls(group, columns[0].cast(pa.int64()).to_numpy(), columns)

    def take(self, rows: Ints) -> list[pa.Array]:
        """Return the columns of some rows."""
        return [column.take(pa.array(rows)) for column in self.columns]

    def nothing(self, count: int) -> list[pa.Array]:
        """Return the columns of `count` rows that are null throughout."""
        return [pa.nulls(count, column.type) for column in self.columns]

    def within(self, starts: Ints, length: int) -> Flags:
        """Return for each row whether it is in its group's own pane, not in a neighbour's.

        starts: the begin of each group's pane, in microseconds, as `length` is.
        """
        begin = starts[self.group]
        own: Flags = (self.time >= begin) & (self.time < begin + length)
        return own


@dataclass(frozen=True)
class Found:
    """The right rows that match each left row: they stand side by side in `right`.

    Row `left[i]` of the left side matches the rows `right[first[i] : first[i] + count[i]]` of the
    right side.
    """

    left: Ints
    right: Ints
    first: Ints
    count: Ints


@dataclass(frozen=True)
class Matching:
    """A join of groups of rows (span, lefts, rights), each of which holds a pane.

    before, after: how far before and after a left row's time a right row matches, in microseconds.
    length: the length of a pane, in microseconds.
    keys: how many columns must be equal.
    kind: the kind of the join.

    A group's left rows are those of its pane, and its right rows all that these may match. For
    "full" both sides' rows are those of the pane and all that they may match; a row comes out with
    its own pane.
    """

    before: int
    after: int
    length: int
    keys: int
    kind: Kind

    def match(self, groups: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the joined rows: left time, right time, keys, left columns, right columns.

        For "semi" and "anti" they are the left side's columns alone.
        """
        left = Side.of(groups.column(1))
        right = Side.of(groups.column(2))
        found = self._found(left, right)
        if self.kind == "semi":
            yield from _left_alone(left, found.left[found.count > 0])
        elif self.kind == "anti":
            yield from _left_alone(left, found.left[found.count == 0])
        else:
            starts = groups.column(0).field(0).cast(pa.int64()).to_numpy()
            yield from self._rows(left, right, found, starts)

    def _rows(
        self, left: Side, right: Side, found: Found, starts: Ints
    ) -> Iterator[pa.RecordBatch]:
        own = left.within(starts, self.length)[found.left]
        count = np.where(own, found.count, 0)
        for left_rows, right_rows in _pairs(found, count):
            yield self._joined(left.take(left_rows), right.take(right_rows))
        if self.kind in ("left", "full"):
            unmatched = found.left[own & (found.count == 0)]
            for rows in _cut(unmatched):
                yield self._joined(left.take(rows), right.nothing(len(rows)))
        if self.kind == "full":
            own_right = right.within(starts, self.length)
            unmatched = np.flatnonzero(own_right & ~_matched(found, len(right.time)))
            for rows in _cut(unmatched):
                yield self._joined(left.nothing(len(rows)), right.take(rows), keyed="right")

    def _found(self, left: Side, right: Side) -> Found:
        left_place, right_place = _places(left, right, self.keys)
        instants, rank = np.unique(right.time, return_inverse=True)
        # One number orders the right rows by their place, and in it by their time: each place has
        # room for the ranks of all instants, and for one that is beyond the last.
        room = len(instants) + 1
        keyed = np.flatnonzero(right_place >= 0)
        number = right_place[keyed] * room + rank[keyed]
        order = np.argsort(number)
        number = number[order]
        earliest = np.searchsorted(instants, left.time - self.before, side="left")
        beyond = np.searchsorted(instants, left.time + self.after, side="right")
        low = left_place * room + earliest
        high = left_place * room + beyond
        # Left rows in the order of what they look for find neighbours one after the other, which
        # is several times as fast.
        rows = np.argsort(low)
        first = np.searchsorted(number, low[rows])
        stop = np.searchsorted(number, high[rows])
        count = np.where(left_place[rows] >= 0, stop - first, 0)
        return Found(left=rows, right=keyed[order], first=first, count=count)

    def _joined(
        self,
        left: list[pa.Array],
        right: list[pa.Array],
        keyed: Literal["left", "right"] = "left",
    ) -> pa.RecordBatch:
        """Return rows of both sides in one batch, with the keys of the side `keyed`."""
        others = 1 + self.keys
        keys = left[1:others] if keyed == "left" else right[1:others]
        return _batch([left[0], right[0], *keys, *left[others:], *right[others:]])


def _left_alone(left: Side, rows: Ints) -> Iterator[pa.RecordBatch]:
    for some in _cut(rows):
        yield _batch(left.take(some))


def _places(left: Side, right: Side, keys: int) -> tuple[Ints, Ints]:
    """Return the place of each left and of each right row: a number of its group and key.

    Rows of one group with equal keys have the same place; a row whose key has a null has -1.
    """
    place = np.concatenate([left.group, right.group])
    known = np.ones(len(place), dtype=bool)
    for key in range(1, 1 + keys):
        coded = pa.concat_arrays([left.columns[key], right.columns[key]]).dictionary_encode()
        known &= np.asarray(coded.is_valid())
        codes = coded.indices.fill_null(0).to_numpy()
        place = place * max(1, len(coded.dictionary)) + codes
        if place.max(initial=0) >= _MOST_PLACES:
            _, place = np.unique(place, return_inverse=True)
    place = np.where(known, place, -1)
    return place[: len(left.time)], place[len(left.time) :]


def _pairs(found: Found, count: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Return the left rows and the right rows of all pairs, some pairs at a time.

    count: how many of its matches each left row of `found` is paired with, none or all.
    """
    ends = np.cumsum(count)
    at = 0
    done = 0
    while at < len(count):
        # As many left rows as fill a batch, and one at least: its pairs may be more than a batch.
        stop = max(at + 1, int(np.searchsorted(ends, done + ROWS_A_BATCH, side="right")))
        some = count[at:stop]
        if some.any():
            # A left row's pairs begin at `begins` in this batch and at `first` in `found.right`.
            begins = ends[at:stop] - some - done
            shift = np.repeat(found.first[at:stop] - begins, some)
            right = np.arange(int(some.sum())) + shift
            yield np.repeat(found.left[at:stop], some), found.right[right]
        at = stop
        done = int(ends[stop - 1])


def _matched(found: Found, rows: int) -> Flags:
    """Return for each of the right side's rows whether a left row matches it."""
    # The ranges of matches overlap: a running sum of those that have begun and not ended is above
    # 0 just where there is one.
    some = found.count > 0
    begun = np.zeros(len(found.right) + 1, dtype=np.int64)
    np.add.at(begun, found.first[some], 1)
    np.add.at(begun, (found.first + found.count)[some], -1)
    matched = np.zeros(rows, dtype=bool)
    matched[found.right] = np.cumsum(begun)[:-1] > 0
    return matched


def _cut(rows: Ints) -> Iterator[Ints]:
    """Return the rows in parts of a batch."""
    return (rows[at : at + ROWS_A_BATCH] for at in range(0, len(rows), ROWS_A_BATCH))


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])
