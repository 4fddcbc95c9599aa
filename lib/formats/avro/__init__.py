"""Avro records, decoded column by column with Avro's schema resolution."""

from ._avro_format import AvroFormat, avro_format

__all__ = ["AvroFormat", "avro_format"]
