"""The values of Arrow's columns, at any depth, and whether they tell of a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .person import Person


def leaves(column: Any, path: str, person: Person) -> Iterator[tuple[str, Any]]:
    """Return the plain parts of a column, each with its dotted path.

    The key of a map's entry is a name in a path as well, where a column of the person has it.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from leaves(column.dictionary_decode(), path, person)
    elif pa.types.is_struct(kind):
        for number, part in enumerate(column.flatten()):
            yield from leaves(part, f"{path}.{kind.field(number).name}", person)
    elif pa.types.is_map(kind):
        yield from leaves(column.keys, path, person)
        yield from leaves(column.items, path, person)
        yield from _entries(column, person)
    elif pa.types.is_nested(kind):
        yield from leaves(column.flatten(), path, person)
    else:
        yield path, column


def _entries(column: Any, person: Person) -> Iterator[tuple[str, Any]]:
    if not pa.types.is_string(column.type.key_type):
        return
    for name in {each.column for each in person.identifiers}:
        named = pc.equal(pc.utf8_lower(column.keys), name.rpartition(".")[2].lower())
        own = column.items.filter(named)
        if len(own):
            yield from leaves(own, name, person)


def in_column(values: Any, path: str, person: Person) -> int:
    """Return how many values of a plain column tell of the person."""
    kind = values.type
    if pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
        values = values.cast(kind)
    if not _is_text(kind) and not _is_bytes(kind):
        return sum(_equal(values, each) for each in person.at(path))
    near = pc.is_in(values, pa.array(list(person.at(path)), pa.string()).cast(kind))
    for needle in person.needles:
        # Of bytes too, the pattern is given as text.
        near = pc.or_(near, pc.fill_null(pc.match_substring(values, needle), False))
    return sum(in_value(each, path, person) for each in values.filter(near).to_pylist())


def in_value(value: Any, path: str, person: Person) -> bool:
    """Return whether one value of a column tells of the person."""
    if isinstance(value, str):
        return value in person.at(path) or person.in_text(value)
    if isinstance(value, bytes):
        return value in [each.encode() for each in person.at(path)] or person.in_bytes(value)
    if value is None:
        return False
    return any(_equal(pa.array([value]), each) > 0 for each in person.at(path))


def _equal(values: Any, wanted: str) -> int:
    """Return how many values are what a text stands for, in their type."""
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        same = pc.equal(values, pa.scalar(wanted).cast(values.type))
        return int(pc.sum(same).as_py() or 0)
    return 0


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _is_bytes(kind: Any) -> bool:
    return str(kind) in ("binary", "large_binary", "binary_view")
