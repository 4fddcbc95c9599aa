"""The events of many keys in order, and where among them the next one is that passes a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .automaton import Compared, Test

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

NEVER = np.iinfo(np.int64).max
_MOST_CODES = 2**31
"""Above this the numbers of keys are dealt out anew, so that their products stay below 2^63."""
_COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


@dataclass(frozen=True)
class Pair:
    """Both values of a comparison for each event, as numbers in the values' order."""

    value: Ints
    valued: Flags
    earlier: Ints
    known: Flags


@dataclass(frozen=True)
class Events:
    """Events by key and time: events of one key stand together, in their order.

    code: a number for each key. time: in microseconds. flags: which conditions hold, by bits.
    pairs: what comparisons compare.
    """

    code: Ints
    time: Ints
    flags: Ints
    pairs: Sequence[Pair]
    _next: dict[int, Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(self.time)

    def holding(self, flag: int) -> Flags:
        """Return which events a flag is set of."""
        found: Flags = (self.flags >> flag) & 1 == 1
        return found

    def stops(self, begin: Ints, within: int) -> Ints:
        """Return for each event of some the first that is of another key or too late for it."""
        instants, rank = np.unique(self.time, return_inverse=True)
        room = len(instants) + 1
        place = np.cumsum(np.diff(self.code, prepend=self.code[:1]) != 0) * room
        last = np.searchsorted(instants, self.time[begin] + within, side="right")
        found: Ints = np.searchsorted(place + rank, place[begin] + last, side="left")
        return found

    def next(self, test: Test, at: Ints, stop: Ints, earlier: Ints) -> Ints:
        """Return the first event after each `at` that passes a test; NEVER if none before `stop`.

        earlier: the events that comparisons ask for, a row for each of these.
        """
        following = self._following(test.flag)
        found = following[at + 1]
        if test.comparisons:
            asked = np.flatnonzero(found < stop)
            while len(asked):
                failing = asked[~self.passes(test, found[asked], earlier[:, asked])]
                found[failing] = following[found[failing] + 1]
                asked = failing[found[failing] < stop[failing]]
        return np.where(found < stop, found, NEVER)

    def passes(self, test: Test, event: Ints, earlier: Ints) -> Flags:
        """Return whether each event passes a test."""
        passing = (
            self.holding(test.flag)[event] if not test.comparisons else self._flag(test, event)
        )
        for each in test.comparisons:
            passing &= self._compared(each, event, earlier[each.earlier])
        return passing

    def _flag(self, test: Test, event: Ints) -> Flags:
        found: Flags = (self.flags[event] >> test.flag) & 1 == 1
        return found

    def _compared(self, each: Compared, event: Ints, earlier: Ints) -> Flags:
        pair = self.pairs[each.pair]
        known = (earlier >= 0) & pair.known[earlier] & pair.valued[event]
        found: Flags = _COMPARE[each.comparator](pair.value[event], pair.earlier[earlier]) & known
        return found

    def _following(self, flag: int) -> Ints:
        """Return for each place the first event from it on that a flag is set of."""
        if flag not in self._next:
            place = np.full(len(self) + 1, NEVER, dtype=np.int64)
            holding = np.flatnonzero(self.holding(flag))
            place[holding] = holding
            self._next[flag] = np.minimum.accumulate(place[::-1])[::-1]
        return self._next[flag]


def codes(keys: Sequence[pa.Array], length: int) -> Ints:
    """Return a number for each row: the same for those with the same keys, nulls among them."""
    code = np.zeros(length, dtype=np.int64)
    for key in keys:
        coded = key.dictionary_encode()
        own = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        code = code * (len(coded.dictionary) + 1) + own
        if code.max(initial=0) >= _MOST_CODES:
            code = np.unique(code, return_inverse=True)[1]
    return code


def pair(value: pa.Array, earlier: pa.Array) -> Pair:
    """Return the two values of a comparison, of one type, as numbers in Spark's order."""
    both = _ranked(pa.concat_arrays([value, earlier]))
    at = len(value)
    valued = np.asarray(value.is_valid())
    return Pair(both[:at], valued, both[at:], np.asarray(earlier.is_valid()))


def _ranked(values: pa.Array) -> Ints:
    if pa.types.is_floating(values.type):
        # NaN is equal to itself and above all numbers, as numpy sorts it and Spark compares it.
        plain = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        return np.unique(plain, return_inverse=True)[1].astype(np.int64)
    coded = values.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranked: Ints = rank[coded.indices.fill_null(len(order)).to_numpy()]
    return ranked
