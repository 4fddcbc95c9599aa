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
_MOST_CODES = 2**31
"""Above this the numbers of keys are dealt out anew, so that their products stay below 2^63."""


@dataclass(frozen=True)
class Spans:
    """Windows over events in the order of their keys and times.

    first, stop: a window holds the events first to stop, stop exclusive.
    start: where it starts, in microseconds since 1970.
    event: the event that it ends at, or begins just after.
    """

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
class Events:
    """Events of several groups and keys, in the order of these and of their times.

    time: in microseconds since 1970.
    number: orders the events; what is of one group and key has `room` numbers, one an instant.
    instants: all times there are, upwards.
    last: where the last slice of each event's group begins.
    """

    time: Ints
    number: Ints
    instants: Ints
    last: Ints

    def before(self, event: Ints, time: Ints) -> Ints:
        """Return how many events come before the key of each event has reached a time."""
        rank = np.searchsorted(self.instants, time, side="left")
        return np.searchsorted(self.number, self._first(event) + rank, side="left")

    def until(self, event: Ints, time: Ints) -> Ints:
        """Return how many events come before the key of each event has passed a time."""
        rank = np.searchsorted(self.instants, time, side="right")
        return np.searchsorted(self.number, self._first(event) + rank, side="left")

    def _first(self, event: Ints) -> Ints:
        room = len(self.instants) + 1
        return self.number[event] // room * room


@dataclass(frozen=True)
class Rolling:
    """Windows of `width` microseconds over rows (span, outer keys..., events).

    A row's span is as many slices as its last one's windows reach back to, and that one. `events`
    holds lists of structs (time, inner keys..., kept..., values...), in any order, one value for
    each of `operations`. The windows that end in the last slice come out.
    """

    width: int
    slice: int
    outer: int
    inner: int
    kept: int
    operations: tuple[Operation, ...]
    windows: Windows

    def roll(self, groups: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the windows of the groups in the batch: window, keys, kept, values."""
        rolled = self._rolled(groups)
        for at in range(0, rolled.num_rows, ROWS_A_BATCH):
            yield rolled.slice(at, ROWS_A_BATCH)

    def _rolled(self, groups: pa.RecordBatch) -> pa.RecordBatch:
        """Return the windows of some groups, each with the answers of its events."""
        window = groups.column(0)
        slices = groups.column(1 + self.outer)
        lists = slices.flatten()
        times, *fields = lists.flatten().flatten()
        inner = fields[: self.inner]
        kept = fields[self.inner : self.inner + self.kept]
        values = fields[self.inner + self.kept :]

        group = _group_of_each(slices, lists)
        ends = _micros(window.field(1))[group]
        order, events = _in_order(_micros(times), _codes(group, inner), ends - self.slice)
        spans = self._spans(events)

        event = order[spans.event]
        columns = [
            self._windows(window.type, spans.start),
            *_taken(groups.columns[1 : 1 + self.outer], group[event]),
            *_taken(inner, event),
            *_taken(kept, event),
            *self._folded(_taken(values, order), spans),
        ]
        names = [*groups.schema.names[: 1 + self.outer], *_field_names(lists.type)[1:]]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _windows(self, kind: pa.StructType, start: Ints) -> pa.StructArray:
        ends = [_timed(start, kind), _timed(start + self.width, kind)]
        return pa.StructArray.from_arrays(ends, fields=list(kind))

    def _folded(self, values: list[pa.Array], spans: Spans) -> list[pa.Array]:
        length = spans.stop - spans.first
        pairs = zip(values, self.operations, strict=True)
        return [fold(part, spans.first, length, operation) for part, operation in pairs]

    def _spans(self, events: Events) -> Spans:
        if self.windows == "each":
            return self._ending(events, np.flatnonzero(events.time >= events.last))
        # Events at one instant have one window: that of the last of them.
        is_last = np.diff(events.number, append=-1) != 0
        begun = events.time + pane(self.width)
        begins = (begun >= events.last) & (begun < events.last + self.slice)
        ending = self._ending(events, np.flatnonzero(is_last & (events.time >= events.last)))
        return ending.also(self._beginning(events, np.flatnonzero(is_last & begins)))

    def _ending(self, events: Events, event: Ints) -> Spans:
        """Return the windows that end at an event, and hold it."""
        time = events.time[event]
        first = events.before(event, time - self.width)
        return Spans(first, events.until(event, time), time - self.width, event)

    def _beginning(self, events: Events, event: Ints) -> Spans:
        """Return the windows that begin just after an event, and end in the last slice."""
        time = events.time[event]
        until = time + pane(self.width)
        first = events.until(event, time)
        stop = events.until(event, until)
        # Where an event stands at the very end of such a window, the window that ends at this
        # event is the same.
        own = (stop > first) & (events.time[stop - 1] != until)
        return Spans(first[own], stop[own], time[own] + 1, event[own])


def _in_order(time: Ints, code: Ints, last: Ints) -> tuple[Ints, Events]:
    """Return the order of events by their code and time, and the events in this order."""
    instants, rank = np.unique(time, return_inverse=True)
    number = code * (len(instants) + 1) + rank
    order = np.argsort(number, kind="stable")
    return order, Events(time[order], number[order], instants, last[order])


def _codes(group: Ints, keys: Sequence[pa.Array]) -> Ints:
    """Return a number for each event: the same for those of one group with the same keys."""
    code = group
    for key in keys:
        coded = key.dictionary_encode()
        # A null is a key of its own.
        own = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        code = code * (len(coded.dictionary) + 1) + own
        if code.max(initial=0) >= _MOST_CODES:
            _, code = np.unique(code, return_inverse=True)
    return code


def _micros(times: pa.Array) -> Ints:
    found: Ints = times.cast(pa.int64()).to_numpy()
    return found


def _timed(micros: Ints, window: pa.StructType) -> pa.Array:
    return pa.array(micros).cast(window.field(0).type)


def _taken(columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
    return [column.take(pa.array(rows)) for column in columns]


def _field_names(lists: pa.ListType) -> list[str]:
    return [field.name for field in lists.value_type]


def _group_of_each(slices: pa.ListArray, lists: pa.ListArray) -> Ints:
    """Return the number of the group that each event is of.

    slices: of each group, its slices. lists: of each slice, its events.
    """
    group_of_slice = np.repeat(np.arange(len(slices)), slices.value_lengths().to_numpy())
    return np.repeat(group_of_slice, lists.value_lengths().to_numpy())
