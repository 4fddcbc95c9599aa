"""Vectorized reading of many binary values: a cursor into each value, advanced for all together.

A read advances the cursors of all values and returns one array, so that a field costs a few calls
of numpy per batch. A value that cannot be read stores the code of its first fault, and its cursor
moves to the end of the value, where later reads have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

Result = TypeVar("Result")
NumpyArray: TypeAlias = Any
"""A numpy array."""
ReadFunction: TypeAlias = Callable[["Cursors"], Any]
"""Reads the next item of every value: returns an Arrow array, or None for skipped items."""

TRUNCATED = "truncated record"
MALFORMED = "malformed record"
_PADDING = 16
"""Zero bytes after the last value, so that reads past its end stay in bounds."""


def wrong_type_fault(path: str) -> str:
    """Return the fault of a field whose value does not fit its type."""
    return f"wrong type: {path}"


def child_path(path: str, name: str) -> str:
    """Return the dotted path of a field inside another one."""
    return f"{path}.{name}" if path else name


class Faults:
    """Texts of faults by code; code 0 means no fault."""

    def __init__(self) -> None:
        self._texts: list[str | None] = [None]
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """Return the code of a fault."""
        if text not in self._codes:
            self._codes[text] = len(self._texts)
            self._texts.append(text)
        return self._codes[text]

    def texts(self, codes: NumpyArray) -> Any:
        """Return the texts of fault codes as an Arrow array, with null for 0."""
        return pa.array(self._texts, pa.string()).take(pa.array(codes))


class Cursors:
    """Cursors into many values, which are stored contiguously in `data`."""

    def __init__(
        self,
        data: NumpyArray,
        position: NumpyArray,
        end: NumpyArray,
        fault: NumpyArray,
        faults: Faults,
    ) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.fault = fault
        self.faults = faults
        self._buffer = pa.py_buffer(data)

    def __len__(self) -> int:
        return len(self.position)

    def read_rows(self, rows: NumpyArray, read: Callable[[Cursors], Result]) -> Result:
        """Read the next item of some rows, whose indexes are in ascending order."""
        selected = Cursors(
            self.data, self.position[rows], self.end[rows], self.fault[rows], self.faults
        )
        items = read(selected)
        self.position[rows] = selected.position
        self.fault[rows] = selected.fault
        return items

    def mark_invalid(self, rows: NumpyArray, text: str) -> None:
        """Set a fault on rows without one; `rows` are indexes, or a mask of all rows."""
        indexes = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(indexes):
            newly_invalid = indexes[self.fault[indexes] == 0]
            self.fault[newly_invalid] = self.faults.code(text)
            self.position[indexes] = self.end[indexes]

    def propagate_faults(self, rows: NumpyArray, faults: NumpyArray) -> None:
        """Set the first fault of the values inside each row on the row."""
        faulty = np.flatnonzero(faults)
        faulty_rows, first = np.unique(rows[faulty], return_index=True)
        is_first_fault = self.fault[faulty_rows] == 0
        self.fault[faulty_rows[is_first_fault]] = faults[faulty[first[is_first_fault]]]
        self.position[faulty_rows] = self.end[faulty_rows]

    def byte(self) -> NumpyArray:
        """Return the next byte of every value; 0 at the end of a value."""
        exhausted = self.position >= self.end
        values = self.data[self.position]
        if exhausted.any():
            self.mark_invalid(exhausted, TRUNCATED)
            values[exhausted] = 0
        self.position += ~exhausted
        return values

    def varint(self) -> NumpyArray:
        """Return the next varint, with seven bits per byte, as uint64."""
        byte = self.byte()
        value = (byte & 0x7F).astype(np.uint64)
        pending = np.flatnonzero(byte & 0x80)
        shift = 7
        while len(pending):
            positions = self.position[pending]
            byte = self.data[positions]
            exhausted = positions >= self.end[pending]
            # The tenth byte holds only the last of the 64 bits.
            invalid = exhausted | (byte > 1) if shift == 63 else exhausted
            if invalid.any():
                self.mark_invalid(pending[exhausted], TRUNCATED)
                self.mark_invalid(pending[invalid], MALFORMED)
                value[pending[invalid]] = 0
                pending, positions, byte = pending[~invalid], positions[~invalid], byte[~invalid]
            self.position[pending] = positions + 1
            value[pending] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            pending = pending[byte >= 0x80]
            shift += 7
        return value

    def zigzag(self) -> NumpyArray:
        """Return the next zigzag varint, whose lowest bit is the sign, as int64."""
        return unzigzag(self.varint())

    def span(self, lengths: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
        """Skip spans of these lengths, and return their starts and lengths."""
        invalid = (lengths < 0) | (lengths > self.end - self.position)
        if invalid.any():
            self.mark_invalid(invalid & (lengths < 0), MALFORMED)
            self.mark_invalid(invalid, TRUNCATED)
            lengths = np.where(invalid, 0, lengths)
        starts = self.position.copy()
        self.position += lengths
        return starts, lengths

    def fixed(self, dtype: str) -> NumpyArray:
        """Return the next little-endian number of a numpy type, such as "<f8"."""
        size = np.dtype(dtype).itemsize
        starts, _ = self.span(np.full(len(self), size))
        return self.byte_rows(starts, size).view(dtype).ravel()

    def byte_rows(self, starts: NumpyArray, size: int) -> NumpyArray:
        """Return the `size` bytes after each start, one row per start."""
        indexes = starts[:, None] + np.arange(size)
        return self.data[np.minimum(indexes, len(self.data) - 1)]

    def byte_array(self, starts: NumpyArray, lengths: NumpyArray) -> Any:
        """Return spans as a binary Arrow array; each span is inside its own value."""
        if not len(starts):
            return pa.array([], pa.binary())
        edges = np.empty(2 * len(starts), np.int32)
        edges[0::2] = starts
        edges[1::2] = starts + lengths
        # Every second element is the gap between two spans, which is dropped.
        all_spans = pa.Array.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), self._buffer]
        )
        return all_spans.take(pa.array(np.arange(0, len(edges) - 1, 2)))


def unzigzag(value: NumpyArray) -> NumpyArray:
    """Return the signed numbers of zigzag codes: 0, -1, 1, -2, ..."""
    return ((value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1)))).view(np.int64)


def make_cursors(values: Any, faults: Faults, null_fault: str) -> Cursors:
    """Return cursors at the start of each value; `null_fault` is the fault of a null."""
    if not len(values):
        # An empty array may have no offsets.
        values = pa.array([], pa.binary())
    is_large = pa.types.is_large_binary(values.type)
    _, offsets, content = values.buffers()
    edges = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    edges = edges[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first = int(edges[0])
    last = int(edges[-1])
    data = np.zeros(last - first + _PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content, np.uint8)[first:last]
    edges = edges - first
    cursors = Cursors(data, edges[:-1].copy(), edges[1:], np.zeros(len(values), np.int32), faults)
    if values.null_count:
        cursors.mark_invalid(values.is_null().to_numpy(zero_copy_only=False), null_fault)
    return cursors


def combine_rows(
    parts: Sequence[tuple[NumpyArray, Any]], count: int, arrow_type: pa.DataType
) -> Any:
    """Return one array of `count` rows from parts of some rows each; null in other rows."""
    rows, combined = _concat_parts(parts, arrow_type)
    if len(parts) == 1 and len(rows) == count:
        return combined
    index = np.full(count, -1, np.int64)
    index[rows] = np.arange(len(rows))
    return combined.take(pa.array(index, mask=index < 0))


def group_elements(
    parts: Sequence[tuple[NumpyArray, Any]], count: int, arrow_type: pa.DataType
) -> tuple[Any, Any]:
    """Return the offsets of each row, and all elements in the order of the rows.

    parts: elements with their rows; the elements of one row are in order.
    """
    rows, combined = _concat_parts(parts, arrow_type)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    if len(parts) > 1:
        combined = combined.take(pa.array(np.argsort(rows, kind="stable")))
    return pa.array(offsets), combined


def _concat_parts(
    parts: Sequence[tuple[NumpyArray, Any]], arrow_type: pa.DataType
) -> tuple[NumpyArray, Any]:
    if not parts:
        return np.zeros(0, np.int64), pa.nulls(0, arrow_type)
    if len(parts) == 1:
        return parts[0]
    rows, arrays = zip(*parts, strict=True)
    return np.concatenate(rows), pa.concat_arrays(arrays)


def decode_utf8(cursors: Cursors, byte_array: Any, path: str) -> Any:
    """Return binary values as texts; mark values that are not UTF-8 as invalid."""
    try:
        return byte_array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_decode_or_none(value) for value in byte_array.to_pylist()]
        invalid = np.array([text is None for text in texts])
        cursors.mark_invalid(invalid, f"invalid UTF-8: {path}")
        return pa.array([text or "" for text in texts], pa.string())


def _decode_or_none(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def make_list_array(
    parts: Sequence[tuple[NumpyArray, Any]], count: int, arrow_type: pa.DataType
) -> Any:
    """Return an array of lists from parts as in `group_elements`."""
    offsets, elements = group_elements(parts, count, arrow_type)
    return pa.ListArray.from_arrays(offsets, elements, type=pa.list_(arrow_type))
