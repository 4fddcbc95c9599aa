"""Simple values of one type of Avro read as those of another."""

from __future__ import annotations

from .._arrow.places import Read
from ._schema import LOCAL, NUMBERS, Avro
from ._values import content, day, decimal, instant, number, symbol, text, truth, uuid


def simple(writer: Avro, reader: Avro, path: str) -> Read | None:
    """Return what reads a value without parts; None where the types do not fit."""
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
        same = writer.kind == "enum" and same_name(writer, reader)
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
        if not same or not same_name(writer, reader):
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


def same_name(writer: Avro, reader: Avro) -> bool:
    """Return whether a named type is the one that is wanted."""
    return reader.loose or writer.name in (reader.name, *reader.aliases)
