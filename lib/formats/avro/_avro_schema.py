"""Parser of Avro schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from .._connect_types import kind_of

MILLIS = "timestamp-millis"
MICROS = "timestamp-micros"
NANOS = "timestamp-nanos"
LOCAL = "local-"
NUMBERS = ("int", "long", "float", "double")
"""The numeric types; each can be read as any later one."""
_PRIMITIVES = (*NUMBERS, "boolean", "bytes", "string")
_LOGICAL_TYPES = {
    "int": ("date",),
    "long": tuple(prefix + unit for prefix in ("", LOCAL) for unit in (MILLIS, MICROS, NANOS)),
    "string": ("uuid",),
}
RECURSIVE = "recursive"
"""The type of a reference to a record inside its own declaration."""


class SchemaError(ValueError):
    """A schema is invalid, unsupported, or incompatible with another one."""


@dataclass(frozen=True)
class AvroField:
    """A field of a record; `default` is valid only if `has_default`."""

    plan_name: ClassVar[str] = "avro_field"
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class AvroType:
    """An Avro type.

    logical: the logical type, if it is supported.
    connect_name, connect_parameters: the logical type of Kafka Connect, if it has one.
    scope: the types by full name, for a recursive reference.
    from_spark_type: derived from a Spark type; matches all Avro types that convert to it.
    """

    plan_name: ClassVar[str] = "avro_type"
    type_name: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    items: AvroType | None = None
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()
    from_spark_type: bool = False
    connect_name: str | None = field(default=None, compare=False)
    connect_parameters: Mapping[str, Any] | None = field(default=None, compare=False)
    scope: Mapping[str, AvroType | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def connect(self) -> str | None:
        """The kind of the logical type of Kafka Connect, if it has one."""
        return kind_of(self.connect_name, self.connect_parameters)

    @property
    def declared(self) -> AvroType:
        """The type itself, or the record that a recursive reference names."""
        if self.type_name != RECURSIVE:
            return self
        declared = self.scope[self.name]
        assert declared is not None
        return declared

    @property
    def element_type(self) -> AvroType:
        assert self.items is not None
        return self.items

    @property
    def is_nullable(self) -> bool:
        return "null" in (self.type_name, *(branch.type_name for branch in self.branches))

    def __str__(self) -> str:
        if self.type_name == "union":
            return f"[{', '.join(map(str, self.branches))}]"
        if self.logical == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return self.logical or (f"{self.type_name} {self.name}" if self.name else self.type_name)


def parse_schema(text: str, references: Mapping[str, str] | None = None) -> AvroType:
    """Return the type that the text of a schema declares.

    references: the texts of referenced schemas by name; each may only reference earlier ones.

    Raises SchemaError.
    """
    names: dict[str, AvroType | None] = {}
    for reference in (references or {}).values():
        _Parser(names).read(_load_json(reference), "")
    return _Parser(names).read(_load_json(text), "")


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as fault:
        if text.strip() in (*_PRIMITIVES, "null"):
            return text.strip()
        raise SchemaError(f"not JSON: {fault}") from None
    except RecursionError:
        raise SchemaError("too many levels of nesting") from None


@dataclass(frozen=True)
class _Parser:
    """Reads declarations; `names` has the named types, None during their declaration."""

    names: dict[str, AvroType | None]

    def read(self, declaration: Any, namespace: str) -> AvroType:
        if isinstance(declaration, str):
            return self._named_type(declaration, namespace)
        if isinstance(declaration, list):
            return self._union(declaration, namespace)
        if not isinstance(declaration, dict) or "type" not in declaration:
            raise SchemaError(f"invalid type {_abbreviate(declaration)}")
        type_name = declaration["type"]
        if not isinstance(type_name, str):
            return self.read(type_name, namespace)
        if type_name in ("record", "error", "enum", "fixed"):
            return self._declare_type(type_name.replace("error", "record"), declaration, namespace)
        if type_name == "array":
            items = self.read(declaration.get("items"), namespace)
            if not _min_bytes(items):
                raise SchemaError(f"array of {items}, which takes no bytes, is unbounded")
            return AvroType("array", items=items)
        if type_name == "map":
            return AvroType("map", items=self.read(declaration.get("values"), namespace))
        return _with_logical_type(self._named_type(type_name, namespace), declaration)

    def _named_type(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES or name == "null":
            return AvroType(name)
        full_name = _qualified_name(name, namespace)
        if full_name not in self.names:
            raise SchemaError(f"unknown type {name!r}")
        named_type = self.names[full_name]
        return named_type or AvroType(RECURSIVE, name=full_name, scope=self.names)

    def _union(self, declarations: list[Any], namespace: str) -> AvroType:
        branches = tuple(self.read(declaration, namespace) for declaration in declarations)
        branch_names = [branch.name or branch.type_name for branch in branches]
        is_repeated = len(set(branch_names)) < len(branch_names)
        if not branch_names or "union" in branch_names or is_repeated:
            raise SchemaError(f"invalid union {_abbreviate(declarations)}")
        return AvroType("union", branches=branches)

    def _declare_type(
        self, type_name: str, declaration: dict[str, Any], namespace: str
    ) -> AvroType:
        if not isinstance(declaration.get("name"), str) or not declaration["name"]:
            raise SchemaError(f"{type_name} without a name")
        own_namespace = str(declaration.get("namespace") or namespace)
        full_name = _qualified_name(declaration["name"], own_namespace)
        if full_name in self.names:
            raise SchemaError(f"duplicate declaration of {full_name}")
        self.names[full_name] = None
        aliases = tuple(map(_simple_name, _name_list(declaration.get("aliases", []))))
        base = AvroType(type_name, name=_simple_name(full_name), aliases=aliases)
        if type_name == "record":
            fields = self._fields(declaration, full_name.rpartition(".")[0])
            connect_name = _text_or_none(declaration.get("connect.name", full_name))
            declared_type = replace(base, fields=fields, connect_name=connect_name)
        elif type_name == "enum":
            declared_type = _with_symbols(base, declaration)
        else:
            size = declaration.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaError(f"invalid size {_abbreviate(size)} of a fixed")
            declared_type = _with_logical_type(replace(base, size=size), declaration)
        self.names[full_name] = declared_type
        return declared_type

    def _fields(self, declaration: dict[str, Any], namespace: str) -> tuple[AvroField, ...]:
        fields = declaration.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"record {declaration['name']} without fields")
        parsed_fields = tuple(self._field(declared, namespace) for declared in fields)
        names = [field.name for field in parsed_fields]
        if len(set(names)) < len(names):
            raise SchemaError(f"duplicate fields in record {declaration['name']}")
        return parsed_fields

    def _field(self, declaration: Any, namespace: str) -> AvroField:
        if not isinstance(declaration, dict) or not isinstance(declaration.get("name"), str):
            raise SchemaError(f"invalid field {_abbreviate(declaration)}")
        return AvroField(
            declaration["name"],
            self.read(declaration.get("type"), namespace),
            tuple(_name_list(declaration.get("aliases", []))),
            "default" in declaration,
            declaration.get("default"),
        )


def _with_symbols(base: AvroType, declaration: dict[str, Any]) -> AvroType:
    symbols = tuple(_name_list(declaration.get("symbols")))
    default = declaration.get("default")
    if len(set(symbols)) < len(symbols) or (default is not None and default not in symbols):
        raise SchemaError(f"duplicate symbols or an invalid default in enum {base.name}")
    return replace(base, symbols=symbols, default=default)


def _with_logical_type(base: AvroType, declaration: dict[str, Any]) -> AvroType:
    """Return the type with its logical type; Avro ignores unknown or mismatched logical types."""
    parameters = declaration.get("connect.parameters")
    base = replace(
        base,
        connect_name=_text_or_none(declaration.get("connect.name", base.connect_name)),
        connect_parameters=parameters if isinstance(parameters, dict) else None,
    )
    logical_type = declaration.get("logicalType")
    if logical_type in _LOGICAL_TYPES.get(base.type_name, ()) or (
        logical_type == "uuid" and base.size == 16
    ):
        return replace(base, logical=str(logical_type))
    if logical_type == "decimal" and base.type_name in ("bytes", "fixed"):
        precision = declaration.get("precision")
        scale = declaration.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision > 0:
            return replace(base, logical="decimal", precision=precision, scale=scale)
    return base


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _min_bytes(avro_type: AvroType) -> int:
    if avro_type.type_name == "record":
        return sum(_min_bytes(field.type) for field in avro_type.fields)
    if avro_type.type_name == "fixed":
        return avro_type.size
    return 0 if avro_type.type_name == "null" else 1


def _name_list(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"invalid list of names {_abbreviate(names)}")
    return names


def _qualified_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _simple_name(name: str) -> str:
    return name.rpartition(".")[2]


def _abbreviate(declaration: Any) -> str:
    text = json.dumps(declaration, default=str)
    return text if len(text) < 60 else f"{text[:57]}..."
