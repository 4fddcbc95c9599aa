"""The parser of .proto files returns the descriptors that protoc returns."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import google.rpc
import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from tidegate.formats.protobuf._proto_text import ProtoTextError, parse_proto, resolve_types

PROTOS = Path(next(iter(google.rpc.__path__))).parents[1]
"""The folder of googleapis-common-protos, which has .proto files and what protoc made of them."""
IMPORTED = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context"),
    *("struct", "timestamp", "type", "wrappers"),
)


def descriptor(module: str) -> FileDescriptorProto:
    file = FileDescriptorProto()
    import_module(module).DESCRIPTOR.CopyToProto(file)
    return file


def without_options(message: DescriptorProto) -> None:
    for each in message.field:
        for name in ("options", "json_name", "default_value"):
            each.ClearField(name)
    if not message.options.map_entry:
        message.ClearField("options")
    for name in ("extension", "extension_range", "reserved_range", "reserved_name"):
        message.ClearField(name)
    for enum in message.enum_type:
        enum_without_options(enum)
    for inner in message.nested_type:
        without_options(inner)


def enum_without_options(enum: EnumDescriptorProto) -> None:
    for name in ("options", "reserved_range", "reserved_name"):
        enum.ClearField(name)
    for value in enum.value:
        value.ClearField("options")


def test_public_files_have_the_descriptors_of_protoc() -> None:
    paths = sorted(PROTOS.glob("google/**/*.proto"))
    assert len(paths) > 50
    parsed = [parse_proto(path.read_text(encoding="utf-8")) for path in paths]
    imported = [descriptor(f"google.protobuf.{name}_pb2") for name in IMPORTED]
    resolve_types([*parsed, *imported])
    for path, file in zip(paths, parsed, strict=True):
        module = ".".join(path.relative_to(PROTOS).with_suffix("").parts)
        expected = descriptor(f"{module}_pb2")
        assert file.package == expected.package
        for of_file in (file, expected):
            for message in of_file.message_type:
                without_options(message)
            for enum in of_file.enum_type:
                enum_without_options(enum)
        assert list(file.message_type) == list(expected.message_type), path
        assert list(file.enum_type) == list(expected.enum_type), path


def test_oneofs_maps_groups_comments_and_numbers_are_read() -> None:
    text = """
    syntax = "proto2"; package a.b; import public "x.proto";
    option (c) = { d: "}" e { f: 1 } };
    message M { // a comment }
      required group G = 0x10 { optional int32 x = 1; }
      oneof choice { option y = 1; int32 a = 1; N n = 2 [deprecated = true, (o) = { p: [1] }]; }
      map<string, .a.b.N> counts = 010;
      extensions 100 to max; reserved 3, 4 to 5; reserved "old";
      optional b.N far = 20 [default = "a;b"];
      enum E { option allow_alias = true; ZERO = 0; LESS = -1; reserved 7; }
      repeated E es = 21 [packed = true];
    }
    message N { optional M /* inside */ m = 1; }
    service S { rpc Get (M) returns (N) { option (h) = { get: "/" }; } }
    extend M { optional int32 z = 100; }
    """
    file = parse_proto(text)
    resolve_types([file])
    fields = [
        (each.name, each.number, FieldDescriptorProto.Type.Name(each.type), each.type_name)
        for each in file.message_type[0].field
    ]
    assert fields == [
        ("G", 16, "TYPE_GROUP", ""),
        ("a", 1, "TYPE_INT32", ""),
        ("n", 2, "TYPE_MESSAGE", ".a.b.N"),
        ("counts", 8, "TYPE_MESSAGE", ".a.b.M.CountsEntry"),
        ("far", 20, "TYPE_MESSAGE", ".a.b.N"),
        ("es", 21, "TYPE_ENUM", ".a.b.M.E"),
    ]
    assert [each.name for each in file.message_type] == ["M", "N"]
    assert [(each.name, each.number) for each in file.message_type[0].enum_type[0].value] == [
        ("ZERO", 0),
        ("LESS", -1),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message M { int32 a = 1", "unexpected end of the file"),
        ("message { int32 a = 1; }", "invalid name '{'"),
        ("message M { int32 a; }", "expected '=', found ';'"),
        ("message M { int32 a = x; }", "invalid number 'x'"),
        ("message M " + "{ message M " * 5_000, "too many levels of nesting"),
    ],
)
def test_other_texts_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ProtoTextError, match=problem):
        parse_proto(text)


def test_a_name_is_that_of_the_innermost_scope() -> None:
    text = "package p; message A { message B { optional A x = 1; message A {} } optional B y = 1; }"
    file: Any = parse_proto(text)
    resolve_types([file])
    assert file.message_type[0].nested_type[0].field[0].type_name == ".p.A.B.A"
    assert file.message_type[0].field[0].type_name == ".p.A.B"
