"""Avro records, decoded column by column with Avro's schema resolution."""

from ._avro_format import AvroFormat, avro_format
from ._connect_declaration import connect_declaration

__all__ = ["AvroFormat", "avro_format", "connect_declaration"]
