"""Where the events of a sequence wait: in parts by key, until what they may be of is decided.

What goes to and fro is whole Arrow tables as bytes, so that no value is ever a Python object. A
part's events are held in one row of state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from .events import Ints
from .matching import DONE, FOREVER, Matching

BUCKETS = 64
"""How many parts the events that wait are kept in."""
BUCKET = "bucket"
ROWS = "rows"
PACKED = f"{BUCKET} int, {ROWS} binary"
FOUND = f"{ROWS} binary"
STATE = "held binary, watermark bigint"
ROWS_AT_ONCE = 500_000
ROWS_A_BATCH = 65_536


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put rows of one bucket together, as one row of bytes; the first column is the bucket.

    Every bucket gets a row in every batch, an empty one at least: so each knows the watermark of
    the batch before, and leaves out as late just what Spark's own operators would.
    """
    yield _parts(np.arange(BUCKETS), [b""] * BUCKETS)
    for rows in _tables(batches):
        bucket = rows.column(0).to_numpy()
        order = np.argsort(bucket, kind="stable")
        numbers, first = np.unique(bucket[order], return_index=True)
        sorted_rows = rows.drop_columns([BUCKET]).take(pa.array(order))
        ends = np.diff(first, append=len(bucket))
        parts = [
            packed(sorted_rows.slice(at, length)) for at, length in zip(first, ends, strict=True)
        ]
        yield _parts(numbers, parts)


def _parts(buckets: Ints, parts: Sequence[bytes]) -> pa.RecordBatch:
    columns = [pa.array(buckets.astype(np.int32)), pa.array(parts, type=pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[BUCKET, ROWS])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows that were put together."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            yield from unpacked(part).to_batches(max_chunksize=ROWS_A_BATCH)


def packed(rows: pa.Table) -> bytes:
    """Return rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def unpacked(rows: bytes) -> pa.Table:
    """Return the rows of bytes."""
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class Waiting:
    """The events of a part of the keys, which wait for the watermark."""

    matching: Matching

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        """Take up new events, and give the matches that are decided before the watermark."""
        held, late = state.get if state.exists else (b"", 0)
        came = [unpacked(part) for frame in frames for part in frame[ROWS] if part]
        rows = [self._in_time(part, late) for part in came]
        if held:
            rows.append(unpacked(bytes(held)))
        watermark = state.getCurrentWatermarkMs()
        if rows:
            every = self.matching.in_order(pa.concat_tables(rows))
            found, kept = self.matching.advance(every, watermark * 1000)
            if found.num_rows:
                yield pd.DataFrame({ROWS: [packed(found)]})
            held = packed(kept) if kept.num_rows else b""
        state.update((held, watermark * 1000))
        # It is called again once the watermark has gone on, whether rows come or not.
        state.setTimeoutTimestamp(max(watermark, 1))

    def _in_time(self, rows: pa.Table, late: int) -> pa.Table:
        """Return new rows, without those before the watermark of the batch before."""
        fresh = rows.append_column(DONE, pa.array(np.zeros(rows.num_rows, dtype=bool)))
        return fresh.filter(pa.array(rows.column("time").to_numpy() >= late))


@dataclass(frozen=True)
class Sorted:
    """All events of a batch, sorted by key and order.

    at_once: how many rows are worked on together, and more where these are of one instant.
    """

    matching: Matching
    at_once: int = ROWS_AT_ONCE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the matches, with no more than some keys' events at once in memory."""
        held: pa.Table | None = None
        for rows in _tables(batches, self.at_once):
            fresh = rows.append_column(DONE, pa.array(np.zeros(rows.num_rows, dtype=bool)))
            joined = fresh if held is None else pa.concat_tables([held, fresh])
            last = self._last_key(joined)
            if last:
                yield from self._found(joined.slice(0, last), FOREVER)[0]
            found, held = self._found(joined.slice(last), self._last_time(joined))
            yield from found
        if held is not None:
            yield from self._found(held, FOREVER)[0]

    def _found(self, rows: pa.Table, until: int) -> tuple[list[pa.RecordBatch], pa.Table]:
        found, held = self.matching.advance(rows, until)
        return found.combine_chunks().to_batches(max_chunksize=ROWS_A_BATCH), held

    def _last_key(self, rows: pa.Table) -> int:
        """Return where the last key begins."""
        changes = np.flatnonzero(np.diff(self.matching.codes(rows)))
        return int(changes[-1]) + 1 if len(changes) else 0

    def _last_time(self, rows: pa.Table) -> int:
        return int(rows.column("time")[-1].as_py())


def _tables(batches: Iterable[pa.RecordBatch], at_once: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """Return batches put together, as many rows at once as are quick to work on."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= at_once:
            yield pa.Table.from_batches(held)
            held = []
            rows = 0
    if held:
        yield pa.Table.from_batches(held)
