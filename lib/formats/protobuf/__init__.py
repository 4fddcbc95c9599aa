"""Protobuf messages, decoded column by column by a descriptor set or by registered schemas."""

from ._connect_protobuf import connect_protobuf_format
from ._protobuf_declaration import protobuf_declaration
from ._protobuf_format import protobuf_format

__all__ = ["connect_protobuf_format", "protobuf_declaration", "protobuf_format"]
