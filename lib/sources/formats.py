"""What a format is: raw rows in, a record or the reason why there is none out."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


class Format(Protocol):
    """How the bytes of a value become typed fields, by Spark expressions alone."""

    @property
    def schema(self) -> StructType:
        """The record's fields."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `reason`, null where the record is good."""
