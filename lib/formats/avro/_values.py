"""What stands for a simple value in Avro, read for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.places import BROKEN, Numbers, Places, Read
from ._schema import LOCAL, MILLIS, Avro

_NUMPY = {"int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}
_WIDTHS = {"int": 32, "long": 64}
_FIRST_DAY = (date.min - date(1970, 1, 1)).days
_LAST_DAY = (date.max - date(1970, 1, 1)).days
_DAY = 86_400_000_000
_EXACT = Context(prec=80)
_DECIMAL_BYTES = 16
_LONGEST_DECIMAL = 64
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def number(writer: Avro, reader: Avro, path: str) -> Read:
    """Read a number, as it was written or as a wider one."""
    kind = _NUMPY[reader.kind]
    if writer.kind in ("float", "double"):
        written = _NUMPY[writer.kind]
        return lambda places: pa.array(places.fixed(written).astype(kind))
    whole = _whole(writer, path)
    return lambda places: pa.array(whole(places).astype(kind))


def _whole(writer: Avro, path: str) -> Callable[[Places], Numbers]:
    def read(places: Places) -> Numbers:
        found = places.zigzag()
        if writer.kind == "int":
            _within(places, found, -(2**31), 2**31 - 1, path)
        return found

    return read


def _within(places: Places, found: Numbers, least: int, most: int, path: str) -> None:
    """Refuse numbers outside of bounds, and put 0 in their places."""
    wrong = (found < least) | (found > most)
    if wrong.any():
        places.fail(wrong, wrong_type(path))
        found[wrong] = 0


def day(writer: Avro, path: str) -> Read:
    """Read a date of the years 1 to 9999."""

    def read(places: Places) -> pa.Array:
        found = places.zigzag()
        _within(places, found, _FIRST_DAY, _LAST_DAY, path)
        return pa.array(found.astype(np.int32)).cast(pa.date32())

    return read


def instant(logical: str, path: str) -> Read:
    """Read a time of the years 1 to 9999, in microseconds."""
    unit = 1_000 if logical.endswith(MILLIS) else 1
    kind = pa.timestamp("us", None if logical.startswith(LOCAL) else "UTC")
    first = _FIRST_DAY * _DAY // unit
    last = ((_LAST_DAY + 1) * _DAY - 1) // unit

    def read(places: Places) -> pa.Array:
        found = places.zigzag()
        _within(places, found, first, last, path)
        return pa.array(found * unit).cast(kind)

    return read


def truth(places: Places) -> pa.Array:
    """Read a boolean: a byte that is 0 or 1."""
    found = places.byte()
    places.fail(found > 1, BROKEN)
    return pa.array(found == 1)


def sized(writer: Avro) -> Callable[[Places], tuple[Numbers, Numbers]]:
    """Return what passes over bytes of a length that is written before them, or known."""
    if writer.kind == "fixed":
        return lambda places: places.span(np.full(len(places), writer.size))
    return lambda places: places.span(places.zigzag())


def content(writer: Avro) -> Read:
    """Read bytes as they are."""
    span = sized(writer)
    return lambda places: places.bytes_of(*span(places))


def text(writer: Avro, path: str) -> Read:
    """Read a text, and refuse what is no UTF-8."""
    read_bytes = content(writer)
    return lambda places: as_text(places, read_bytes(places), path)


def as_text(places: Places, found: pa.Array, path: str) -> pa.Array:
    """Return bytes as texts; those that are none are faults of their rows."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_decoded(each) for each in found.to_pylist()]
        wrong = np.array([text is None for text in texts])
        places.fail(wrong, f"invalid UTF-8: {path}")
        return pa.array([text or "" for text in texts], pa.string())


def _decoded(given: bytes) -> str | None:
    try:
        return given.decode()
    except UnicodeDecodeError:
        return None


def uuid(writer: Avro, path: str) -> Read:
    """Read an identifier, which is a text of 36 characters, or 16 bytes."""
    if writer.kind == "fixed":
        read_bytes = content(writer)
        return lambda places: pa.array(
            [str(UUID(bytes=each)) if each else "" for each in read_bytes(places).to_pylist()],
            pa.string(),
        )
    read_text = text(writer, path)

    def read(places: Places) -> pa.Array:
        found = read_text(places)
        fits = pc.match_substring_regex(found, _UUID).to_numpy(zero_copy_only=False)
        places.fail(~fits, wrong_type(path))
        return found

    return read


def symbol(writer: Avro, reader: Avro, path: str) -> Read:
    """Read a symbol as text: one that the reader knows, or the reader's default."""
    known = writer.symbols if reader.kind == "string" or reader.loose else reader.symbols
    names = [each if each in known else reader.default for each in writer.symbols]
    table = pa.array([*names, ""], pa.string())
    unknown = np.array([name is None for name in names] + [False])

    def read(places: Places) -> pa.Array:
        found = places.zigzag()
        wrong = (found < 0) | (found >= len(names))
        places.fail(wrong, BROKEN)
        found = np.where(wrong, len(names), found)
        places.fail(unknown[found], wrong_type(path))
        found = np.where(unknown[found], len(names), found)
        return table.take(pa.array(found))

    return read


def decimal(writer: Avro, reader: Avro, path: str) -> Read:
    """Read a decimal: the bytes of a whole number of its smallest digit."""
    span = sized(writer)
    # Arrow's widest type takes the bytes as they are; whether they fit is seen in it.
    wide = pa.decimal128(38, reader.scale)
    largest = Decimal(10**reader.precision - 1).scaleb(-reader.scale, _EXACT)
    most = pa.scalar(largest, wide)
    # Its sign alone is changed: a minus would round it to the digits of Python's context.
    least = pa.scalar(largest.copy_negate(), wide)
    zero = pa.scalar(Decimal(0), wide)

    def read(places: Places) -> pa.Array:
        starts, lengths = span(places)
        wrong = (lengths < 1) | (lengths > _LONGEST_DECIMAL)
        places.fail(wrong, wrong_type(path))
        lengths = np.where(wrong, 0, lengths)
        low, fits = _two_complement(places, starts, lengths)
        buffers = [None, pa.py_buffer(low.tobytes())]
        found = pa.Array.from_buffers(wide, len(places), buffers)
        inside = pc.and_(pc.greater_equal(found, least), pc.less_equal(found, most))
        fits &= inside.to_numpy(zero_copy_only=False)
        places.fail(~fits & (lengths > 0), wrong_type(path))
        kept = pc.if_else(pa.array(fits), found, zero)
        return kept.cast(pa.decimal128(reader.precision, reader.scale))

    return read


def _two_complement(places: Places, starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Return numbers as 16 bytes, the lowest first, and whether the bytes above say no more."""
    width = max(_DECIMAL_BYTES, int(lengths.max(initial=0)))
    back = np.arange(width)
    at = (starts + lengths)[:, None] - 1 - back
    inside = back < lengths[:, None]
    found = places.data[np.where(inside, at, 0)]
    negative = (places.data[starts] >= 0x80) & (lengths > 0)
    sign = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
    found = np.where(inside, found, sign)
    low = np.ascontiguousarray(found[:, :_DECIMAL_BYTES])
    same_sign = (low[:, -1] >= 0x80) == negative
    return low, same_sign & (found[:, _DECIMAL_BYTES:] == sign).all(axis=1)


def wrong_type(path: str) -> str:
    """Return the fault of a field whose value is none of its type."""
    return f"wrong type: {path}"
