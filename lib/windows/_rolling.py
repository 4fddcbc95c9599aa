"""The rolling part of sliding windows: from collected panes to windows, by Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from ..aggregates import Operation
from ._grid import pane
from ._ranges import Ints, fold

Windows = Literal["each", "all"]

ROWS_A_BATCH = 65_536
LARGEST_PLACE = 2**62
"""So many places are told apart at once, as numbers of 64 bits with room to spare."""


@dataclass(frozen=True)
class Spans:
    """Windows over events in the order of their places.

    first, stop: a window holds the events first to stop, stop exclusive.
    start: where it starts, in microseconds from its pair's begin.
    event: the event that it ends at, or begins just after."""

    first: Ints
    stop: Ints
    start: Ints
    event: Ints

    def also(self, other: Spans) -> Spans:
        """Return these windows, and the others behind them."""
        return Spans(
            np.concatenate([self.first, other.first]),
            np.concatenate([self.stop, other.stop]),
            np.concatenate([self.start, other.start]),
            np.concatenate([self.event, other.event]),
        )


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
        at_once = LARGEST_PLACE // self._stride
        for begin in range(0, pairs.num_rows, at_once):
            rolled = self._rolled(pairs.slice(begin, at_once))
            for at in range(0, rolled.num_rows, ROWS_A_BATCH):
                yield rolled.slice(at, ROWS_A_BATCH)

    @property
    def _stride(self) -> int:
        """How far apart the places of two pairs are, so that no window reaches into the next."""
        return 4 * pane(self.width)

    def _rolled(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        window = pairs.column(0)
        lists = pairs.column(1 + self.keys)
        times, *fields = lists.flatten().flatten()
        kept = fields[: self.kept]
        values = fields[self.kept :]

        # One number, its place, orders the events of all pairs at once: the pair, then the time
        # within it.
        begins = _micros(window.field(0))
        pair = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        place = pair * self._stride + _micros(times) - begins[pair]
        order = np.argsort(place, kind="stable")
        spans = self._spans(place[order])

        pair_of_span = pair[order[spans.first]]
        start = begins[pair_of_span] + spans.start
        columns = [
            self._windows(window.type, start),
            *_taken(pairs.columns[1 : 1 + self.keys], pair_of_span),
            *_taken(kept, order[spans.event]),
            *self._folded(_taken(values, order), spans),
        ]
        names = [*pairs.schema.names[: 1 + self.keys], *_field_names(lists.type)[1:]]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _windows(self, kind: pa.StructType, start: Ints) -> pa.StructArray:
        ends = [_timed(start, kind), _timed(start + self.width, kind)]
        return pa.StructArray.from_arrays(ends, fields=list(kind))

    def _folded(self, values: list[pa.Array], spans: Spans) -> list[pa.Array]:
        length = spans.stop - spans.first
        pairs = zip(values, self.operations, strict=True)
        return [fold(part, spans.first, length, operation) for part, operation in pairs]

    def _spans(self, place: Ints) -> Spans:
        within = place % self._stride
        if self.windows == "each":
            return self._ending(place, within, np.flatnonzero(within >= pane(self.width)))
        # Events at one instant have one window: that of the last of them.
        is_last = np.diff(place, append=-1) != 0
        later = np.flatnonzero(is_last & (within >= pane(self.width)))
        earlier = np.flatnonzero(is_last & (within < pane(self.width)))
        return self._ending(place, within, later).also(self._beginning(place, within, earlier))

    def _ending(self, place: Ints, within: Ints, event: Ints) -> Spans:
        """Return the windows that end at an event, and hold it."""
        first = np.searchsorted(place, place[event] - self.width, side="left")
        stop = np.searchsorted(place, place[event], side="right")
        return Spans(first, stop, within[event] - self.width, event)

    def _beginning(self, place: Ints, within: Ints, event: Ints) -> Spans:
        """Return the windows that begin just after an event, and end in the pair's later pane."""
        until = place[event] + pane(self.width)
        first = np.searchsorted(place, place[event], side="right")
        stop = np.searchsorted(place, until, side="right")
        # Where an event stands at the very end of such a window, the window that ends at this
        # event is the same.
        own = (stop > first) & (place[stop - 1] != until)
        return Spans(first[own], stop[own], within[event][own] + 1, event[own])


def _micros(times: pa.Array) -> Ints:
    found: Ints = times.cast(pa.int64()).to_numpy()
    return found


def _timed(micros: Ints, window: pa.StructType) -> pa.Array:
    return pa.array(micros).cast(window.field(0).type)


def _taken(columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
    return [column.take(pa.array(rows)) for column in columns]


def _field_names(lists: pa.ListType) -> list[str]:
    return [field.name for field in lists.value_type]
