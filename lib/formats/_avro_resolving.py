"""How records of one schema of Avro are read as those of another, by Avro's rules.

A field that the reader does not have is passed over, one that the writer does not have is its
default, a number may be read as a wider one. Beyond Avro's rules, a union of which the reader takes
some types alone is read where a value is of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._arrow_types import arrow_of
from ._avro_defaults import written
from ._avro_schema import LOCAL, NUMBERS, Avro, Field, SchemaError, spark_type, without_null
from ._avro_steps import Step, in_turn, step, stretch
from ._avro_values import (
    content,
    day,
    decimal,
    instant,
    number,
    sized,
    symbol,
    text,
    truth,
    uuid,
    wrong_type,
)
from ._places import BROKEN, CUT, Faults, Numbers, Places, Read, grouped, listed, places, scattered

_CHOICES = 2**31
_FEW = 16
"""Rows that are too few to be worth a call of numpy for each element."""


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
    if reader.logical == "decimal":
        fits = writer.logical == "decimal" or (not reader.loose and not writer.logical)
        return _decimal(writer, reader, path) if fits else None
    if reader.kind == "long" and reader.logical:
        return _instant(writer, reader, path)
    if reader.logical == "date":
        fits = writer.kind == "int" and (writer.logical == "date" or not reader.loose)
        return day(writer, path) if fits else None
    if reader.kind in NUMBERS:
        return _number(writer, reader, path)
    if reader.kind == "boolean":
        return truth if writer.kind == "boolean" else None
    if reader.kind == "enum":
        same = writer.kind == "enum" and _same_name(writer, reader)
        return symbol(writer, reader, path) if same else None
    return _bytes(writer, reader, path)


def _number(writer: Avro, reader: Avro, path: str) -> Read | None:
    order = list(NUMBERS)
    if writer.kind not in order or order.index(writer.kind) > order.index(reader.kind):
        return None
    # What counts days or milliseconds is no plain number to those who asked for one by its type.
    return None if writer.logical and reader.loose else number(writer, reader, path)


def _instant(writer: Avro, reader: Avro, path: str) -> Read | None:
    if writer.kind == "int" and not writer.logical and not reader.loose:
        return instant(reader.logical, path)
    if writer.kind != "long" or (not writer.logical and reader.loose):
        return None
    logical = writer.logical or reader.logical
    same = logical.startswith(LOCAL) == reader.logical.startswith(LOCAL)
    return instant(logical, path) if same else None


def _decimal(writer: Avro, reader: Avro, path: str) -> Read | None:
    if writer.kind not in ("bytes", "fixed") or (writer.kind != reader.kind and not reader.loose):
        return None
    if writer.logical and (writer.scale != reader.scale or writer.precision > reader.precision):
        return None
    return decimal(writer, reader, path)


def _bytes(writer: Avro, reader: Avro, path: str) -> Read | None:
    """Return what reads texts and bytes."""
    if reader.kind == "fixed" or (writer.kind == "fixed" and not reader.loose):
        same = writer.kind == reader.kind and writer.size == reader.size
        if not same or not _same_name(writer, reader):
            return None
        return uuid(writer, path) if reader.logical == "uuid" else content(writer)
    if writer.logical == "decimal":
        return None if reader.loose else content(writer)
    if reader.kind == "string":
        if writer.kind == "enum":
            return symbol(writer, reader, path) if reader.loose else None
        if (reader.logical or reader.loose * writer.logical) == "uuid":
            return uuid(writer, path) if writer.kind in ("string", "fixed") else None
        # Bytes may be text to Avro, by a schema that says so; to a type of Spark they are not.
        allowed = ("string",) if reader.loose else ("string", "bytes")
        return text(writer, path) if writer.kind in allowed else None
    allowed = ("bytes", "fixed") if reader.loose else ("bytes", "string")
    return content(writer) if writer.kind in allowed else None


def _same_name(writer: Avro, reader: Avro) -> bool:
    return reader.loose or writer.name in (reader.name, *reader.aliases)


def _union(writer: Avro, reader: Avro, nullable: bool, path: str) -> Read:
    """Return what reads the branches that fit; a value of another one is a fault."""
    kind = arrow_type(reader)
    reads = _branches(writer, reader, path)

    def read(all_of_them: Places) -> Any:
        parts = []
        for branch, rows in _chosen(all_of_them, len(reads)):
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


def _chosen(all_of_them: Places, count: int) -> Iterator[tuple[int, Numbers]]:
    """Yield each branch of a union that is there, with the rows that have it."""
    branch = all_of_them.zigzag()
    all_of_them.fail((branch < 0) | (branch >= count), BROKEN)
    fine = all_of_them.fault == 0
    for each in range(count):
        rows = np.flatnonzero(fine & (branch == each))
        if len(rows):
            yield each, rows


def _record(writer: Avro, reader: Avro, path: str) -> Read | None:
    if not _same_name(writer, reader):
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
        keys, values = entries.field(0), entries.field(1)
        all_of_them.fail(repeats(offsets, keys), wrong_type(path))
        return pa.MapArray.from_arrays(offsets, keys, values)

    return read


def repeats(offsets: Any, keys: Any) -> Numbers:
    """Return the rows whose map has a key twice."""
    edges = offsets.to_numpy()
    rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    codes = pc.dictionary_encode(keys).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs, counts = np.unique(rows * _CHOICES + codes, return_counts=True)
    return np.unique(pairs[counts > 1] // _CHOICES)


def blocks(all_of_them: Places, read: Read, over: Step) -> Iterator[tuple[Numbers, Any]]:
    """Read the elements of arrays or maps: the first of every row, then the second, and so on.

    Yields what was read, with the rows that had it. Where few rows are left, the elements of each
    are read at once.
    """
    left = np.zeros(len(all_of_them), np.int64)
    unended = np.flatnonzero(all_of_them.fault == 0)
    while len(unended):
        begun = unended[left[unended] == 0]
        if len(begun):
            part = all_of_them.take(begun)
            left[begun] = _count(part)
            all_of_them.put(begun, part)
        unended = unended[(left[unended] > 0) & (all_of_them.fault[unended] == 0)]
        if not len(unended):
            return
        part = all_of_them.take(unended)
        if len(unended) <= _FEW < left[unended].max():
            rows, elements = stretch(part, left[unended], over, read)
            yield unended[rows], elements
            left[unended] = 0
        else:
            yield unended, read(part)
            left[unended] -= 1
        all_of_them.put(unended, part)


def _count(places_of: Places) -> Numbers:
    """Return how many elements the next block has; a negative number has its bytes beside it."""
    count = places_of.zigzag()
    negative = np.flatnonzero(count < 0)
    if len(negative):
        part = places_of.take(negative)
        part.zigzag()
        places_of.put(negative, part)
        count = np.abs(count)
    # An element takes a byte at least. The smallest number of all has no counterpart above zero.
    places_of.fail((count > places_of.end - places_of.at) | (count < 0), CUT)
    return np.where(places_of.fault == 0, count, 0)


def passed(writer: Avro) -> Read:
    """Return what passes over values that nobody asks for, and finds their faults."""
    if writer.kind == "null":
        return lambda all_of_them: None
    if writer.kind == "union":
        return _passed_union([passed(branch) for branch in writer.branches])
    if writer.kind == "record":
        return _in_turn([passed(field.type) for field in writer.fields])
    if writer.kind == "array":
        return _passed_blocks(passed(writer.within), step(writer.within))
    if writer.kind == "map":
        over = in_turn([step(Avro("string")), step(writer.within)])
        return _passed_blocks(_in_turn([sized(Avro("string")), passed(writer.within)]), over)
    if writer.kind in ("string", "bytes", "fixed"):
        return sized(writer)
    plain = replace(writer, logical="")
    return resolved(plain, plain)


def _in_turn(reads: list[Read]) -> Read:
    def read(all_of_them: Places) -> None:
        for one in reads:
            one(all_of_them)

    return read


def _passed_blocks(element: Read, over: Step) -> Read:
    def read(all_of_them: Places) -> None:
        for _ in blocks(all_of_them, element, over):
            pass

    return read


def _passed_union(reads: list[Read]) -> Read:
    def read(all_of_them: Places) -> None:
        for branch, rows in _chosen(all_of_them, len(reads)):
            part = all_of_them.take(rows)
            reads[branch](part)
            all_of_them.put(rows, part)

    return read


def arrow_type(kind: Avro) -> Any:
    """Return the type of Arrow in which the values of a type are read."""
    return arrow_of(spark_type(kind))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return path or "the value"
