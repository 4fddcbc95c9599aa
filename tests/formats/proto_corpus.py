"""A message with fields of every kind, drawn at random by Protobuf's own library."""

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
_WHOLE = {
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
    both = file.message_type.add(name="All")
    both.oneof_decl.add(name="choice")
    for at, name in enumerate(SCALARS, 1):
        _add(both, f"one_{name}", at, name)
        _add(both, f"many_{name}", 20 + at, name, repeated=True)
    _add(both, "kind", 50, "enum", type_name=".shop.Kind")
    _add(both, "kinds", 51, "enum", repeated=True, type_name=".shop.Kind")
    _add(both, "inner", 52, "message", type_name=".shop.Inner")
    _add(both, "inners", 53, "message", repeated=True, type_name=".shop.Inner")
    _add(both, "at", 54, "message", type_name=".google.protobuf.Timestamp")
    _add(both, "left", 2_000, "int32", oneof_index=0)
    _add(both, "right", 2_001, "string", oneof_index=0)
    entry = both.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, "string")
    _add(entry, "value", 2, "message", type_name=".shop.Inner")
    _add(both, "counts", 60, "message", repeated=True, type_name=".shop.All.CountsEntry")
    both.oneof_decl.add(name="_maybe")
    _add(both, "maybe", 61, "int64", oneof_index=1, proto3_optional=True)
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


def drawn(chance: random.Random) -> Any:
    """Return a message of which some fields are set."""
    found = All()
    for name in SCALARS:
        if chance.random() < 0.4:
            setattr(found, f"one_{name}", _scalar(chance, name))
        if chance.random() < 0.3:
            getattr(found, f"many_{name}").extend(
                _scalar(chance, name) for _ in range(chance.choice([1, 2, 5]))
            )
    if chance.random() < 0.5:
        found.kind = chance.choice([0, 1, 5, -3])
        found.kinds.extend(chance.choices([0, 1, 5, -3], k=3))
    if chance.random() < 0.5:
        found.inner.id = chance.choice([0, 7])
        found.inners.add(id=3, tags=["a", ""])
        found.inners.add()
    if chance.random() < 0.5:
        found.at.seconds = chance.choice([0, -1, 1_714_564_800, -62_135_596_800])
        found.at.nanos = chance.choice([0, 1_999, 999_999_999])
    if chance.random() < 0.5:
        found.left = 0
    elif chance.random() < 0.5:
        found.right = ""
    for key in chance.sample(["", "a", "é"], k=chance.choice([0, 1, 3])):
        found.counts[key].id = chance.choice([0, 9])
    if chance.random() < 0.5:
        found.maybe = chance.choice([0, -5])
    return found


def _scalar(chance: random.Random, kind: str) -> Any:
    if kind in _WHOLE:
        return chance.choice(_WHOLE[kind])
    if kind == "bool":
        return chance.random() < 0.5
    if kind in ("double", "float"):
        return chance.choice([0.0, -1.5, 2.0**60, float("inf")])
    text = chance.choice(["", "a", "é\U0001f600", "x" * 200])
    return text if kind == "string" else text.encode("utf-16")


def shown(message: Any) -> dict[str, Any]:
    """Return a message as the rows have it."""
    found: dict[str, Any] = {}
    for name in SCALARS:
        found[f"one_{name}"] = getattr(message, f"one_{name}")
        found[f"many_{name}"] = list(getattr(message, f"many_{name}"))
    names = {0: "NONE", 1: "VIEW", 5: "BUY", -3: "ODD"}
    found["kind"] = names[message.kind]
    found["kinds"] = [names[each] for each in message.kinds]
    found["inner"] = _inner(message.inner) if message.HasField("inner") else None
    found["inners"] = [_inner(each) for each in message.inners]
    at = message.at.seconds * 1_000_000 + message.at.nanos // 1_000
    found["at"] = at if message.HasField("at") else None
    for name in ("left", "right", "maybe"):
        found[name] = getattr(message, name) if message.HasField(name) else None
    found["counts"] = {key: _inner(each) for key, each in message.counts.items()}
    return found


def _inner(message: Any) -> dict[str, Any]:
    return {"id": message.id, "tags": list(message.tags)}
