"""The search over Arrow tables, as a state function of a stream and as an operator of a batch.

Events are exchanged with Spark as Arrow tables in IPC bytes, so that values are never converted to
Python objects. Each bucket of keys has one row of state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...arrow_kernels import ROWS_PER_BATCH, Ints, in_ranges, key_codes
from .event_buffer import EventBuffer, rank_pair
from .nfa import Automaton
from .search import (
    NONE,
    MatchCandidates,
    MatchSelection,
    Nodes,
    find_candidates,
    select_past_last,
    select_to_next,
)

Skip = Literal["past_last", "to_next"]
END_OF_TIME = np.iinfo(np.int64).max
EXHAUSTED = "done"
"""The column of buffered rows that can no longer begin a match."""
BUCKETS = 64
"""The number of state buckets. A change invalidates checkpoints."""
BUCKET = "bucket"
ROWS = "rows"
PACKED_SCHEMA = f"{BUCKET} int, {ROWS} binary"
MATCHES_SCHEMA = f"{ROWS} binary"
STATE_SCHEMA = "events binary, watermark bigint"
ROWS_PER_PASS = 500_000


@dataclass(frozen=True)
class MeasureInput:
    """The input of a measure.

    step: the index of the step; -1 for all steps.
    function: the value of one event, the count, or the list of all values.
    value: the index of the value column; None for a count.
    """

    step: int
    function: Literal["first", "last", "count", "list"]
    value: int | None


@dataclass(frozen=True)
class SequenceMatcher:
    """Matches over rows (key:i..., time, order:i..., tie, flags, left:i, right:i..., value:i...).

    All times are in microseconds.
    """

    automaton: Automaton
    within: int
    key_count: int
    order_count: int
    skip: Skip
    timeouts: bool
    measure_inputs: tuple[MeasureInput, ...]

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows sorted by key and event order."""
        sort_columns = {"code": pa.array(self.key_codes(rows)), "time": rows.column("time")}
        for index in range(self.order_count):
            # Nulls first, as in Spark.
            column = rows.column(f"order:{index}")
            sort_columns |= {f"known:{index}": column.is_valid(), f"order:{index}": column}
        sort_columns["tie"] = rows.column("tie")
        sort_keys = [(name, "ascending") for name in sort_columns]
        return rows.take(pc.sort_indices(pa.table(sort_columns), sort_keys=sort_keys))

    def key_codes(self, rows: pa.Table) -> Ints:
        keys = [_combined_chunks(rows.column(f"key:{index}")) for index in range(self.key_count)]
        return key_codes(np.zeros(rows.num_rows, np.int64), keys)

    def advance(self, rows: pa.Table, watermark: int) -> tuple[pa.Table, pa.Table]:
        """Return the matches decided before the watermark, and the rows to retain.

        rows: sorted, with the column EXHAUSTED, and with all retained events of their keys.
        """
        is_past = rows.column("time").to_numpy() < watermark
        past = rows.filter(pa.array(is_past))
        events = self._events(past)
        is_exhausted = past.column(EXHAUSTED).to_numpy()
        start = np.flatnonzero(events.has_flag(0) & ~is_exhausted)
        candidates = find_candidates(events, self.automaton, start, self.within)
        if self.skip == "to_next" or not len(start):
            selection = select_to_next(candidates, watermark, timeouts=self.timeouts)
        else:
            selection = select_past_last(candidates, events, watermark, timeouts=self.timeouts)
        open_starts = candidates.start[selection.is_open]

        # Events at or after the watermark are all retained.
        is_needed = np.ones(len(is_past), dtype=bool)
        open_stops = candidates.stop[selection.is_open]
        is_needed[is_past] = in_ranges(open_starts, open_stops, len(events))
        # Past events can no longer begin a match, except the starts of undecided ones.
        exhausted = is_past.copy()
        exhausted[np.flatnonzero(is_past)[open_starts]] = False
        remaining = rows.filter(pa.array(is_needed))
        exhausted_index = remaining.schema.get_field_index(EXHAUSTED)
        remaining = remaining.set_column(exhausted_index, EXHAUSTED, pa.array(exhausted[is_needed]))
        return self._results(past, events, candidates, selection), remaining

    def _events(self, rows: pa.Table) -> EventBuffer:
        pairs = [
            rank_pair(
                _combined_chunks(rows.column(f"left:{index}")),
                _combined_chunks(rows.column(f"right:{index}")),
            )
            for index in range(self.automaton.pair_count)
        ]
        time = rows.column("time").to_numpy()
        return EventBuffer(self.key_codes(rows), time, rows.column("flags").to_numpy(), pairs)

    def _results(
        self,
        rows: pa.Table,
        events: EventBuffer,
        candidates: MatchCandidates,
        selection: MatchSelection,
    ) -> pa.Table:
        """Return a row for each emitted match: its key, times and measures."""
        emitted = np.flatnonzero(selection.is_emitted)
        start = candidates.start[emitted]
        matched = candidates.matched[emitted]
        last = np.where(matched, candidates.node[emitted], candidates.best_node[emitted])
        matched_events = _matched_events(candidates, last)
        key_names = [f"key:{index}" for index in range(self.key_count)]
        columns = {name: rows.column(name).take(start) for name in key_names}
        columns["started"] = pa.array(events.time[start])
        columns["ended"] = pa.array(events.time[candidates.nodes.row(Nodes.EVENT)[last]])
        columns["decided"] = pa.array(selection.decided_at[emitted])
        columns["matched"] = pa.array(matched)
        for index, measure_input in enumerate(self.measure_inputs):
            measure = matched_events.read_measure(rows, measure_input, len(emitted))
            columns[f"measure:{index}"] = measure
        return pa.table(columns)


@dataclass(frozen=True)
class _MatchedEvents:
    """The events of matches, ordered by match and event."""

    match: Ints
    step: Ints
    event: Ints

    def read_measure(
        self, rows: pa.Table, measure_input: MeasureInput, match_count: int
    ) -> pa.Array:
        selected = np.arange(len(self.event))
        if measure_input.step != NONE:
            selected = np.flatnonzero(self.step == measure_input.step)
        bounds = np.searchsorted(self.match[selected], np.arange(match_count + 1))
        count = np.diff(bounds)
        if measure_input.function == "count":
            return pa.array(count)
        values = _combined_chunks(rows.column(f"value:{measure_input.value}"))
        if measure_input.function == "list":
            parts = values.take(pa.array(self.event[selected]))
            return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), parts)
        position = bounds[:-1] if measure_input.function == "first" else bounds[1:] - 1
        event = (
            self.event[selected][np.where(count > 0, position, 0)] if len(selected) else 0 * count
        )
        return values.take(pa.array(event, mask=count == 0))


def _matched_events(candidates: MatchCandidates, last: Ints) -> _MatchedEvents:
    """Return the events of the paths to the last nodes."""
    nodes = candidates.nodes
    match, node = np.arange(len(last)), last
    match_parts, path_parts = [match], [node]
    while len(node):
        node = nodes.row(Nodes.PARENT)[node]
        match = match[node != NONE]
        node = node[node != NONE]
        match_parts.append(match)
        path_parts.append(node)
    matches, path = np.concatenate(match_parts), np.concatenate(path_parts)
    event = nodes.row(Nodes.EVENT)[path]
    order = np.lexsort((event, matches))
    return _MatchedEvents(matches[order], nodes.row(Nodes.STEP)[path][order], event[order])


def _combined_chunks(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def pack_by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Serialize the rows of each bucket to one row of bytes; the first column is the bucket.

    Every bucket gets at least an empty row in every batch. So each bucket stores the watermark of
    the previous batch, and drops the same late rows as Spark's operators.
    """
    yield _packed_batch(np.arange(BUCKETS), [b""] * BUCKETS)
    for rows in _concat_batches(batches):
        bucket = rows.column(0).to_numpy()
        order = np.argsort(bucket, kind="stable")
        bucket_numbers, first = np.unique(bucket[order], return_index=True)
        sorted_rows = rows.drop_columns([BUCKET]).take(pa.array(order))
        slices = zip(first, np.diff(first, append=len(bucket)), strict=True)
        parts = [to_ipc_bytes(sorted_rows.slice(start, length)) for start, length in slices]
        yield _packed_batch(bucket_numbers, parts)


def _packed_batch(buckets: Ints, parts: Sequence[bytes]) -> pa.RecordBatch:
    columns = [pa.array(buckets.astype(np.int32)), pa.array(parts, type=pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[BUCKET, ROWS])


def unpack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():
            yield from from_ipc_bytes(part).to_batches(max_chunksize=ROWS_PER_BATCH)


def to_ipc_bytes(rows: pa.Table) -> bytes:
    """Return a table in the Arrow IPC stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_ipc_bytes(rows: bytes) -> pa.Table:
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class PartialMatches:
    """The state function of a bucket: buffer events until the watermark decides their matches."""

    matcher: SequenceMatcher

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        """Add new events to the state and return the matches decided before the watermark."""
        stored, late_before = state.get if state.exists else (b"", 0)
        new_parts = [from_ipc_bytes(part) for frame in frames for part in frame[ROWS] if part]
        rows = []
        for part in new_parts:
            # Rows before the watermark of the previous batch are late.
            in_time = part.column("time").to_numpy() >= late_before
            rows.append(_as_new_rows(part).filter(pa.array(in_time)))
        if stored:
            rows.append(from_ipc_bytes(bytes(stored)))
        watermark = state.getCurrentWatermarkMs()
        if rows:
            sorted_rows = self.matcher.sort_rows(pa.concat_tables(rows))
            matches, remaining = self.matcher.advance(sorted_rows, watermark * 1000)
            if matches.num_rows:
                yield pd.DataFrame({ROWS: [to_ipc_bytes(matches)]})
            stored = to_ipc_bytes(remaining) if remaining.num_rows else b""
        state.update((stored, watermark * 1000))
        # The timeout calls this function after the watermark advances, also without new rows.
        state.setTimeoutTimestamp(max(watermark, 1))


@dataclass(frozen=True)
class SortedEvents:
    """The search over a batch, sorted by key and order.

    rows_per_pass: the number of rows to process at once; more if they are of one instant.
    """

    matcher: SequenceMatcher
    rows_per_pass: int = ROWS_PER_PASS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the matches, with a bounded number of events in memory."""
        remaining: pa.Table | None = None
        for rows in _concat_batches(batches, self.rows_per_pass):
            new_rows = _as_new_rows(rows)
            joined = new_rows if remaining is None else pa.concat_tables([remaining, new_rows])
            last_key_start = self._last_key_start(joined)
            if last_key_start:
                yield from self._advance(joined.slice(0, last_key_start), END_OF_TIME)[0]
            last_time = int(joined.column("time")[-1].as_py())
            matches, remaining = self._advance(joined.slice(last_key_start), last_time)
            yield from matches
        if remaining is not None:
            yield from self._advance(remaining, END_OF_TIME)[0]

    def _advance(self, rows: pa.Table, watermark: int) -> tuple[list[pa.RecordBatch], pa.Table]:
        matches, remaining = self.matcher.advance(rows, watermark)
        return matches.combine_chunks().to_batches(max_chunksize=ROWS_PER_BATCH), remaining

    def _last_key_start(self, rows: pa.Table) -> int:
        """Return the position of the first row of the last key."""
        changes = np.flatnonzero(np.diff(self.matcher.key_codes(rows)))
        return int(changes[-1]) + 1 if len(changes) else 0


def _as_new_rows(rows: pa.Table) -> pa.Table:
    """Add the EXHAUSTED column of rows with which a match may begin."""
    return rows.append_column(EXHAUSTED, pa.array(np.zeros(rows.num_rows, dtype=bool)))


def _concat_batches(
    batches: Iterable[pa.RecordBatch], rows_per_pass: int = ROWS_PER_PASS
) -> Iterator[pa.Table]:
    """Return batches concatenated to tables of at least `rows_per_pass` rows."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
        if rows >= rows_per_pass:
            yield pa.Table.from_batches(pending)
            pending = []
            rows = 0
    if pending:
        yield pa.Table.from_batches(pending)
