"""The format that leaves the bytes of a record as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType


@dataclass(frozen=True)
class RecordBytes:
    """Passes on the value of each record, also of a tombstone, for a sink that decodes it.

    >>> RecordBytes().schema.simpleString()
    'struct<value:binary>'
    """

    plan_name: ClassVar[str] = "record_bytes"
    schema: ClassVar[StructType] = StructType([StructField("value", BinaryType())])
    required_columns: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, and `bad`, which is false for every record."""
        return raw.withColumns({"record": F.struct("value"), "bad": F.lit(False)})

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`, which is null."""
        return dead_letters.withColumn("reason", F.lit(None).cast("string"))
