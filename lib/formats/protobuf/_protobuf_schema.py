"""Message types of a descriptor set, their Spark types, and their names in a .proto file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
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
_SPARK_TYPES: dict[str, DataType] = {
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
    """A descriptor set is invalid, unsupported, or does not have the message."""


@dataclass(frozen=True)
class ProtoField:
    """A field of a message.

    has_presence: whether a missing field differs from a field with its default.
    oneof: the index of the oneof that the field belongs to.
    fault: why the field cannot be read; "" if it can.
    """

    plan_name: ClassVar[str] = "proto_field"
    name: str
    number: int
    field_type: str
    repeated: bool = False
    has_presence: bool = False
    required: bool = False
    oneof: int | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    message: MessageType | None = None
    fault: str = ""


@dataclass(frozen=True)
class MessageType:
    """A message type; `is_map_entry` marks the entries of a map field.

    fault: why the message cannot be read, or the first of its fields that cannot; else "".
    """

    plan_name: ClassVar[str] = "message_type"
    name: str
    fields: tuple[ProtoField, ...] = ()
    is_map_entry: bool = False
    fault: str = ""

    def with_fields(self, names: Collection[str]) -> MessageType:
        """Return the message without the fields that cannot be read and have no such name.

        A field that cannot be read remains as bytes if it is in a oneof, since a later member of a
        oneof replaces the earlier ones.
        """
        fields = []
        for each in self.fields:
            if not each.fault or each.name in names:
                fields.append(each)
            elif each.oneof is not None and not each.repeated:
                fields.append(replace(each, field_type="bytes", message=None, symbols=(), fault=""))
        return replace(self, fields=tuple(fields), fault="")


@dataclass(frozen=True)
class DeclaredMessage:
    """A message type with its index path in its file: first the outer messages, then itself."""

    plan_name: ClassVar[str] = "declared_message"
    message: MessageType
    path: tuple[int, ...]


def parse_descriptor_set(content: bytes) -> list[FileDescriptorProto]:
    """Return the files of a descriptor set; raise DescriptorError for other bytes."""
    try:
        return list(FileDescriptorSet.FromString(content).file)
    except DecodeError:
        raise DescriptorError("not a descriptor set") from None


def load_message(files: Iterable[FileDescriptorProto], name: str) -> DeclaredMessage:
    """Return the message with a full name, such as "shop.Click".

    Raises DescriptorError.
    """
    descriptor_set = _DescriptorSet()
    for file in files:
        prefix = f"{file.package}." if file.package else ""
        for index, message in enumerate(file.message_type):
            descriptor_set.add_message(message, prefix, (index,), file.syntax or "proto2")
        for enum in file.enum_type:
            descriptor_set.add_enum(enum, prefix)
    if name not in descriptor_set.messages:
        known = ", ".join(sorted(descriptor_set.messages)[:20]) or "no messages"
        raise DescriptorError(f"unknown message {name!r}; the descriptor set has {known}")
    message = descriptor_set.message(name, ())
    if message.fault and not message.fields:
        raise DescriptorError(message.fault)
    return DeclaredMessage(message, descriptor_set.messages[name][1])


@dataclass
class _DescriptorSet:
    """The messages and enums of a descriptor set by full name."""

    messages: dict[str, tuple[Any, tuple[int, ...], str]] = field(default_factory=dict)
    enums: dict[str, Any] = field(default_factory=dict)

    def add_message(self, message: Any, prefix: str, path: tuple[int, ...], syntax: str) -> None:
        full_name = f"{prefix}{message.name}"
        self.messages[full_name] = (message, path, syntax)
        for index, inner in enumerate(message.nested_type):
            self.add_message(inner, f"{full_name}.", (*path, index), syntax)
        for enum in message.enum_type:
            self.add_enum(enum, f"{full_name}.")

    def add_enum(self, enum: Any, prefix: str) -> None:
        self.enums[f"{prefix}{enum.name}"] = enum

    def message(self, name: str, parents: tuple[str, ...]) -> MessageType:
        fault = self._message_fault(name, parents)
        if fault or name == TIMESTAMP:
            return MessageType(name, fault=fault)
        message, _, syntax = self.messages[name]
        fields = tuple(
            self._field(field, message, syntax, (*parents, name)) for field in message.field
        )
        faults = [field.fault for field in fields if field.fault]
        return MessageType(name, fields, message.options.map_entry, next(iter(faults), ""))

    def _message_fault(self, name: str, parents: tuple[str, ...]) -> str:
        if name in parents:
            return f"recursive message {name}"
        if name not in self.messages:
            return f"missing message {name}; run protoc with --include_imports"
        message, _, syntax = self.messages[name]
        if syntax not in ("proto2", "proto3"):
            return f"{name} has syntax {syntax}; supported are proto2 and proto3"
        return "" if message.field or name == TIMESTAMP else f"message {name} without fields"

    def _field(
        self, descriptor: Any, message: Any, syntax: str, parents: tuple[str, ...]
    ) -> ProtoField:
        field_type = FieldDescriptorProto.Type.Name(descriptor.type).removeprefix("TYPE_").lower()
        repeated = descriptor.label == FieldDescriptorProto.LABEL_REPEATED
        type_name = descriptor.type_name.removeprefix(".")
        inner = self.message(type_name, parents) if field_type == "message" else None
        fault = "" if inner is None else inner.fault
        if field_type == "group":
            fault = f"field {descriptor.name} is a group"
        has_presence = (
            field_type == "message" or syntax == "proto2" or descriptor.HasField("oneof_index")
        )
        is_map_entry = message.options.map_entry
        symbols: tuple[tuple[int, str], ...] = ()
        if field_type == "enum":
            if type_name in self.enums:
                declared = self.enums[type_name].value
                symbols = tuple((symbol.number, symbol.name) for symbol in declared)
            else:
                fault = f"missing enum {type_name}; run protoc with --include_imports"
        return ProtoField(
            name=descriptor.name,
            number=descriptor.number,
            field_type=field_type,
            repeated=repeated,
            has_presence=has_presence and not repeated and not is_map_entry,
            required=descriptor.label == FieldDescriptorProto.LABEL_REQUIRED,
            oneof=descriptor.oneof_index if descriptor.HasField("oneof_index") else None,
            symbols=symbols,
            message=inner,
            fault=fault,
        )


def spark_struct(message: MessageType) -> StructType:
    """Return the struct type of a message; raise DescriptorError if it cannot be read."""
    if message.fault:
        raise DescriptorError(message.fault)
    fields = [(field.name, _spark_field(field), field.has_presence) for field in message.fields]
    return StructType([StructField(*each) for each in fields])


def _spark_field(proto_field: ProtoField) -> DataType:
    value_type = spark_value(proto_field)
    if not proto_field.repeated:
        return value_type
    if proto_field.message is not None and proto_field.message.is_map_entry:
        assert isinstance(value_type, StructType)
        return MapType(value_type["key"].dataType, value_type["value"].dataType)
    return ArrayType(value_type, False)


def spark_value(proto_field: ProtoField) -> DataType:
    """Return the Spark type of one value of a field."""
    if proto_field.fault:
        raise DescriptorError(proto_field.fault)
    if proto_field.message is None:
        return _SPARK_TYPES[proto_field.field_type]
    is_timestamp = proto_field.message.name == TIMESTAMP
    return TimestampType() if is_timestamp else spark_struct(proto_field.message)


def message_name_at(file: FileDescriptorProto, path: Sequence[int]) -> str | None:
    """Return the full name of the message at an index path in a file, or None."""
    names = [file.package] if file.package else []
    messages: Sequence[Any] = file.message_type
    for index in path:
        if not 0 <= index < len(messages):
            return None
        names.append(messages[index].name)
        # The text does not declare the entries of a map as messages.
        messages = [each for each in messages[index].nested_type if not each.options.map_entry]
    return ".".join(names)
