"""Protobuf: descriptors, and messages decoded by arrays of values."""

from ._format import protobuf_format

__all__ = ["protobuf_format"]
