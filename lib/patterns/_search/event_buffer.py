"""The sorted events of many keys, with lookup of the next event that passes a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...arrow_kernels import Flags, Ints
from .nfa import ComparisonTest, EventTest

NEVER = np.iinfo(np.int64).max
_COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


@dataclass(frozen=True)
class RankedPair:
    """Both values of a comparison for each event, as ranks in value order."""

    value: Ints
    has_value: Flags
    earlier_value: Ints
    has_earlier_value: Flags


@dataclass(frozen=True)
class EventBuffer:
    """Events sorted by key and time.

    code: the code of the key. time: in microseconds. flags: the conditions that are true, as bits.
    pairs: the values of comparisons.
    """

    code: Ints
    time: Ints
    flags: Ints
    pairs: Sequence[RankedPair]
    _next: dict[int, Ints] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def has_flag(self, flag: int) -> Flags:
        is_set: Flags = (self.flags >> flag) & 1 == 1
        return is_set

    def stop_positions(self, start: Ints, within: int) -> Ints:
        """Return for each start event the first event of another key or after `within`."""
        instants, rank = np.unique(self.time, return_inverse=True)
        ranks_per_key = len(instants) + 1
        key_base = np.cumsum(np.diff(self.code, prepend=self.code[:1]) != 0) * ranks_per_key
        last = np.searchsorted(instants, self.time[start] + within, side="right")
        positions: Ints = np.searchsorted(key_base + rank, key_base[start] + last, side="left")
        return positions

    def next_passing(
        self, test: EventTest, position: Ints, stop: Ints, earlier_events: Ints
    ) -> Ints:
        """Return the first event after `position` and before `stop` that passes a test, or NEVER.

        earlier_events: the earlier events of comparisons, one row for each.
        """
        next_flagged = self._next_flagged(test.flag_index)
        candidate = next_flagged[position + 1]
        if test.comparisons:
            unchecked = np.flatnonzero(candidate < stop)
            while len(unchecked):
                is_passing = self.passes(test, candidate[unchecked], earlier_events[:, unchecked])
                failing = unchecked[~is_passing]
                candidate[failing] = next_flagged[candidate[failing] + 1]
                unchecked = failing[candidate[failing] < stop[failing]]
        return np.where(candidate < stop, candidate, NEVER)

    def passes(self, test: EventTest, event: Ints, earlier_events: Ints) -> Flags:
        passing: Flags = (self.flags[event] >> test.flag_index) & 1 == 1
        for comparison in test.comparisons:
            passing &= self._compare(comparison, event, earlier_events[comparison.earlier_index])
        return passing

    def _compare(self, comparison: ComparisonTest, event: Ints, earlier_event: Ints) -> Flags:
        pair = self.pairs[comparison.pair_index]
        has_earlier_value = (earlier_event >= 0) & pair.has_earlier_value[earlier_event]
        compare = _COMPARE[comparison.comparator]
        is_true: Flags = compare(pair.value[event], pair.earlier_value[earlier_event])
        return is_true & has_earlier_value & pair.has_value[event]

    def _next_flagged(self, flag: int) -> Ints:
        """Return for each position the first event at or after it that has a flag."""
        if flag not in self._next:
            positions = np.full(len(self) + 1, NEVER, dtype=np.int64)
            flagged = np.flatnonzero(self.has_flag(flag))
            positions[flagged] = flagged
            self._next[flag] = np.minimum.accumulate(positions[::-1])[::-1]
        return self._next[flag]


def rank_pair(value: pa.Array, earlier_value: pa.Array) -> RankedPair:
    """Return the two values of a comparison, of one type, as ranks in Spark's order."""
    ranks = _ranks(pa.concat_arrays([value, earlier_value]))
    count = len(value)
    has_value = np.asarray(value.is_valid())
    return RankedPair(ranks[:count], has_value, ranks[count:], np.asarray(earlier_value.is_valid()))


def _ranks(values: pa.Array) -> Ints:
    if pa.types.is_floating(values.type):
        # As in Spark, numpy sorts NaN as equal to itself and greater than all numbers.
        filled = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        return np.unique(filled, return_inverse=True)[1].astype(np.int64)
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks: Ints = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return ranks
