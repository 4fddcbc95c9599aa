"""JSON values with a declared schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...arrow_kernels import arrow_udf
from ...columns import as_schema, require_choice
from ...errors import ColumnError
from .._arrow.decode_udf import Tombstones
from .._casts import does_not_fit, narrow_value, nullable_type
from ._arrow_reader import arrow_json_reader
from ._spark_reader import (
    CORRUPT_COLUMN,
    dead_letter_reason,
    has_lone_surrogate,
    has_odd_time,
    has_times,
    is_wrongly_accepted,
    parse_object,
    required_fields,
    times_as_text,
)

Parser = Literal["arrow", "spark"]

_PARSED = "__tidegate_parsed"
_FAULTY = "__tidegate_faulty"
_ARROW_RECORD = "__tidegate_arrow_record"
_SPARK_FIELDS = "__tidegate_spark_fields"
_TIME_TEXTS = "__tidegate_times"


def json_format(
    schema: str | StructType,
    *,
    tombstones: Tombstones = "dead",
    parser: Parser = "arrow",
) -> JsonFormat:
    """Read each value as one JSON object (RFC 8259, UTF-8) of this schema.

    Field names are case-sensitive. A field may be missing or null unless it is NOT NULL; NOT NULL
    is checked through structs, but not inside arrays and maps. Fields that the schema does not name
    are ignored, but they must be well-formed. If a field occurs twice, its last value wins.

    | column type | accepted JSON |
    |---|---|
    | STRING | text; a number or an object becomes its text |
    | DATE | text such as "2026-03-02" |
    | TIMESTAMP | ISO 8601 text that begins with a date, or integer seconds since 1970 |
    | DECIMAL | a number with at most the declared scale; with precision 38 it is rounded |

    A TIMESTAMP without an offset is UTC; with an offset, it must have seconds. Digits beyond
    microseconds are dropped. To read epoch milliseconds, declare BIGINT and convert them.

    | value | reason of the dead letter |
    |---|---|
    | null (a tombstone) | "null value"; with tombstones="row" a valid row of nulls |
    | no bytes, or only white space | "empty value" |
    | bytes that are not UTF-8 | "invalid UTF-8" |
    | array, number, text, null, or a byte-order mark before the object | "not a JSON object" |
    | truncated object, unquoted or single-quoted names, NaN, comments | "malformed JSON" |
    | more than 998 levels of nesting (1000 for arrays only) | "malformed JSON" |
    | text after the object, a second object | "text after the JSON object" |
    | text for a number, number out of range, fraction for an integer | "wrong type: <fields>" |
    | more digits than a DECIMAL's scale | "wrong type: <fields>" |
    | invalid date, or a date outside the years 1 to 9999 | "wrong type: <fields>" |
    | time without a complete date: "05:00", "2026", "2026-03" | "wrong type: <fields>" |
    | escaped half of a surrogate pair in the text of a field | "lone surrogate" |
    | duplicate key in a MAP | "wrong type: <fields>" |
    | NOT NULL field that is missing or null | "missing field: <fields>" |

    Arrow's parser reads the values of a batch together; Spark's parser reads those that remain, one
    by one, and all values of schemas with maps, with TIMESTAMP_NTZ, or with dates, timestamps or
    NOT NULL inside nested types. Both produce identical rows; parser="spark" uses only Spark's
    parser, which is slower.

    Args:
        schema: the fields of a record, as DDL text or StructType.
        tombstones: whether a null value is a dead letter or a row.
        parser: the parser to start with.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> clicks = json_format("page STRING NOT NULL, ms BIGINT")
    >>> clicks.schema.names
    ['page', 'ms']
    """
    record_schema = as_schema(schema)
    lowered = [name.lower() for name in record_schema.fieldNames()]
    duplicates = sorted({name for name in lowered if lowered.count(name) > 1})
    if duplicates:
        raise ColumnError(
            f"duplicate fields in schema: {', '.join(duplicates)}",
            "names that differ by more than case",
        )
    require_choice(tombstones, "tombstones", Tombstones)
    require_choice(parser, "parser", Parser)
    return JsonFormat(record_schema, tombstones, parser)


@dataclass(frozen=True)
class JsonFormat:
    """The format that `json_format` returns; see there for its rules."""

    plan_name: ClassVar[str] = "json"
    schema: StructType
    tombstones: Tombstones = "dead"
    parser: Parser = "arrow"
    required_columns: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        reader = arrow_json_reader(self.schema) if self.parser == "arrow" else None
        if reader is None:
            decoded = raw.withColumns(self._spark_columns())
            added_columns = {"record": self._record(F.col), "bad": self._is_bad(F.col)}
            return decoded.withColumns(added_columns).drop(_PARSED, _FAULTY, _TIME_TEXTS)
        read = arrow_udf(reader.read, nullable_type(self.schema), nondeterministic=True)
        spark_fields, added_columns = self._spark_fallback
        decoded = raw.withColumn(_ARROW_RECORD, read(F.col("value")))
        decoded = decoded.withColumn(_SPARK_FIELDS, spark_fields).withColumns(added_columns)
        return decoded.drop(_ARROW_RECORD, _SPARK_FIELDS)

    @cached_property
    def _spark_fallback(self) -> tuple[Column, dict[str, Column]]:
        """The fields that Spark's parser reads where Arrow's did not, and the columns to add.

        Cached, because building these columns takes some thousand calls to the JVM, longer than a
        small batch.
        """
        is_unread = F.col(_ARROW_RECORD).isNull()
        # The condition skips Spark's parser for values that Arrow's parser has read.
        spark_fields = F.when(is_unread, _to_struct(self._spark_columns()))
        spark_field = F.col(_SPARK_FIELDS).getField
        record = F.when(is_unread, self._record(spark_field)).otherwise(F.col(_ARROW_RECORD))
        # Spark would push a filter on the fields below the parser, where it fails on null records.
        # It pushes no filter through a nondeterministic column, which spark_partition_id() is.
        bad = is_unread & self._is_bad(spark_field) & (F.spark_partition_id() >= 0)
        return spark_fields, {"record": record, "bad": bad}

    def _record(self, spark_column: Callable[[str], Column]) -> Column:
        parsed = spark_column(_PARSED)
        return _to_struct(
            {
                field.name: narrow_value(parsed.getField(field.name), field.dataType)
                for field in self.schema
            }
        )

    def _spark_columns(self) -> dict[str, Column]:
        """Return the fields that Spark parses, and the checks that need the text."""
        value = F.col("value")
        text = value.cast("string")
        columns = {
            _PARSED: parse_object(text, self.schema),
            _FAULTY: is_wrongly_accepted(value) | has_lone_surrogate(text, self.schema),
        }
        if has_times(self.schema):
            columns[_TIME_TEXTS] = times_as_text(text, self.schema)
        return columns

    def _is_bad(self, spark_column: Callable[[str], Column]) -> Column:
        parsed = spark_column(_PARSED)
        is_faulty = spark_column(_FAULTY)
        checks = [
            parsed.isNull(),
            parsed.getField(CORRUPT_COLUMN).isNotNull(),
            F.coalesce(is_faulty, F.lit(True)),
            does_not_fit(parsed, self.schema),
            *[field.isNull() for _, field in required_fields(self.schema, parsed)],
        ]
        if has_times(self.schema):
            checks.append(has_odd_time(parsed, spark_column(_TIME_TEXTS), self.schema))
        bad = reduce(or_, checks)
        return bad if self.tombstones == "dead" else is_faulty.isNotNull() & bad

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        parsed, reason = self._diagnosis
        return dead_letters.withColumn(_PARSED, parsed).withColumn("reason", reason).drop(_PARSED)

    @cached_property
    def _diagnosis(self) -> tuple[Column, Column]:
        """The value as Spark's parser reads it, and the reason of the dead letter; cached."""
        parsed = parse_object(F.col("value").cast("string"), self.schema)
        return parsed, dead_letter_reason(F.col("value"), F.col(_PARSED), self.schema)


def _to_struct(fields: Mapping[str, Column]) -> Column:
    return F.struct(*[field.alias(name) for name, field in fields.items()])
