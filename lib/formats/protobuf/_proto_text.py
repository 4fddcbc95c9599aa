"""Parser of .proto files, whose text a schema registry stores, into file descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from ..registered_schemas import RegisteredSchema

DATE = "google.type.Date"
TIME_OF_DAY = "google.type.TimeOfDay"
DECIMAL = "confluent.type.Decimal"
VARIABLE_DECIMAL = "VariableScaleDecimal"
"""The last part of the name of Debezium's message."""
WRAPPERS = tuple(wrappers_pb2.DESCRIPTOR.message_types_by_name)
"""The names of the messages of a single value in the package google.protobuf."""
_GOOGLE_TYPES = """
syntax = "proto3";
package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
"""
_CONFLUENT_TYPES = """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_WELL_KNOWN = (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\s+|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|-?[\w.]+|.)""",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_MESSAGE, _ENUM = FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_ENUM
_CLOSING = {"{": "}", "[": "]", "<": ">", "(": ")"}
_SKIPPED = ("option", "reserved", "extensions", "extend", "service", "import")


class ProtoTextError(ValueError):
    """A text is not a .proto file."""


def parse_proto(text: str, name: str = "") -> FileDescriptorProto:
    """Return the messages and enums of a .proto file; other statements are ignored.

    The options of a field are one uninterpreted option, with the tokens of the text. The types of
    fields that are messages or enums are as the file spells them, and have no kind:
    `resolve_types` finds them.

    Raises ProtoTextError.

    >>> file = parse_proto('syntax = "proto3"; message Click { string page = 1; }')
    >>> file.message_type[0].field[0].name
    'page'
    """
    tokens = [match["token"] for match in _TOKEN.finditer(text) if match["token"]]
    try:
        return _Parser(tokens).read_file(name)
    except RecursionError:
        raise ProtoTextError("too many levels of nesting") from None


def parse_registered(schema: RegisteredSchema) -> list[FileDescriptorProto]:
    """Return the file of a schema, with those that it references or can import.

    Their types are resolved. Raises ProtoTextError.
    """
    references = [parse_proto(text, name) for name, text in schema.references.items()]
    files = [parse_proto(schema.text), *references, *_imported_files()]
    resolve_types(files)
    return files


@cache
def _imported_files() -> list[FileDescriptorProto]:
    """Return the files that are not in a registry."""
    files = [parse_proto(_GOOGLE_TYPES), parse_proto(_CONFLUENT_TYPES)]
    for module in _WELL_KNOWN:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def resolve_types(files: list[FileDescriptorProto]) -> None:
    """Set the full names and the kinds of the types of fields, as the scopes of a file find them.

    A type that no file declares keeps its name, as that of a message.
    """
    declared = declared_types(files)
    for file in files:
        scope = f".{file.package}" if file.package else ""
        for message in file.message_type:
            _resolve_message(message, f"{scope}.{message.name}", declared)


def declared_types(
    files: Iterable[FileDescriptorProto],
) -> dict[str, DescriptorProto | EnumDescriptorProto]:
    """Return the messages and enums of files by their full names, which begin with a dot."""
    found: dict[str, DescriptorProto | EnumDescriptorProto] = {}

    def add(scope: str, messages: Iterable[DescriptorProto], enums: Any) -> None:
        found.update({f"{scope}.{enum.name}": enum for enum in enums})
        for message in messages:
            found[f"{scope}.{message.name}"] = message
            add(f"{scope}.{message.name}", message.nested_type, message.enum_type)

    for file in files:
        add(f".{file.package}" if file.package else "", file.message_type, file.enum_type)
    return found


def _resolve_message(message: DescriptorProto, scope: str, declared: Mapping[str, Any]) -> None:
    for each in message.field:
        if not each.HasField("type"):
            each.type_name = _resolve_name(each.type_name, scope, declared)
            is_enum = isinstance(declared.get(each.type_name), EnumDescriptorProto)
            each.type = _ENUM if is_enum else _MESSAGE
    for inner in message.nested_type:
        _resolve_message(inner, f"{scope}.{inner.name}", declared)


def _resolve_name(name: str, scope: str, declared: Mapping[str, Any]) -> str:
    """Return the full name of a type: that of the innermost scope that declares it."""
    if name.startswith("."):
        return name
    while scope and f"{scope}.{name}" not in declared:
        scope = scope.rpartition(".")[0]
    return f"{scope}.{name}"


@dataclass
class _Parser:
    tokens: list[str]
    position: int = 0
    syntax: str = field(default="proto2", init=False)

    def read_file(self, name: str) -> FileDescriptorProto:
        file = FileDescriptorProto(name=name)
        while self.position < len(self.tokens):
            word = self._next()
            if word in ("syntax", "edition"):
                self._expect("=")
                text = self._next().strip("\"'")
                self.syntax = text if word == "syntax" else "editions"
                self._expect(";")
            elif word == "package":
                file.package = "".join(self._until(";"))
            elif word == "message":
                self._read_message(file.message_type.add(name=self._read_name()))
            elif word == "enum":
                self._read_enum(file.enum_type.add(name=self._read_name()))
            elif word != ";":
                self._skip_statement()
        file.syntax = self.syntax
        return file

    def _read_message(self, message: DescriptorProto) -> None:
        self._expect("{")
        # The oneof of a field that is `optional` in proto3 comes after those of the file.
        optional: list[FieldDescriptorProto] = []
        while (word := self._next()) != "}":
            if word == "message":
                self._read_message(message.nested_type.add(name=self._read_name()))
            elif word == "enum":
                self._read_enum(message.enum_type.add(name=self._read_name()))
            elif word == "oneof":
                self._read_oneof(message)
            elif word in _SKIPPED:
                self._skip_statement()
            elif word != ";":
                added = self._read_field(message, word)
                if self.syntax == "proto3" and word == "optional":
                    optional.append(added)
        for each in optional:
            each.proto3_optional = True
            each.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{each.name}")

    def _read_oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._read_name())
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._skip_statement()
            elif word != ";":
                self._read_field(message, word).oneof_index = index

    def _read_field(self, message: DescriptorProto, word: str) -> FieldDescriptorProto:
        """Read a field whose first word has been read."""
        added = message.field.add(label=_LABELS.get(word, FieldDescriptorProto.LABEL_OPTIONAL))
        type_name = self._next() if word in _LABELS else word
        if type_name == "map" and self._peek() == "<":
            return self._read_map(message, added)
        # A name can be continued in the next token, after a comment or a space.
        while type_name.endswith(".") or self._peek().startswith("."):
            type_name += self._next()
        added.name = self._read_name()
        if type_name == "group":
            added.type = FieldDescriptorProto.TYPE_GROUP
        else:
            _set_type(added, type_name)
        self._read_number(added)
        return added

    def _read_map(
        self, message: DescriptorProto, added: FieldDescriptorProto
    ) -> FieldDescriptorProto:
        self._expect("<")
        key_type = self._next()
        self._expect(",")
        value_type = "".join(self._until(">"))
        added.name = self._read_name()
        camel_case = "".join(part[:1].upper() + part[1:] for part in added.name.split("_"))
        entry = message.nested_type.add(name=f"{camel_case}Entry")
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate([("key", key_type), ("value", value_type)], 1):
            part = entry.field.add(
                name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
            _set_type(part, type_name)
        added.label = FieldDescriptorProto.LABEL_REPEATED
        added.type_name = entry.name
        self._read_number(added)
        return added

    def _read_number(self, added: FieldDescriptorProto) -> None:
        """Read the number of a field, and the rest of its statement."""
        self._expect("=")
        added.number = self._read_integer()
        start = self.position
        self._skip_statement()
        tokens = self.tokens[start : self.position - 1]
        if tokens[:1] == ["["]:
            added.options.uninterpreted_option.add(aggregate_value=" ".join(tokens))

    def _read_enum(self, enum: EnumDescriptorProto) -> None:
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._peek() != "=":
                self._skip_statement()
            elif word != ";":
                self._expect("=")
                enum.value.add(name=word, number=self._read_integer())
                self._skip_statement()

    def _read_name(self) -> str:
        name = self._next()
        if not _NAME.fullmatch(name):
            raise ProtoTextError(f"invalid name {name!r}")
        return name

    def _read_integer(self) -> int:
        text = self._next()
        if text == "-":
            text += self._next()
        try:
            return int(text, 8 if re.fullmatch(r"-?0[0-7]+", text) else 0)
        except ValueError:
            raise ProtoTextError(f"invalid number {text!r}") from None

    def _skip_statement(self) -> None:
        """Skip the rest of a statement, up to its semicolon or the end of its block."""
        while (token := self._next()) != ";":
            if token in _CLOSING:
                self._skip_block(token)
                if token == "{":
                    return

    def _skip_block(self, opening: str) -> None:
        while (token := self._next()) != _CLOSING[opening]:
            if token in _CLOSING:
                self._skip_block(token)

    def _until(self, end: str) -> list[str]:
        tokens = []
        while (token := self._next()) != end:
            tokens.append(token)
        return tokens

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _next(self) -> str:
        if self.position == len(self.tokens):
            raise ProtoTextError("unexpected end of the file")
        self.position += 1
        return self.tokens[self.position - 1]

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise ProtoTextError(f"expected {token!r}, found {found!r}")


def _set_type(added: FieldDescriptorProto, type_name: str) -> None:
    if type_name in _SCALARS:
        added.type = _SCALARS[type_name]
    else:
        added.type_name = type_name
