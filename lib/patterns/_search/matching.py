"""From rows of events to rows of matches, by Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .automaton import Automaton
from .chosen import Chosen, past_last, to_next
from .events import Events, Flags, Ints, codes, pair
from .nodes import NONE, Nodes
from .search import Found, search

Skip = Literal["past_last", "to_next"]
FOREVER = np.iinfo(np.int64).max
DONE = "done"
"""A column of rows that are held: no match begins with the row any more."""


@dataclass(frozen=True)
class Reading:
    """What a measure reads: of which step, -1 for all; one event's value, or all values.

    value: the number of its column; None for a count.
    """

    step: int
    kind: Literal["first", "last", "count", "list"]
    value: int | None


@dataclass(frozen=True)
class Matching:
    """Matches over rows (key:i..., time, order:i..., tie, flags, left:i, right:i..., value:i...).

    within: in microseconds, as all times are. keys, orders: how many such columns there are.
    """

    automaton: Automaton
    within: int
    keys: int
    orders: int
    skip: Skip
    timeouts: bool
    readings: tuple[Reading, ...]

    def in_order(self, rows: pa.Table) -> pa.Table:
        """Return rows by key, and in the order of each key's events."""
        keyed = {"code": pa.array(self.codes(rows)), "time": rows.column("time")}
        for at in range(self.orders):
            # A null comes first, as Spark has it.
            column = rows.column(f"order:{at}")
            keyed |= {f"known:{at}": column.is_valid(), f"order:{at}": column}
        keyed["tie"] = rows.column("tie")
        by = [(name, "ascending") for name in keyed]
        return rows.take(pc.sort_indices(pa.table(keyed), sort_keys=by))

    def codes(self, rows: pa.Table) -> Ints:
        """Return a number for each row, the same where the keys are."""
        keys = [_whole(rows.column(f"key:{at}")) for at in range(self.keys)]
        return codes(keys, rows.num_rows)

    def advance(self, rows: pa.Table, until: int) -> tuple[pa.Table, pa.Table]:
        """Return what is decided before an instant, and the rows that are still needed.

        rows: in order, with the column DONE. All events before `until` must be among them, of the
        keys that they hold.
        """
        is_past = rows.column("time").to_numpy() < until
        past = rows.filter(pa.array(is_past))
        events = self._events(past)
        done = past.column(DONE).to_numpy()
        begin = np.flatnonzero(events.holding(0) & ~done)
        found = search(events, self.automaton, begin, self.within)
        chosen = self._chosen(found, events, until)

        # Events that are yet to come are needed all of them, and no match has begun with them.
        needed = np.ones(len(is_past), dtype=bool)
        needed[is_past] = _covered(found, chosen, len(events))
        over = np.zeros(len(is_past), dtype=bool)
        over[is_past] = _over(found, chosen, len(events))
        held = rows.filter(pa.array(needed))
        place = held.schema.get_field_index(DONE)
        held = held.set_column(place, DONE, pa.array(over[needed]))
        return self._results(past, events, found, chosen), held

    def _events(self, rows: pa.Table) -> Events:
        pairs = [
            pair(_whole(rows.column(f"left:{at}")), _whole(rows.column(f"right:{at}")))
            for at in range(self.automaton.pairs)
        ]
        time = rows.column("time").to_numpy()
        return Events(self.codes(rows), time, rows.column("flags").to_numpy(), pairs)

    def _chosen(self, found: Found, events: Events, until: int) -> Chosen:
        if self.skip == "to_next" or not len(found.begin):
            return to_next(found, until, timeouts=self.timeouts)
        return past_last(found, events, until, timeouts=self.timeouts)

    def _results(self, rows: pa.Table, events: Events, found: Found, chosen: Chosen) -> pa.Table:
        """Return a row for each match that comes out: its key, its times, and the measures."""
        out = np.flatnonzero(chosen.out)
        begin = found.begin[out]
        matched = found.matched[out]
        last = np.where(matched, found.node[out], found.best[out])
        taken = _taken(found, last)
        columns = {f"key:{at}": rows.column(f"key:{at}").take(begin) for at in range(self.keys)}
        columns["started"] = pa.array(events.time[begin])
        columns["ended"] = pa.array(events.time[found.nodes.row(Nodes.EVENT)[last]])
        columns["decided"] = pa.array(chosen.decided[out])
        columns["matched"] = pa.array(matched)
        for at, reading in enumerate(self.readings):
            columns[f"measure:{at}"] = taken.read(rows, reading, len(out))
        return pa.table(columns)


@dataclass(frozen=True)
class _Taken:
    """Events of matches: by match, and in it in the order in which they were taken."""

    match: Ints
    step: Ints
    event: Ints

    def read(self, rows: pa.Table, reading: Reading, matches: int) -> pa.Array:
        """Return a measure of each match: a count of events, or values of theirs."""
        here = np.arange(len(self.event))
        if reading.step != NONE:
            here = np.flatnonzero(self.step == reading.step)
        bounds = np.searchsorted(self.match[here], np.arange(matches + 1))
        count = np.diff(bounds)
        if reading.kind == "count":
            return pa.array(count)
        values = _whole(rows.column(f"value:{reading.value}"))
        if reading.kind == "list":
            parts = values.take(pa.array(self.event[here]))
            return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), parts)
        at = bounds[:-1] if reading.kind == "first" else bounds[1:] - 1
        event = self.event[here][np.where(count > 0, at, 0)] if len(here) else 0 * count
        return values.take(pa.array(event, mask=count == 0))


def _taken(found: Found, last: Ints) -> _Taken:
    """Return the events of the paths that end at some nodes."""
    nodes = found.nodes
    match = np.arange(len(last))
    parts: list[tuple[Ints, Ints]] = []
    node = last
    while len(node):
        parts.append((match, node))
        node = nodes.row(Nodes.PARENT)[node]
        match = match[node != NONE]
        node = node[node != NONE]
    if not parts:
        return _Taken(last, last, last)
    matches = np.concatenate([match for match, _ in parts])
    path = np.concatenate([node for _, node in parts])
    event = nodes.row(Nodes.EVENT)[path]
    order = np.lexsort((event, matches))
    return _Taken(matches[order], nodes.row(Nodes.STEP)[path][order], event[order])


def _covered(found: Found, chosen: Chosen, length: int) -> Flags:
    """Return which events a match may hold that is not decided yet."""
    change = np.zeros(length + 1, dtype=np.int64)
    np.add.at(change, found.begin[chosen.open], 1)
    np.add.at(change, found.stop[chosen.open], -1)
    covered: Flags = np.cumsum(change)[:-1] > 0
    return covered


def _over(found: Found, chosen: Chosen, length: int) -> Flags:
    """Return with which events no match begins any more."""
    over = np.ones(length, dtype=bool)
    over[found.begin[chosen.open]] = False
    return over


def _whole(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
