"""The interface of formats: raw rows in, records or dead letters out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


class Format(Protocol):
    """Decodes the bytes of a Kafka record into typed fields, with Spark expressions.

    Both methods take and return a batch or streaming DataFrame, and preserve its columns and rows.
    Invalid values must not raise errors. `decode` runs for every row; `explain_failures` runs only
    for dead letters, so that it may be slower.

    An example that reads each value as UTF-8 text:

    >>> from pyspark.sql import functions as F
    >>> from pyspark.sql.types import StringType, StructField, StructType
    >>> class TextFormat:
    ...     schema = StructType([StructField("text", StringType())])
    ...     required_columns = ()
    ...
    ...     def decode(self, raw):
    ...         text = F.col("value").cast("string")
    ...         bad = F.coalesce(~F.is_valid_utf8(text), F.lit(True))
    ...         return raw.withColumns({"record": F.struct(text.alias("text")), "bad": bad})
    ...
    ...     def explain_failures(self, dead_letters):
    ...         return dead_letters.withColumn("reason", F.lit("invalid UTF-8"))
    >>> text_format: Format = TextFormat()
    """

    @property
    def schema(self) -> StructType:
        """The fields of a record."""

    @property
    def required_columns(self) -> Sequence[str]:
        """The Kafka columns that the format reads in addition to `value`.

        A format without this property receives all columns except `headers`, which cost time per
        row.
        """

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `bad`, whether the value is invalid.

        A format can add the flag `skipped` as well, for bad values that are not a record, such as a
        heartbeat: they are counted, and are not dead letters.
        """

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add the text column `reason` to rows that `decode` marked as bad."""


@runtime_checkable
class PartialFormat(Protocol):
    """A format of changes in which values can be missing that the row before has."""

    def passing_unavailable(self) -> Format:
        """Return the format for a sink that takes missing values from the row before.

        Otherwise such changes are bad.
        """


@runtime_checkable
class AmbiguousFormat(Protocol):
    """A format of values in which a null and the default of its type can be the same bytes."""

    def checking_nulls(self, columns: StructType, path: str) -> Format:
        """Return the format in which such values are bad in these columns only.

        path: that of the struct with the columns in a record; "" for the record itself.
        """
