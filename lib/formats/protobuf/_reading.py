"""Messages of Protocol Buffers read for many rows at once, by their wire format."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from .._arrow.places import BROKEN, Numbers, Places, Read, grouped, places, scattered
from .._arrow.types import arrow_of
from ..avro._values import wrong_type
from ._schema import TIMESTAMP, Message, ProtoField, spark_struct, spark_value
from ._values import FIXED, NUMBERS, Make, hand_on, mapped, symbols, texts
from ._wire import LENGTH, Found, one_field, wire_of

_FIRST_SECOND = (date.min - date(1970, 1, 1)).days * 86_400
_LAST_SECOND = (date.max - date(1970, 1, 1)).days * 86_400 + 86_399


def message_fields(message: Message, path: str = "") -> Read:
    """Return what reads a message, up to the end of its bytes, as a list of its fields."""
    by_number = {each.number: each for each in message.fields}
    finish = [_finish(each, _below(path, each.name)) for each in message.fields]
    choices = _choices(message)

    def read(all_of_them: Places) -> list[Any]:
        found = {each.number: Found() for each in message.fields}
        for one in found.values():
            one.last = np.full(len(all_of_them), -1)
        turn = 0
        active = np.flatnonzero((all_of_them.fault == 0) & (all_of_them.at < all_of_them.end))
        while len(active):
            part = all_of_them.take(active)
            one_field(part, active, turn, by_number, found)
            all_of_them.put(active, part)
            going = (part.fault == 0) & (part.at < part.end)
            active = active[going]
            turn += 1
        _settle(choices, found)
        return [
            one(all_of_them, found[each.number])
            for one, each in zip(finish, message.fields, strict=True)
        ]

    return read


def _choices(message: Message) -> list[list[ProtoField]]:
    found: dict[int, list[ProtoField]] = {}
    for each in message.fields:
        if each.oneof is not None:
            found.setdefault(each.oneof, []).append(each)
    return [members for members in found.values() if len(members) > 1]


def _settle(choices: list[list[ProtoField]], found: dict[int, Found]) -> None:
    """Of the members of a choice keep the one that came last."""
    for members in choices:
        last = np.max([found[each.number].last for each in members], axis=0)
        for each in members:
            one = found[each.number]
            gone = one.last < last
            if gone.any():
                one.parts = [_without(part, gone) for part in one.parts]
                one.last[gone] = -1


def _without(part: tuple[Numbers, Any], gone: Numbers) -> tuple[Numbers, Any]:
    rows, values = part
    kept = ~gone[rows]
    return rows[kept], values[kept]


def _finish(given: ProtoField, path: str) -> Callable[[Places, Found], Any]:
    """Return what makes a column of what was found of a field."""
    kind = arrow_of(spark_value(given))
    values = _values(given, path)

    def several(all_of_them: Places, found: Found) -> Any:
        rows, given_values = _ordered(found)
        made = values(all_of_them, rows, given_values)
        offsets, elements = grouped([(rows, made)], len(all_of_them), kind)
        if given.message is not None and given.message.entry:
            return mapped(offsets, elements)
        return pa.ListArray.from_arrays(offsets, elements, type=pa.list_(kind))

    def single(all_of_them: Places, found: Found) -> Any:
        rows, given_values = _ordered(found)
        if given.kind == "message":
            rows, made = _merged(all_of_them, rows, given_values, values)
        else:
            ends = np.flatnonzero(np.diff(rows, append=-1))
            rows = rows[ends]
            made = values(all_of_them, rows, given_values[ends])
        if given.required:
            there = np.zeros(len(all_of_them), bool)
            there[rows] = True
            all_of_them.fail(~there, f"missing field: {path}")
        column = scattered([(rows, made)], len(all_of_them), kind)
        return column if given.told else _filled(column, given, all_of_them, values)

    return several if given.repeated else single


def _ordered(found: Found) -> tuple[Numbers, Any]:
    """Return rows and values by row, those of one row in the order of its bytes."""
    rows = found.rows()
    if not len(rows):
        return rows, np.zeros((0, 2), np.int64)
    values = np.concatenate([values for _, values in found.parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], values[order]


def _merged(all_of_them: Places, rows: Numbers, spans: Any, values: Make) -> tuple[Numbers, Any]:
    """Return one message a row: the parts of one that comes twice are put together."""
    first = np.unique(rows)
    if len(first) == len(rows):
        return rows, values(all_of_them, rows, spans)
    joined = dict.fromkeys(first.tolist(), b"")
    for row, (start, length) in zip(rows.tolist(), spans.tolist(), strict=True):
        joined[row] += all_of_them.data[start : start + length].tobytes()
    whole = places(pa.array(list(joined.values()), pa.binary()), all_of_them.faults, BROKEN)
    at = np.stack([whole.at, whole.end - whole.at], axis=1)
    found = values(whole, np.arange(len(first)), at)
    hand_on(all_of_them, first, whole.fault)
    return first, found


def _filled(column: Any, given: ProtoField, all_of_them: Places, values: Make) -> Any:
    """Put the default where a field is not there that has no way to say so."""
    if not column.null_count:
        return column
    empty = np.zeros((1, 2), np.int64) if wire_of(given) == LENGTH else np.zeros(1, np.uint64)
    if given.kind in FIXED:
        empty = np.zeros(1, FIXED[given.kind])
    if given.kind == "enum":
        empty = np.array([given.symbols[0][0]], np.int64).view(np.uint64)
    nothing = places(pa.array([b""], pa.binary()), all_of_them.faults, BROKEN)
    default = values(nothing, np.zeros(1, np.int64), empty)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    index = np.where(missing, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, default]).take(pa.array(index))


def _values(given: ProtoField, path: str) -> Make:
    """Return what makes an array of Arrow of a field's values, whose rows it is told."""
    if given.kind == "message":
        return _messages(given.within, path)
    if given.kind in ("string", "bytes"):
        return texts(given.kind, path)
    if given.kind == "enum":
        return symbols(given, path)
    convert = NUMBERS[given.kind]
    return lambda all_of_them, rows, found: convert(np.ravel(found))


def _messages(message: Message, path: str) -> Make:
    timed = message.name == TIMESTAMP
    inner = None if timed else message_fields(message, path)
    kind = pa.struct([]) if timed else arrow_of(spark_struct(message))

    def make(all_of_them: Places, rows: Numbers, spans: Any) -> Any:
        none = np.zeros(len(rows), np.int32)
        ends = spans[:, 0] + spans[:, 1]
        within = Places(all_of_them.data, spans[:, 0].copy(), ends, none, all_of_them.faults)
        if inner is None:
            found = _instant(within, path)
        else:
            found = pa.StructArray.from_arrays(inner(within), fields=list(kind))
        hand_on(all_of_them, rows, within.fault)
        return found

    return make


_SECONDS = ProtoField("seconds", 1, "int64")
_NANOS = ProtoField("nanos", 2, "int32")
_PARTS = Message(f"{TIMESTAMP}.", (_SECONDS, _NANOS))


def _instant(within: Places, path: str) -> Any:
    """Read a google.protobuf.Timestamp of the years 1 to 9999, to the microsecond."""
    seconds, nanos = message_fields(_PARTS, path)(within)
    seconds = seconds.to_numpy(zero_copy_only=False)
    nanos = nanos.to_numpy(zero_copy_only=False)
    wrong = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND)
    wrong |= (nanos < 0) | (nanos > 999_999_999)
    within.fail(wrong, wrong_type(path))
    micros = np.where(wrong, 0, seconds) * 1_000_000 + np.where(wrong, 0, nanos) // 1_000
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
