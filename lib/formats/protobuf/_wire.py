"""The wire format of Protocol Buffers: the next field of many messages at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arrow.places import BROKEN, Numbers, Places
from ._schema import ProtoField
from ._values import FIXED, Packed, unpacked

_VARINT = 0
_EIGHT = 1
LENGTH = 2
_FOUR = 5
_MOST_FIELDS = 2**29 - 1


@dataclass
class Found:
    """What was read of one field: values or stretches, with their rows and their order in them."""

    parts: list[tuple[Numbers, Any]] = field(default_factory=list)
    last: Numbers = None
    """In which turn the field was last met in each row; -1 where it was not."""

    def rows(self) -> Numbers:
        none = [np.zeros(0, np.int64)]
        return np.concatenate([rows for rows, _ in self.parts] or none)


def one_field(
    part: Places,
    active: Numbers,
    turn: int,
    by_number: dict[int, ProtoField],
    found: dict[int, Found],
) -> None:
    """Read the next field of each row."""
    tags = part.varint()
    numbers = tags >> np.uint64(3)
    part.fail((numbers == 0) | (numbers > _MOST_FIELDS), BROKEN)
    fine = part.fault == 0
    for tag in np.unique(tags[fine]).tolist():
        rows = np.flatnonzero(fine & (tags == np.uint64(tag)))
        one = part.take(rows)
        number = tag >> 3
        given = by_number.get(number)
        value = _value(given, tag & 7, one)
        if given is not None and value is not None:
            kept = np.flatnonzero(one.fault == 0)
            target = found[number]
            target.last[active[rows[kept]]] = turn
            _note(target, given, one, active[rows], value, kept)
        part.put(rows, one)


def _value(given: ProtoField | None, wire: int, one: Places) -> Any:
    """Read the value behind a tag; None for what is no field of the message, and is passed over."""
    if given is not None and wire == wire_of(given):
        return _single(given, one)
    if given is not None and given.repeated and wire == LENGTH:
        return Packed(*one.span(_lengths(one)))
    # What is of another type than the field's is no such field.
    _pass(one, wire)
    return None


def wire_of(given: ProtoField) -> int:
    """Return how a single value of a field is written."""
    if given.kind in FIXED:
        return _EIGHT if FIXED[given.kind].endswith("8") else _FOUR
    return LENGTH if given.kind in ("string", "bytes", "message") else _VARINT


def _lengths(one: Places) -> Numbers:
    """Read lengths; one that no number of rows can have is too long as well."""
    return np.minimum(one.varint(), np.uint64(2**62)).astype(np.int64)


def _single(given: ProtoField, one: Places) -> Any:
    wire = wire_of(given)
    if wire == LENGTH:
        return one.span(_lengths(one))
    return one.fixed(FIXED[given.kind]) if wire != _VARINT else one.varint()


def _pass(one: Places, wire: int) -> None:
    if wire == _VARINT:
        one.varint()
    elif wire == LENGTH:
        one.span(_lengths(one))
    elif wire in (_EIGHT, _FOUR):
        one.span(np.full(len(one), 8 if wire == _EIGHT else 4))
    else:
        one.fail(np.arange(len(one)), BROKEN)


def _note(
    target: Found, given: ProtoField, one: Places, rows: Numbers, value: Any, kept: Numbers
) -> None:
    """Keep what was read, as numbers of one kind, or as starts and ends."""
    if isinstance(value, Packed):
        target.parts += unpacked(given, one, rows, value)
    elif isinstance(value, tuple):
        starts, lengths = value
        target.parts.append((rows[kept], np.stack([starts[kept], lengths[kept]], axis=1)))
    else:
        target.parts.append((rows[kept], value[kept]))
