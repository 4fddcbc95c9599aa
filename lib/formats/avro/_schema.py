"""Schemas of Avro, read from their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

MILLIS = "timestamp-millis"
MICROS = "timestamp-micros"
LOCAL = "local-"
NUMBERS = ("int", "long", "float", "double")
"""The numbers, each of which may be read as any that comes after it."""
_PRIMITIVES = (*NUMBERS, "boolean", "bytes", "string")
_LOGICAL = {
    "int": ("date",),
    "long": (MILLIS, MICROS, LOCAL + MILLIS, LOCAL + MICROS),
    "string": ("uuid",),
}
_MOST_DIGITS = 38


class SchemaError(ValueError):
    """A schema is none, or has something that is not read; the text says what."""


@dataclass(frozen=True)
class Field:
    """A field of a record; `default` counts where `filled` says that there is one."""

    name: str
    type: Avro
    aliases: tuple[str, ...] = ()
    filled: bool = False
    default: Any = None


@dataclass(frozen=True)
class Avro:
    """A type of Avro.

    logical: what a number, text or bytes stand for, where it is one that is read.
    loose: it was made of a type of Spark, and takes whatever can be read as that.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    items: Avro | None = None
    fields: tuple[Field, ...] = ()
    branches: tuple[Avro, ...] = ()
    loose: bool = False

    @property
    def within(self) -> Avro:
        """The type of an array's items, and of a map's values."""
        assert self.items is not None
        return self.items

    @property
    def nullable(self) -> bool:
        """Whether a null is one of its values."""
        return self.kind == "null" or any(each.kind == "null" for each in self.branches)

    def __str__(self) -> str:
        if self.kind == "union":
            return f"[{', '.join(map(str, self.branches))}]"
        if self.logical == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return self.logical or (f"{self.kind} {self.name}" if self.name else self.kind)


def parsed(text: str, references: Mapping[str, str] | None = None) -> Avro:
    """Return the type that a schema's text declares.

    references: texts of schemas by a name of each, whose types this one may name. They come in an
        order in which each names only those before it.

    Raises SchemaError.
    """
    names: dict[str, Avro | None] = {}
    for reference in (references or {}).values():
        _Parser(names).read(_json(reference), "")
    return _Parser(names).read(_json(text), "")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as fault:
        if text.strip() in (*_PRIMITIVES, "null"):
            return text.strip()
        raise SchemaError(f"it is no JSON: {fault}") from None
    except RecursionError:
        raise SchemaError("it is nested too deep") from None


@dataclass(frozen=True)
class _Parser:
    """Reads declarations; `names` has the types that were named, None while one is being read."""

    names: dict[str, Avro | None]

    def read(self, given: Any, space: str) -> Avro:
        if isinstance(given, str):
            return self._named(given, space)
        if isinstance(given, list):
            return self._union(given, space)
        if not isinstance(given, dict) or "type" not in given:
            raise SchemaError(f"{_short(given)} is no type")
        kind = given["type"]
        if not isinstance(kind, str):
            return self.read(kind, space)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared("record" if kind == "error" else kind, given, space)
        if kind == "array":
            return Avro("array", items=self._sized(given.get("items"), space))
        if kind == "map":
            return Avro("map", items=self.read(given.get("values"), space))
        return _logical(self._named(kind, space), given)

    def _sized(self, items: Any, space: str) -> Avro:
        found = self.read(items, space)
        if not _least(found):
            raise SchemaError(f"an array of {found}, which takes no bytes, can be endless")
        return found

    def _named(self, name: str, space: str) -> Avro:
        if name in _PRIMITIVES or name == "null":
            return Avro(name)
        full = _full(name, space)
        if full not in self.names:
            raise SchemaError(f"there is no type {name!r}")
        found = self.names[full]
        if found is None:
            raise SchemaError(f"the record {full} is inside of itself, which no table can hold")
        return found

    def _union(self, given: list[Any], space: str) -> Avro:
        branches = tuple(self.read(each, space) for each in given)
        told = [branch.name or branch.kind for branch in branches]
        if not told or "union" in told or len(set(told)) < len(told):
            raise SchemaError(f"{_short(given)} is no union")
        return Avro("union", branches=branches)

    def _declared(self, kind: str, given: dict[str, Any], space: str) -> Avro:
        if not isinstance(given.get("name"), str) or not given["name"]:
            raise SchemaError(f"a {kind} has no name")
        own = str(given.get("namespace") or space)
        full = _full(given["name"], own)
        if full in self.names:
            raise SchemaError(f"{full} is declared twice")
        self.names[full] = None
        aliases = tuple(_last(alias) for alias in _texts(given.get("aliases", [])))
        base = Avro(kind, name=_last(full), aliases=aliases)
        if kind == "record":
            found = replace(base, fields=self._fields(given, full.rpartition(".")[0]))
        elif kind == "enum":
            found = _enum(base, given)
        else:
            found = _logical(replace(base, size=_size(given.get("size"))), given)
        self.names[full] = found
        return found

    def _fields(self, given: dict[str, Any], space: str) -> tuple[Field, ...]:
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"the record {given['name']} has no fields")
        found = tuple(self._field(each, space) for each in fields)
        names = [field.name for field in found]
        if len(set(names)) < len(names):
            raise SchemaError(f"the record {given['name']} has a field twice")
        return found

    def _field(self, given: Any, space: str) -> Field:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise SchemaError(f"{_short(given)} is no field")
        return Field(
            given["name"],
            self.read(given.get("type"), space),
            tuple(_texts(given.get("aliases", []))),
            "default" in given,
            given.get("default"),
        )


def _enum(base: Avro, given: dict[str, Any]) -> Avro:
    symbols = tuple(_texts(given.get("symbols")))
    default = given.get("default")
    if len(set(symbols)) < len(symbols) or (default is not None and default not in symbols):
        raise SchemaError(f"the enum {base.name} has a symbol twice, or a default that is none")
    return replace(base, symbols=symbols, default=default)


def _logical(base: Avro, given: dict[str, Any]) -> Avro:
    """Return a type with its logical one; Avro ignores those that do not fit, or are unknown."""
    named = given.get("logicalType")
    if named in _LOGICAL.get(base.kind, ()) or (named == "uuid" and base.size == 16):
        return replace(base, logical=str(named))
    if named == "decimal" and base.kind in ("bytes", "fixed"):
        precision = given.get("precision")
        scale = given.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision:
            if 0 < precision <= _MOST_DIGITS:
                return replace(base, logical="decimal", precision=precision, scale=scale)
            raise SchemaError(f"a decimal of {precision} digits; a table holds {_MOST_DIGITS}")
    return base


def _least(kind: Avro) -> int:
    """Return the fewest bytes that a value takes."""
    if kind.kind == "record":
        return sum(_least(field.type) for field in kind.fields)
    if kind.kind == "fixed":
        return kind.size
    return 0 if kind.kind == "null" else 1


def _size(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise SchemaError(f"a fixed of {_short(given)} bytes")
    return given


def _texts(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise SchemaError(f"{_short(given)} is no list of names")
    return given


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _short(given: Any) -> str:
    text = json.dumps(given, default=str)
    return text if len(text) < 60 else f"{text[:57]}..."
