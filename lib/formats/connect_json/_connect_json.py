"""The format of Kafka Connect's JsonConverter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from ...arrow_kernels import arrow_udf
from ...columns import require_choice
from .._casts import nullable_type
from ._reader import ConnectJsonReader
from ._values import Decimals, Encodings, Timestamps

UNAVAILABLE = "__tidegate_unavailable"
"""The column with the paths of the values that were not sent."""
_READ = "__tidegate_read"


@dataclass(frozen=True)
class ConnectJson:
    """Makes the format of JSON objects that Kafka Connect's JsonConverter writes.

    A value with a schema part, {"schema": ..., "payload": ...}, is decoded by it; otherwise the
    arguments say how values are encoded.

    decimals: "string" for decimals as text, "precise" for base64 of their bytes with the scale of
        the column, "double" for numbers. None accepts what can only be one of them.
    timestamps: the unit of timestamps that are numbers. None rejects them.
    placeholder: the text that stands for a value that was not sent; such a value is null.

    Raises ArgumentError.
    """

    plan_name: ClassVar[str] = "connect_json_values"
    decimals: Decimals | None = None
    timestamps: Timestamps | None = None
    placeholder: str | None = None

    def __post_init__(self) -> None:
        if self.decimals is not None:
            require_choice(self.decimals, "decimals", Decimals)
        if self.timestamps is not None:
            require_choice(self.timestamps, "timestamps", Timestamps)

    def __call__(self, schema: StructType) -> ConnectJsonFormat:
        """Return the format of objects with these fields."""
        encodings = Encodings(self.decimals, self.timestamps, self.placeholder)
        return ConnectJsonFormat(schema, encodings)


@dataclass(frozen=True)
class ConnectJsonFormat:
    """The format that `ConnectJson` makes; see there for its rules."""

    plan_name: ClassVar[str] = "connect_json"
    schema: StructType
    encodings: Encodings
    required_columns: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, `bad` and the paths of the values that were not sent."""
        record_type = nullable_type(self.schema)
        result_type = StructType(
            [
                StructField("record", record_type),
                StructField("unavailable", ArrayType(StringType())),
            ]
        )
        read = F.col(_READ)
        columns = {
            "record": read["record"],
            "bad": read["record"].isNull(),
            UNAVAILABLE: read["unavailable"],
        }
        decoded = raw.withColumn(_READ, self._read_column(result_type, _records))
        return decoded.withColumns(columns).drop(_READ)

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        return dead_letters.withColumn("reason", self._read_column(StringType(), _reasons))

    def _read_column(self, result_type: DataType, select: Any) -> Column:
        reader = ConnectJsonReader(self.schema, self.encodings)

        def read(values: pa.Array) -> pa.Array:
            return select(*reader.read(values))

        return arrow_udf(read, result_type, nondeterministic=True)(F.col("value"))


def _records(records: Any, unavailable: Any, _: Any) -> Any:
    return pa.StructArray.from_arrays([records, unavailable], ["record", "unavailable"])


def _reasons(_: Any, __: Any, reasons: Any) -> Any:
    return reasons
