"""Many values of bytes read at once: where the reader stands in each, and what stands there.

A read moves the place in every value and returns one array over all of them, so that a field costs
a few calls of numpy for a batch of rows. A value that cannot be read keeps the number of the first
fault that was found in it, and its place moves to its end: later reads of it find nothing, and do
no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = Any
"""An array of numpy."""
Read: TypeAlias = Callable[["Places"], Any]
"""Reads one thing in every value: an array of Arrow, or None for what is passed over."""

CUT = "truncated record"
BROKEN = "malformed record"
_PADDING = 16
"""Zeros after the last value, so that a number which is read past the end stays inside."""


class Faults:
    """What can be wrong with a value, by number; 0 is none."""

    def __init__(self) -> None:
        self._texts: list[str | None] = [None]
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a fault."""
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]

    def texts(self, numbers: Numbers) -> Any:
        """Return the texts of numbers as an array of Arrow, null for 0."""
        return pa.array(self._texts, pa.string()).take(pa.array(numbers))


class Places:
    """A place in each of many values that lie one after the other in `data`."""

    def __init__(
        self, data: Numbers, at: Numbers, end: Numbers, fault: Numbers, faults: Faults
    ) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.fault = fault
        self.faults = faults
        self._buffer = pa.py_buffer(data)

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: Numbers) -> Places:
        """Return the places of some rows alone, whose numbers go up."""
        return Places(self.data, self.at[rows], self.end[rows], self.fault[rows], self.faults)

    def put(self, rows: Numbers, part: Places) -> None:
        """Put the places of some rows where a part of them was read to."""
        self.at[rows] = part.at
        self.fault[rows] = part.fault

    def within(self, starts: Numbers, lengths: Numbers) -> Places:
        """Return places in stretches of the values."""
        return Places(self.data, starts.copy(), starts + lengths, self.fault.copy(), self.faults)

    def fail(self, rows: Numbers, text: str) -> None:
        """Note a fault of rows that have none yet; `rows` are numbers, or a mask over all."""
        found = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(found):
            first = found[self.fault[found] == 0]
            self.fault[first] = self.faults.number(text)
            self.at[found] = self.end[found]

    def byte(self) -> Numbers:
        """Return the next byte of every value; 0 where there is none."""
        short = self.at >= self.end
        found = self.data[self.at]
        if short.any():
            self.fail(short, CUT)
            found[short] = 0
        self.at += ~short
        return found

    def varint(self) -> Numbers:
        """Return the next variable-length number, seven bits a byte, as uint64."""
        byte = self.byte()
        value = (byte & 0x7F).astype(np.uint64)
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while len(more):
            at = self.at[more]
            byte = self.data[at]
            # The tenth byte has room for the last bit of the 64.
            wrong = (byte > 1) if shift == 63 else (at >= self.end[more])
            if shift == 63:
                wrong |= at >= self.end[more]
            if wrong.any():
                self.fail(more[wrong & (at >= self.end[more])], CUT)
                self.fail(more[wrong], BROKEN)
                value[more[wrong]] = 0
                more, at, byte = more[~wrong], at[~wrong], byte[~wrong]
            self.at[more] = at + 1
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            more = more[byte >= 0x80]
            shift += 7
        return value

    def zigzag(self) -> Numbers:
        """Return the next variable-length number whose last bit is its sign, as int64."""
        return unzigzag(self.varint())

    def span(self, lengths: Numbers) -> tuple[Numbers, Numbers]:
        """Pass over so many bytes, and return where they begin and how many there are."""
        wrong = (lengths < 0) | (lengths > self.end - self.at)
        if wrong.any():
            self.fail(wrong & (lengths < 0), BROKEN)
            self.fail(wrong, CUT)
            lengths = np.where(wrong, 0, lengths)
        starts = self.at.copy()
        self.at += lengths
        return starts, lengths

    def fixed(self, kind: str) -> Numbers:
        """Return the next little-endian number of a type of numpy, such as "<f8"."""
        size = np.dtype(kind).itemsize
        starts, _ = self.span(np.full(len(self), size))
        return self.matrix(starts, size).view(kind).ravel()

    def matrix(self, starts: Numbers, size: int) -> Numbers:
        """Return so many bytes from each start on, a row each."""
        at = starts[:, None] + np.arange(size)
        return self.data[np.minimum(at, len(self.data) - 1)]

    def bytes_of(self, starts: Numbers, lengths: Numbers) -> Any:
        """Return stretches as an array of Arrow; each lies in its own value."""
        if not len(starts):
            return pa.array([], pa.binary())
        edges = np.empty(2 * len(starts), np.int32)
        edges[0::2] = starts
        edges[1::2] = starts + lengths
        # Every second stretch between two edges is one that is asked for.
        all_of_them = pa.Array.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), self._buffer]
        )
        return all_of_them.take(pa.array(np.arange(0, len(edges) - 1, 2)))


def unzigzag(value: Numbers) -> Numbers:
    """Return the signed numbers that unsigned ones stand for: 0, -1, 1, -2, ..."""
    return ((value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1)))).view(np.int64)


def places(values: Any, faults: Faults, missing: str) -> Places:
    """Return places at the beginning of an array of bytes; `missing` is the fault of a null."""
    if not len(values):
        # An array of nothing may have no offsets at all.
        values = pa.array([], pa.binary())
    wide = pa.types.is_large_binary(values.type)
    _, offsets, content = values.buffers()
    edges = np.frombuffer(offsets, np.int64 if wide else np.int32)
    edges = edges[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first = int(edges[0])
    last = int(edges[-1])
    data = np.zeros(last - first + _PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content, np.uint8)[first:last]
    found = Places(
        data, edges[:-1] - first, edges[1:] - first, np.zeros(len(values), np.int32), faults
    )
    if values.null_count:
        found.fail(values.is_null().to_numpy(zero_copy_only=False), missing)
    return found


def scattered(parts: Sequence[tuple[Numbers, Any]], count: int, kind: pa.DataType) -> Any:
    """Return one array of the parts that were read of some rows each; null in other rows."""
    filled = [(rows, part) for rows, part in parts if len(rows)]
    if len(filled) == 1 and len(filled[0][0]) == count:
        return filled[0][1]
    if not filled:
        return pa.nulls(count, kind)
    index = np.full(count, -1, np.int64)
    index[np.concatenate([rows for rows, _ in filled])] = np.arange(
        sum(len(rows) for rows, _ in filled)
    )
    together = pa.concat_arrays([part for _, part in filled])
    return together.take(pa.array(index, mask=index < 0))


def grouped(parts: Sequence[tuple[Numbers, Any]], count: int, kind: pa.DataType) -> tuple[Any, Any]:
    """Return elements in the order of their rows, and where those of each row begin.

    `parts` are elements that were read of some rows each, a row's own in their order.
    """
    filled = [(rows, part) for rows, part in parts if len(rows)]
    if not filled:
        return pa.array(np.zeros(count + 1, np.int32)), pa.nulls(0, kind)
    rows = np.concatenate([rows for rows, _ in filled])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    together = pa.concat_arrays([part for _, part in filled])
    if len(filled) > 1:
        together = together.take(pa.array(np.argsort(rows, kind="stable")))
    return pa.array(offsets), together


def listed(parts: Sequence[tuple[Numbers, Any]], count: int, kind: pa.DataType) -> Any:
    """Return lists of elements that were read of some rows each."""
    offsets, elements = grouped(parts, count, kind)
    return pa.ListArray.from_arrays(offsets, elements, type=pa.list_(kind))
