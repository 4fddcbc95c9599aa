"""Messages of Protocol Buffers, taken out of a descriptor set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TIMESTAMP = "google.protobuf.Timestamp"
_TYPES: dict[str, DataType] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), IntegerType()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), LongType()),
    **dict.fromkeys(("uint64", "fixed64"), DecimalType(20, 0)),
    **dict.fromkeys(("string", "enum"), StringType()),
    "float": FloatType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "bytes": BinaryType(),
}


class DescriptorError(ValueError):
    """A descriptor set does not have the message, or has something that is not read."""


@dataclass(frozen=True)
class ProtoField:
    """A field of a message.

    repeated: whether it may be there several times. told: whether its absence can be told from its
    default. oneof: the number of the choice that it is one of.
    """

    name: str
    number: int
    kind: str
    repeated: bool = False
    told: bool = False
    required: bool = False
    oneof: int | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    message: Message | None = None

    @property
    def within(self) -> Message:
        """The message that the field holds."""
        assert self.message is not None
        return self.message


@dataclass(frozen=True)
class Message:
    """A message: its fields, and whether it is the entry of a map."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    entry: bool = False


@dataclass(frozen=True)
class Declared:
    """A message, and where in its file it stands: the numbers of those around it, and its own."""

    message: Message
    path: tuple[int, ...]


def declared(content: bytes, name: str) -> Declared:
    """Return a message by its full name, such as "shop.Click".

    Raises DescriptorError.
    """
    try:
        found = FileDescriptorSet.FromString(content)
    except DecodeError:
        raise DescriptorError("it is no descriptor set, as protoc writes one") from None
    given = _Set()
    for file in found.file:
        prefix = f"{file.package}." if file.package else ""
        for at, message in enumerate(file.message_type):
            given.add(message, prefix, (at,), file.syntax or "proto2")
        for enum in file.enum_type:
            given.add_enum(enum, prefix)
    if name not in given.messages:
        raise DescriptorError(
            f"it has no message {name!r}; it has {', '.join(sorted(given.messages)[:20]) or 'none'}"
        )
    return Declared(given.message(name, ()), given.messages[name][1])


@dataclass
class _Set:
    """The messages and enums of a set by their full names."""

    messages: dict[str, tuple[Any, tuple[int, ...], str]] = field(default_factory=dict)
    enums: dict[str, Any] = field(default_factory=dict)

    def add(self, message: Any, prefix: str, path: tuple[int, ...], syntax: str) -> None:
        full = f"{prefix}{message.name}"
        self.messages[full] = (message, path, syntax)
        for at, inner in enumerate(message.nested_type):
            self.add(inner, f"{full}.", (*path, at), syntax)
        for enum in message.enum_type:
            self.add_enum(enum, f"{full}.")

    def add_enum(self, enum: Any, prefix: str) -> None:
        self.enums[f"{prefix}{enum.name}"] = enum

    def message(self, name: str, around: tuple[str, ...]) -> Message:
        if name in around:
            raise DescriptorError(
                f"the message {name} is inside of itself, which no table can hold"
            )
        if name not in self.messages:
            raise DescriptorError(f"{name} is missing: write the set with --include_imports")
        message, _, syntax = self.messages[name]
        if syntax not in ("proto2", "proto3"):
            raise DescriptorError(f"{name} is of {syntax}, where proto2 and proto3 are read")
        if name == TIMESTAMP:
            return Message(name)
        fields = tuple(
            self._field(each, message, syntax, (*around, name)) for each in message.field
        )
        return Message(name, fields, message.options.map_entry)

    def _field(self, given: Any, message: Any, syntax: str, around: tuple[str, ...]) -> ProtoField:
        kind = FieldDescriptorProto.Type.Name(given.type).removeprefix("TYPE_").lower()
        if kind == "group":
            raise DescriptorError(f"the field {given.name} is a group")
        repeated = given.label == FieldDescriptorProto.LABEL_REPEATED
        type_name = given.type_name.removeprefix(".")
        inner = self.message(type_name, around) if kind == "message" else None
        told = kind == "message" or syntax == "proto2" or given.HasField("oneof_index")
        entry = message.options.map_entry
        symbols: tuple[tuple[int, str], ...] = ()
        if kind == "enum":
            if type_name not in self.enums:
                raise DescriptorError(
                    f"{type_name} is missing: write the set with --include_imports"
                )
            symbols = tuple((each.number, each.name) for each in self.enums[type_name].value)
        return ProtoField(
            name=given.name,
            number=given.number,
            kind=kind,
            repeated=repeated,
            told=told and not repeated and not entry,
            required=given.label == FieldDescriptorProto.LABEL_REQUIRED,
            oneof=given.oneof_index if given.HasField("oneof_index") else None,
            symbols=symbols,
            message=inner,
        )


def spark_struct(message: Message) -> StructType:
    """Return the struct that holds a message; DescriptorError for one without fields."""
    if not message.fields:
        raise DescriptorError(f"the message {message.name} has no fields")
    return StructType(
        [StructField(each.name, spark_field(each), each.told) for each in message.fields]
    )


def spark_field(given: ProtoField) -> DataType:
    """Return the type of Spark that holds a field."""
    one = spark_value(given)
    if not given.repeated:
        return one
    if given.message is not None and given.message.entry:
        assert isinstance(one, StructType)
        return MapType(one["key"].dataType, one["value"].dataType)
    return ArrayType(one, False)


def spark_value(given: ProtoField) -> DataType:
    """Return the type of Spark that holds one value of a field."""
    if given.message is None:
        return _TYPES[given.kind]
    return TimestampType() if given.message.name == TIMESTAMP else spark_struct(given.message)
