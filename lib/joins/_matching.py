"""The matching part of a stream-stream join: rows that share a pane, a key and a range of time, in numpy.

Keys become numbers, times their rank, and both together one number by which the right rows are
sorted; those that match a left row then stand side by side, and two binary searches find them. The
cost is n log n of a pane's rows, and the pairs."""

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


@dataclass(frozen=True)
class Side:
    """One side's rows of several groups: their group, their time, and their columns (time, keys...,
    others...)."""

    group: Ints
    time: Ints
    columns: list[pa.Array]

    @classmethod
    def of(cls, lists: pa.ListArray) -> Side:
        """Take rows out of a list of lists for each group."""
        inner = lists.flatten()
        group = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        columns = inner.flatten().flatten()
        times = columns[0].cast(pa.int64()).to_numpy()
        return cls(np.repeat(group, inner.value_lengths().to_numpy()), times, columns)

    def take(self, rows: Ints) -> list[pa.Array]:
        """Return the columns of some rows."""
        return [column.take(pa.array(rows)) for column in self.columns]

    def nothing(self, count: int) -> list[pa.Array]:
        """Return the columns of so many rows that are not there."""
        return [pa.nulls(count, column.type) for column in self.columns]

    def within(self, starts: Ints, length: int) -> Flags:
        """Tell which rows are of their group's own pane, and not of its neighbours'."""
        begin = starts[self.group]
        own: Flags = (self.time >= begin) & (self.time < begin + length)
        return own


@dataclass(frozen=True)
class Found:
    """Which right rows match: for left row `left[i]`, those of `right[first[i] : first[i] +
    count[i]]`."""

    left: Ints
    right: Ints
    first: Ints
    count: Ints


@dataclass(frozen=True)
class Matching:
    """A join of groups, each of a pane that is `length` microseconds long: rows (span, lefts, rights).

    The left rows are those of the pane, the right rows all that they may match; for "full" both
    sides' rows are those of the pane and all that they may match. A row comes out with its own
    pane."""

    before: int
    after: int
    length: int
    keys: int
    kind: Kind

    def match(self, groups: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return (left time, right time, keys, left columns, right columns), or the left's alone
        for semi and anti."""
        left, right = Side.of(groups.column(1)), Side.of(groups.column(2))
        found = self._found(left, right)
        if self.kind in ("semi", "anti"):
            wanted = found.count > 0 if self.kind == "semi" else found.count == 0
            yield from (_batch(left.take(rows)) for rows in _cut(found.left[wanted]))
            return
        starts = groups.column(0).field(0).cast(pa.int64()).to_numpy()
        own = left.within(starts, self.length)[found.left]
        for ours, theirs in _pairs(found, np.where(own, found.count, 0)):
            yield self._joined(left.take(ours), right.take(theirs))
        if self.kind in ("left", "full"):
            for rows in _cut(found.left[own & (found.count == 0)]):
                yield self._joined(left.take(rows), right.nothing(len(rows)))
        if self.kind == "full":
            for rows in _cut(
                np.flatnonzero(
                    right.within(starts, self.length) & ~_matched(found, len(right.time))
                )
            ):
                yield self._joined(left.nothing(len(rows)), right.take(rows), keyed="right")

    def _found(self, left: Side, right: Side) -> Found:
        ours, theirs = _places(left, right, self.keys)
        instants, rank = np.unique(right.time, return_inverse=True)
        width = len(instants) + 1
        low = ours * width + np.searchsorted(instants, left.time - self.before, side="left")
        high = ours * width + np.searchsorted(instants, left.time + self.after, side="right")
        keyed = np.flatnonzero(theirs >= 0)
        place = theirs[keyed] * width + rank[keyed]
        order = np.argsort(place)
        place = place[order]
        # In the order of what they look for, neighbours find neighbours, which is several times as
        # fast.
        rows = np.argsort(low)
        first = np.searchsorted(place, low[rows])
        count = np.where(ours[rows] >= 0, np.searchsorted(place, high[rows]) - first, 0)
        return Found(rows, keyed[order], first, count)

    def _joined(
        self, left: list[pa.Array], right: list[pa.Array], keyed: str = "left"
    ) -> pa.RecordBatch:
        first = 1 + self.keys
        keys = (left if keyed == "left" else right)[1:first]
        return _batch([left[0], right[0], *keys, *left[first:], *right[first:]])


def _places(left: Side, right: Side, keys: int) -> tuple[Ints, Ints]:
    """Number the rows of both sides by group and key, equal for equal ones; -1 for a key with a
    null."""
    place = np.concatenate([left.group, right.group])
    known = np.ones(len(place), dtype=bool)
    for key in range(1, 1 + keys):
        coded = pa.concat_arrays([left.columns[key], right.columns[key]]).dictionary_encode()
        known &= np.asarray(coded.is_valid())
        place = place * max(1, len(coded.dictionary)) + coded.indices.fill_null(0).to_numpy()
        if place.max(initial=0) >= _MOST_PLACES:
            place = np.unique(place, return_inverse=True)[1]
    place = np.where(known, place, -1)
    return place[: len(left.time)], place[len(left.time) :]


def _pairs(found: Found, count: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Return the rows of all pairs, some at a time."""
    ends, at, done = np.cumsum(count), 0, 0
    while at < len(count):
        stop = max(at + 1, int(np.searchsorted(ends, done + ROWS_A_BATCH, side="right")))
        some = count[at:stop]
        if some.any():
            begins = ends[at:stop] - some - done
            right = np.arange(int(some.sum())) + np.repeat(found.first[at:stop] - begins, some)
            yield np.repeat(found.left[at:stop], some), found.right[right]
        at, done = stop, int(ends[stop - 1])


def _matched(found: Found, rows: int) -> Flags:
    """Tell which right rows some left row matches."""
    some = found.count > 0
    change = np.zeros(len(found.right) + 1, dtype=np.int64)
    np.add.at(change, found.first[some], 1)
    np.add.at(change, (found.first + found.count)[some], -1)
    matched = np.zeros(rows, dtype=bool)
    matched[found.right] = np.cumsum(change)[:-1] > 0
    return matched


def _cut(rows: Ints) -> Iterator[Ints]:
    return (rows[at : at + ROWS_A_BATCH] for at in range(0, len(rows), ROWS_A_BATCH))


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])
