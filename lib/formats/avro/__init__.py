"""Avro: schemas, resolved as the specification has it, and records decoded by arrays of values."""

from ._format import AvroFormat, avro_format

__all__ = ["AvroFormat", "avro_format"]
