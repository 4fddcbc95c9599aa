"""What a format is: raw rows come in; a record, or the fact that there is none, comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


class Format(Protocol):
    """How the bytes of a value become typed fields, by Spark expressions alone.

    Both methods take and return DataFrames, batch or stream, and keep the columns of the raw rows.
    No row is dropped, and none raises an error. Every row of a stream is decoded, so that `decode`
    must be quick; `diagnose` is asked about bad rows alone.
    """

    @property
    def schema(self) -> StructType:
        """The record's fields."""

    @property
    def needs(self) -> Sequence[str]:
        """Kafka's columns that are read beside the value; raw rows need have no others.

        To a format that does not say so all are given but the headers, which take Kafka's reader
        time for each row.
        """

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `bad`: whether the value could not be read."""

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`, a text, to rows that `decode` found bad."""
