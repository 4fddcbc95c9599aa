"""The rolling part of sliding windows: from collected panes to windows, one Arrow batch at a
time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from ..aggregates import Operation
from ._grid import pane
from ._ranges import Ints, fold

Windows = Literal["each", "all"]

ROWS_A_BATCH = 65_536
LARGEST_KEY = 2**62


@dataclass(frozen=True)
class Rolling:
    """Windows of `width` microseconds over rows (window, keys..., events).

    A row's window is a pair of neighbouring panes. The list `events` holds structs (time, kept...,
    values...), in any order, one value for each of `operations`. The windows that end in the pair's
    later pane come out, and with "all" also those that begin just after an event of the earlier
    one."""

    width: int
    keys: int
    kept: int
    operations: tuple[Operation, ...]
    windows: Windows

    def roll(self, pairs: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the windows of the pairs in the batch: columns window, keys, kept, values."""
        at_once = LARGEST_KEY // self._stride
        for begin in range(0, pairs.num_rows, at_once):
            rolled = self._rolled(pairs.slice(begin, at_once))
            yield from (
                rolled.slice(at, ROWS_A_BATCH) for at in range(0, rolled.num_rows, ROWS_A_BATCH)
            )

    @property
    def _stride(self) -> int:
        return 4 * pane(self.width)

    def _rolled(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        window, lists = pairs.column(0), pairs.column(1 + self.keys)
        times, *fields = lists.flatten().flatten()
        pair = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        begins = _micros(window.field(0))

        # One number orders the events of all pairs at once: the pair, then the time within it.
        place = pair * self._stride + _micros(times) - begins[pair]
        order = np.argsort(place, kind="stable")
        place, pair = place[order], pair[order]
        first, stop, start, event = (self._each if self.windows == "each" else self._all)(
            place, place % self._stride
        )
        origin = begins[pair[first]]

        ends = [
            _timed(origin + start, window.type),
            _timed(origin + start + self.width, window.type),
        ]
        values = [part.take(pa.array(order)) for part in fields[self.kept :]]
        columns = [
            pa.StructArray.from_arrays(ends, fields=list(window.type)),
            *[pairs.column(1 + i).take(pa.array(pair[first])) for i in range(self.keys)],
            *[part.take(pa.array(order[event])) for part in fields[: self.kept]],
            *[
                fold(part, first, stop - first, op)
                for part, op in zip(values, self.operations, strict=True)
            ],
        ]
        listed = [pairs.schema.field(i).name for i in range(1 + self.keys)]
        return pa.RecordBatch.from_arrays(
            columns, names=[*listed, *[part.name for part in _parts(lists.type)[1:]]]
        )

    def _each(self, place: Ints, within: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        event = np.flatnonzero(within >= pane(self.width))
        first = np.searchsorted(place, place[event] - self.width, side="left")
        stop = np.searchsorted(place, place[event], side="right")
        return first, stop, within[event] - self.width, event

    def _all(self, place: Ints, within: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        apart = np.diff(place, append=-1) != 0
        ending = self._each(place, np.where(apart, within, 0))
        event = np.flatnonzero(apart & (within < pane(self.width)))
        until = place[event] + pane(self.width)
        first = np.searchsorted(place, place[event], side="right")
        stop = np.searchsorted(place, until, side="right")
        # The window that begins just after an event: if an event stands at its very end, that
        # event's own window is it.
        own = (stop > first) & (place[stop - 1] != until)
        beginning = first[own], stop[own], within[event][own] + 1, event[own]
        return tuple(np.concatenate(both) for both in zip(ending, beginning, strict=True))  # type: ignore[return-value]


def _micros(times: pa.Array) -> Ints:
    found: Ints = times.cast(pa.int64()).to_numpy()
    return found


def _timed(micros: Ints, window: pa.StructType) -> pa.Array:
    return pa.array(micros).cast(window.field(0).type)


def _parts(lists: pa.ListType) -> list[pa.Field]:
    return list(lists.value_type)
