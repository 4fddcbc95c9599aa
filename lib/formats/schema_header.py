"""JSON values with the header of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted_column
from ..errors import ArgumentError
from ._wire_header import HEADER_BYTES, NO_HEADER, WRONG_MAGIC
from .json import JsonFormat

_FULL_VALUE = "__tidegate_full_value"


def with_schema_header(value_format: JsonFormat) -> SchemaHeaderFormat:
    """Read JSON values with the header of a schema registry (Confluent wire format).

    The header is a zero byte and the id of a JSON Schema in four bytes; `value_format` reads the
    rest. The id is not looked up: columns and types are those of `value_format`.

    | value | reason of the dead letter |
    |---|---|
    | null (a tombstone) | as in `value_format` |
    | fewer than five bytes | "no schema header" |
    | a first byte other than 0, such as the brace of JSON without a header | "wrong magic byte" |
    | only a header; any other value | the reason of `value_format` |

    Raises:
        ArgumentError: at the call, unless `value_format` is a `json_format`.

    Source: Confluent, "Wire format".

    >>> from tidegate.formats import json_format
    >>> with_schema_header(json_format("page STRING, ms BIGINT")).schema.names
    ['page', 'ms']
    """
    if not isinstance(value_format, JsonFormat):
        raise ArgumentError(
            f"invalid value_format: {value_format!r}",
            "a json_format",
            "the argument registry of avro_format and protobuf_format",
        )
    return SchemaHeaderFormat(value_format)


def schema_id(value: Column) -> Column:
    """Return the id in the header of values; null for a value without a valid header."""
    digits = F.conv(F.hex(F.substring(value, 2, HEADER_BYTES - 1)), 16, 10)
    return F.when(_header_fault(value).isNull(), digits.cast("bigint"))


@dataclass(frozen=True)
class SchemaHeaderFormat:
    """The format that `with_schema_header` returns; see there for its rules."""

    plan_name: ClassVar[str] = "schema_header"
    value_format: JsonFormat
    required_columns: ClassVar[tuple[str, ...]] = ()

    @property
    def schema(self) -> StructType:
        """The record's fields."""
        return self.value_format.schema

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        decoded = self.value_format.decode(_strip_header(raw))
        bad = F.col("bad") | _header_fault(quoted_column(_FULL_VALUE)).isNotNull()
        return _restore_value(decoded.withColumn("bad", bad), [*raw.columns, "record", "bad"])

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        explained = self.value_format.explain_failures(_strip_header(dead_letters))
        reason = F.coalesce(_header_fault(quoted_column(_FULL_VALUE)), F.col("reason"))
        columns = [*dead_letters.columns, "reason"]
        return _restore_value(explained.withColumn("reason", reason), columns)


def _strip_header(raw: DataFrame) -> DataFrame:
    """Replace the value by its bytes after the header."""
    value = F.col("value")
    body = F.substring(value, HEADER_BYTES + 1, 2**31 - 1)
    return raw.withColumns(
        {_FULL_VALUE: value, "value": F.when(_header_fault(value).isNull(), body)}
    )


def _restore_value(stripped: DataFrame, columns: list[str]) -> DataFrame:
    return stripped.select(
        *[quoted_column(_FULL_VALUE if name == "value" else name).alias(name) for name in columns]
    )


def _header_fault(value: Column) -> Column:
    """Return the fault of the header of a value; null for a valid header and for a null."""
    magic = F.substring(value, 1, 1)
    return F.when((F.octet_length(value) > 0) & (magic != F.lit(b"\0")), WRONG_MAGIC).when(
        F.octet_length(value) < HEADER_BYTES, NO_HEADER
    )
