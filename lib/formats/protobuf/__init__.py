"""Protobuf messages, decoded column by column from a descriptor set."""

from ._protobuf_format import protobuf_format

__all__ = ["protobuf_format"]
