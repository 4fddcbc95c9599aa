"""What a format is: raw rows in, a record or the fact that there is none out."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


class Format(Protocol):
    """How the bytes of a value become typed fields, by Spark expressions alone.

    Both methods take and give DataFrames, batch or stream, with the raw rows' columns kept. No row
    is dropped and no row raises. Every row of a stream is decoded, so that must be quick; reasons
    are sought for bad rows alone."""

    @property
    def schema(self) -> StructType:
        """The record's fields."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `bad`, a boolean: the value could not be
        read."""

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`, a text, to rows that decode found bad."""
