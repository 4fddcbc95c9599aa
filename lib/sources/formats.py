"""What a format is: raw rows in, a record or the reason why there is none out."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


class Format(Protocol):
    """How the bytes of a value become typed fields, by Spark expressions alone.

    Both methods take and give DataFrames, batch or stream, with the raw rows' columns kept. No row is dropped and no
    row raises: what can't be read has a reason.
    """

    @property
    def schema(self) -> StructType:
        """The record's fields."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `reason`, a text that is null where the record is good."""

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Say more in `reason` of rows that decode found bad; runs over the bad rows only, so it may be slow."""
