"""How records of one schema of Avro are read as those of another, by Avro's rules.

A field that the reader does not have is passed over, one that the writer does not have is its
default, a number may be read as a wider one. Beyond Avro's rules, a union of which the reader takes
some types alone is read where a value is of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .._arrow.places import BROKEN, Faults, Places, Read, grouped, listed, places, scattered
from .._arrow.types import arrow_of
from ._defaults import written
from ._nested import blocks, branches_of, passed, repeats
from ._schema import Avro, Field, SchemaError
from ._simple import same_name, simple
from ._steps import in_turn, step
from ._types import spark_type, without_null
from ._values import text, wrong_type


def resolved(writer: Avro, reader: Avro, path: str = "") -> Read:
    """Return what reads values of one type as those of another.

    Raises SchemaError where none can be read.
    """
    nullable = reader.nullable
    kind = without_null(reader)
    if writer.kind == "union":
        return _union(writer, kind, nullable, path)
    if writer.kind == "null":
        raise SchemaError(f"{_at(path)} is always null, and is wanted as {kind}")
    found = _plain(writer, kind, path)
    if found is None:
        raise SchemaError(f"{_at(path)} is {writer}, and is wanted as {kind}")
    return found


def _plain(writer: Avro, reader: Avro, path: str) -> Read | None:
    """Return what reads a value that is no union; None where the types do not fit."""
    nested = {"record": _record, "array": _array, "map": _map}
    if writer.kind in nested or reader.kind in nested:
        return nested[writer.kind](writer, reader, path) if writer.kind == reader.kind else None
    return simple(writer, reader, path)


def _union(writer: Avro, reader: Avro, nullable: bool, path: str) -> Read:
    """Return what reads the branches that fit; a value of another one is a fault."""
    kind = arrow_type(reader)
    reads = _branches(writer, reader, path)

    def read(all_of_them: Places) -> Any:
        parts = []
        for branch, rows in branches_of(all_of_them, len(reads)):
            one = reads[branch]
            if one is not None:
                part = all_of_them.take(rows)
                parts.append((rows, one(part)))
                all_of_them.put(rows, part)
            elif writer.branches[branch].kind != "null":
                all_of_them.fail(rows, wrong_type(path))
            elif not nullable:
                all_of_them.fail(rows, f"missing field: {path}")
        return scattered(parts, len(all_of_them), kind)

    return read


def _branches(writer: Avro, reader: Avro, path: str) -> list[Read | None]:
    """Return what reads each branch; None of a null, and of one that does not fit."""
    found: list[Read | None] = []
    why = SchemaError(f"{_at(path)} is {writer}, and is wanted as {reader}")
    for branch in writer.branches:
        read = None
        if branch.kind != "null":
            try:
                read = _plain(branch, reader, path)
            except SchemaError as fault:
                why = fault
        found.append(read)
    if not any(found):
        raise why
    return found


def _record(writer: Avro, reader: Avro, path: str) -> Read | None:
    if not same_name(writer, reader):
        return None
    read = record_fields(writer, reader, path)
    kind = arrow_type(reader)
    return lambda all_of_them: pa.StructArray.from_arrays(read(all_of_them), fields=list(kind))


def record_fields(writer: Avro, reader: Avro, path: str = "") -> Read:
    """Return what reads a record as a list of its fields, in the reader's order."""
    places_of = {field.name: at for at, field in _matched(writer, reader)}
    steps = [
        (places_of.get(field.name), _field(field, reader, places_of.get(field.name), path))
        for field in writer.fields
    ]
    absent = [at for at in range(len(reader.fields)) if at not in places_of.values()]
    defaults = {at: _default(reader.fields[at], path) for at in absent}

    def read(all_of_them: Places) -> list[Any]:
        found: list[Any] = [None] * len(reader.fields)
        for at, one in steps:
            value = one(all_of_them)
            if at is not None:
                found[at] = value
        rows = pa.array(np.zeros(len(all_of_them), np.int64))
        for at, default in defaults.items():
            found[at] = default.take(rows)
        return found

    return read


def _matched(writer: Avro, reader: Avro) -> Iterator[tuple[int, Field]]:
    """Yield the number of each of the reader's fields that the writer has, and the writer's."""
    known = {field.name: field for field in writer.fields}
    for at, field in enumerate(reader.fields):
        name = next((each for each in (field.name, *field.aliases) if each in known), None)
        if name is not None:
            yield at, known.pop(name)


def _field(field: Field, reader: Avro, at: int | None, path: str) -> Read:
    if at is None:
        return passed(field.type)
    wanted = reader.fields[at]
    return resolved(field.type, wanted.type, _below(path, wanted.name))


def _default(field: Field, path: str) -> Any:
    """Return a field's default as an array of one."""
    name = _below(path, field.name)
    if not field.filled:
        raise SchemaError(f"there is no {name}, which has no default")
    if field.default is None and field.type.nullable:
        return pa.nulls(1, arrow_type(field.type))
    faults = Faults()
    one = places(pa.array([written(field.type, field.default, name)]), faults, BROKEN)
    found = resolved(field.type, field.type, name)(one)
    if one.fault.any() or (one.at != one.end).any():
        raise SchemaError(f"the default of {name} is none of its type")
    return found


def _array(writer: Avro, reader: Avro, path: str) -> Read:
    read = resolved(writer.within, reader.within, path)
    over = step(writer.within)
    kind = arrow_type(reader.within)
    return lambda all_of_them: listed(list(blocks(all_of_them, read, over)), len(all_of_them), kind)


def _map(writer: Avro, reader: Avro, path: str) -> Read:
    name = text(Avro("string"), path)
    over = in_turn([step(Avro("string")), step(writer.within)])
    value = resolved(writer.within, reader.within, path)
    fields = [pa.field("key", pa.string(), False), pa.field("value", arrow_type(reader.within))]
    kind = pa.struct(fields)

    def entry(all_of_them: Places) -> Any:
        key = name(all_of_them)
        return pa.StructArray.from_arrays([key, value(all_of_them)], fields=fields)

    def read(all_of_them: Places) -> Any:
        parts = list(blocks(all_of_them, entry, over))
        offsets, entries = grouped(parts, len(all_of_them), kind)
        keys = entries.field(0)
        values = entries.field(1)
        all_of_them.fail(repeats(offsets, keys), wrong_type(path))
        return pa.MapArray.from_arrays(offsets, keys, values)

    return read


def arrow_type(kind: Avro) -> Any:
    """Return the type of Arrow in which the values of a type are read."""
    return arrow_of(spark_type(kind))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return path or "the value"
