"""Values of Protocol Buffers as arrays of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.places import BROKEN, Numbers, Places, unzigzag
from ..avro._values import as_text, wrong_type
from ._schema import ProtoField

Make: TypeAlias = Callable[[Places, Numbers, Any], Any]
"""Makes an array of Arrow of a field's values, whose rows it is told."""

FIXED = {
    "double": "<f8",
    "float": "<f4",
    "fixed64": "<u8",
    "sfixed64": "<i8",
    "fixed32": "<u4",
    "sfixed32": "<i4",
}


def hand_on(all_of_them: Places, rows: Numbers, faults: Numbers) -> None:
    """Give rows the faults that were found within them; the first of each counts."""
    faulty = np.flatnonzero(faults)
    of_row, first = np.unique(rows[faulty], return_index=True)
    fresh = all_of_them.fault[of_row] == 0
    all_of_them.fault[of_row[fresh]] = faults[faulty[first[fresh]]]
    all_of_them.at[of_row] = all_of_them.end[of_row]


@dataclass(frozen=True)
class Packed:
    """Stretches in each of which values stand one after the other."""

    starts: Numbers
    lengths: Numbers


def unpacked(
    given: ProtoField, one: Places, rows: Numbers, packed: Packed
) -> list[tuple[Numbers, Any]]:
    """Return the values of packed stretches."""
    if given.kind in FIXED:
        return [_unpacked_fixed(np.dtype(FIXED[given.kind]), one, rows, packed)]
    return _unpacked_varints(one, rows, packed)


def _unpacked_fixed(kind: Any, one: Places, rows: Numbers, packed: Packed) -> tuple[Numbers, Any]:
    """Return the values of stretches of numbers that are all of one width."""
    wrong = packed.lengths % kind.itemsize != 0
    one.fail(wrong, BROKEN)
    lengths = np.where(wrong, 0, packed.lengths)
    data, of_row, _ = _content(one, packed.starts, lengths)
    return rows[of_row[:: kind.itemsize]], data.view(kind)


def _unpacked_varints(one: Places, rows: Numbers, packed: Packed) -> list[tuple[Numbers, Any]]:
    """Return the values of stretches of varints, in which a byte's highest bit says: one more."""
    last_byte = one.data[np.maximum(packed.starts + packed.lengths - 1, 0)]
    open_end = (packed.lengths > 0) & (last_byte >= 0x80)
    one.fail(open_end, BROKEN)
    lengths = np.where(open_end, 0, packed.lengths)
    data, of_row, _ = _content(one, packed.starts, lengths)
    ends = np.flatnonzero(data < 0x80) + 1
    if not len(ends):
        return []
    begins = np.concatenate([[0], ends[:-1]])
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    elements = Places(padded, begins.copy(), ends, np.zeros(len(ends), np.int32), one.faults)
    values = elements.varint()
    elements.fail(elements.at != ends, BROKEN)
    bad = np.unique(of_row[begins[elements.fault != 0]])
    one.fail(bad, BROKEN)
    return [(rows[of_row[begins]], values)]


def _content(one: Places, starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the bytes of stretches one after the other, and the stretch of each byte."""
    of_row = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    at = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return one.data[at], of_row, before


def mapped(offsets: Any, entries: Any) -> Any:
    """Return maps; of a key that is there twice the last value counts."""
    edges = offsets.to_numpy()
    keys = entries.field(0)
    values = entries.field(1)
    rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    codes = pc.dictionary_encode(keys).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = rows * 2**31 + codes
    _, from_last = np.unique(pairs[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - from_last)
    counts = np.bincount(rows[kept], minlength=len(edges) - 1)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    order = pa.array(kept)
    return pa.MapArray.from_arrays(pa.array(starts), keys.take(order), values.take(order))


def texts(kind: str, path: str) -> Make:
    """Return what makes texts, or bytes, of stretches."""

    def make(all_of_them: Places, rows: Numbers, spans: Any) -> Any:
        found = all_of_them.bytes_of(spans[:, 0], spans[:, 1])
        if kind == "bytes":
            return found
        none = np.zeros(len(rows), np.int32)
        marks = Places(all_of_them.data, none.copy(), none.copy(), none, all_of_them.faults)
        texts = as_text(marks, found, path)
        hand_on(all_of_them, rows, marks.fault)
        return texts

    return make


def symbols(given: ProtoField, path: str) -> Make:
    """Return what makes the names of symbols of their numbers."""
    # Of numbers that have several names the first one counts.
    names = dict(reversed(given.symbols))
    numbers = np.array(sorted(names), np.int32)
    table = pa.array([names[number] for number in numbers.tolist()] + [""], pa.string())

    def make(all_of_them: Places, rows: Numbers, found: Any) -> Any:
        wanted = _int32(np.ravel(found))
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        unknown = numbers[at] != wanted
        all_of_them.fail(np.unique(rows[unknown]), wrong_type(path))
        return table.take(pa.array(np.where(unknown, len(numbers), at)))

    return make


def _int32(found: Numbers) -> Numbers:
    return found.astype(np.uint64).astype(np.uint32).view(np.int32)


def _wide(found: Numbers) -> Any:
    return pa.array(found.astype(np.uint64)).cast(pa.decimal128(20, 0))


NUMBERS: dict[str, Callable[[Numbers], Any]] = {
    "double": lambda found: pa.array(found.astype(np.float64)),
    "float": lambda found: pa.array(found.astype(np.float32)),
    "int32": lambda found: pa.array(_int32(found)),
    "sint32": lambda found: pa.array(
        unzigzag(found.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.int32)
    ),
    "sfixed32": lambda found: pa.array(found.astype(np.int32)),
    "int64": lambda found: pa.array(found.astype(np.uint64).view(np.int64)),
    "sint64": lambda found: pa.array(unzigzag(found.astype(np.uint64))),
    "sfixed64": lambda found: pa.array(found.astype(np.int64)),
    "uint32": lambda found: pa.array(
        (found.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ),
    "fixed32": lambda found: pa.array(found.astype(np.int64)),
    "uint64": _wide,
    "fixed64": _wide,
    "bool": lambda found: pa.array(found.astype(np.uint64) != 0),
}
