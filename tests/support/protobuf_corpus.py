"""Random messages with fields of every type, built with the Protobuf library."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
)
_SIGNED_32 = (0, 1, -1, 300, 2**31 - 1, -(2**31))
_SIGNED_64 = (0, 1, -1, 300, 2**63 - 1, -(2**63))
_INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _SIGNED_32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _SIGNED_64),
    **dict.fromkeys(("uint32", "fixed32"), (0, 1, 300, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 1, 300, 2**64 - 1)),
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="all.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    kind = file.enum_type.add(name="Kind")
    for number, name in ((0, "NONE"), (1, "VIEW"), (5, "BUY"), (-3, "ODD")):
        kind.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    _add(inner, "id", 1, "int32")
    _add(inner, "tags", 2, "string", repeated=True)
    message = file.message_type.add(name="All")
    message.oneof_decl.add(name="choice")
    for number, name in enumerate(SCALARS, 1):
        _add(message, f"one_{name}", number, name)
        _add(message, f"many_{name}", 20 + number, name, repeated=True)
    _add(message, "kind", 50, "enum", type_name=".shop.Kind")
    _add(message, "kinds", 51, "enum", repeated=True, type_name=".shop.Kind")
    _add(message, "inner", 52, "message", type_name=".shop.Inner")
    _add(message, "inners", 53, "message", repeated=True, type_name=".shop.Inner")
    _add(message, "at", 54, "message", type_name=".google.protobuf.Timestamp")
    _add(message, "left", 2_000, "int32", oneof_index=0)
    _add(message, "right", 2_001, "string", oneof_index=0)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, "string")
    _add(entry, "value", 2, "message", type_name=".shop.Inner")
    _add(message, "counts", 60, "message", repeated=True, type_name=".shop.All.CountsEntry")
    message.oneof_decl.add(name="_maybe")
    _add(message, "maybe", 61, "int64", oneof_index=1, proto3_optional=True)
    return file


def _add(
    message: Any, name: str, number: int, kind: str, *, repeated: bool = False, **more: Any
) -> None:
    message.field.add(
        name=name,
        number=number,
        type=_FIELD.Type.Value(f"TYPE_{kind.upper()}"),
        label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
        **more,
    )


FILE = _file()
_TIME = descriptor_pb2.FileDescriptorProto()
timestamp_pb2.DESCRIPTOR.CopyToProto(_TIME)
DESCRIPTORS = descriptor_pb2.FileDescriptorSet(file=[_TIME, FILE]).SerializeToString()
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_TIME)
_POOL.Add(FILE)
All: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("shop.All"))
Inner: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("shop.Inner"))


def random_message(rng: random.Random) -> Any:
    """Return a message with a random selection of fields."""
    message = All()
    for name in SCALARS:
        if rng.random() < 0.4:
            setattr(message, f"one_{name}", _scalar(rng, name))
        if rng.random() < 0.3:
            getattr(message, f"many_{name}").extend(
                _scalar(rng, name) for _ in range(rng.choice([1, 2, 5]))
            )
    if rng.random() < 0.5:
        message.kind = rng.choice([0, 1, 5, -3])
        message.kinds.extend(rng.choices([0, 1, 5, -3], k=3))
    if rng.random() < 0.5:
        message.inner.id = rng.choice([0, 7])
        message.inners.add(id=3, tags=["a", ""])
        message.inners.add()
    if rng.random() < 0.5:
        message.at.seconds = rng.choice([0, -1, 1_714_564_800, -62_135_596_800])
        message.at.nanos = rng.choice([0, 1_999, 999_999_999])
    if rng.random() < 0.5:
        message.left = 0
    elif rng.random() < 0.5:
        message.right = ""
    for key in rng.sample(["", "a", "é"], k=rng.choice([0, 1, 3])):
        message.counts[key].id = rng.choice([0, 9])
    if rng.random() < 0.5:
        message.maybe = rng.choice([0, -5])
    return message


def _scalar(rng: random.Random, kind: str) -> Any:
    if kind in _INTEGERS:
        return rng.choice(_INTEGERS[kind])
    if kind == "bool":
        return rng.random() < 0.5
    if kind in ("double", "float"):
        return rng.choice([0.0, -1.5, 2.0**60, float("inf")])
    text = rng.choice(["", "a", "é\U0001f600", "x" * 200])
    return text if kind == "string" else text.encode("utf-16")


def to_row(message: Any) -> dict[str, Any]:
    """Return a message as the expected row."""
    row: dict[str, Any] = {}
    for name in SCALARS:
        row[f"one_{name}"] = getattr(message, f"one_{name}")
        row[f"many_{name}"] = list(getattr(message, f"many_{name}"))
    names = {0: "NONE", 1: "VIEW", 5: "BUY", -3: "ODD"}
    row["kind"] = names[message.kind]
    row["kinds"] = [names[number] for number in message.kinds]
    row["inner"] = _inner(message.inner) if message.HasField("inner") else None
    row["inners"] = [_inner(inner) for inner in message.inners]
    at = message.at.seconds * 1_000_000 + message.at.nanos // 1_000
    row["at"] = at if message.HasField("at") else None
    for name in ("left", "right", "maybe"):
        row[name] = getattr(message, name) if message.HasField(name) else None
    row["counts"] = {key: _inner(inner) for key, inner in message.counts.items()}
    return row


def _inner(message: Any) -> dict[str, Any]:
    return {"id": message.id, "tags": list(message.tags)}
