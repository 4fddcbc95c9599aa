"""Keyed JSON changelogs: the key identifies a row, the value is the row or null to delete it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StructType,
    TimestampType,
    VariantType,
)

from ...columns import as_schema
from ...errors import ColumnError, ColumnTypeError
from .._casts import does_not_fit
from ._json_format import JsonFormat, json_format
from ._spark_reader import has_odd_time

EVENT_TIME = "event_time"
DELETED = "deleted"
_NON_KEY_TYPES = (ArrayType, MapType, StructType, VariantType, TimestampType)


def upsert_json_format(
    schema: str | StructType,
    *,
    key: str,
    time: str = EVENT_TIME,
    deleted: str = DELETED,
    log_position: tuple[str, str] = ("partition", "offset"),
) -> UpsertJsonFormat:
    """Read a compacted topic as a changelog: a value upserts the row of its key, a null deletes it.

    The key of a record is the text of the field `key`: bytes such as `user-1` or `17`. A row has
    these columns:

    | column | content |
    |---|---|
    | all fields of the schema except `time` | the row; for a tombstone the key, otherwise nulls |
    | event_time | the field `time`; for a tombstone the timestamp of the record |
    | deleted (see `deleted`) | whether the record is a tombstone |
    | partition, offset (see `log_position`) | position of the record, which orders the changes |

    | record | result |
    |---|---|
    | null value, valid key | a deletion |
    | null value and null key | dead letter "no key and no value" |
    | null value, key of another type | dead letter "tombstone with an unreadable key" |
    | value without the key field | dead letter "missing field: <key>" |
    | value without a time | dead letter "no event time" |
    | value that `json_format` rejects | dead letter with the reason of `json_format` |

    Args:
        schema: the fields of a row, as DDL text or StructType; rules as in `json_format`.
        key: the field that identifies a row, NOT NULL, of a simple type.
        time: the TIMESTAMP field that holds the time of the change.
        deleted: name of the column for tombstones.
        log_position: names of the columns for the partition and offset of the record.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> fields = "user_id STRING NOT NULL, plan STRING, at TIMESTAMP"
    >>> upsert_json_format(fields, key="user_id", time="at").schema.names
    ['user_id', 'plan', 'event_time', 'deleted', 'partition', 'offset']
    """
    row_schema = as_schema(schema)
    _require_key(row_schema, key)
    _require_time(row_schema, time)
    upsert_format = UpsertJsonFormat(row_schema, key, time, log_position, deleted)
    names = upsert_format.schema.names
    lowered = [name.lower() for name in names]
    duplicates = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if duplicates:
        raise ColumnError(
            f"duplicate columns in the decoded row: {', '.join(duplicates)}",
            f"no field as in deleted and log_position, and {EVENT_TIME} only as the time",
            'deleted="is_deleted", log_position=("log_partition", "log_offset")',
        )
    return upsert_format


@dataclass(frozen=True)
class UpsertJsonFormat:
    """The format that `upsert_json_format` returns; see there for its rules."""

    plan_name: ClassVar[str] = "upsert_json"
    columns: StructType
    key: str
    time: str
    log_position: tuple[str, str]
    deleted: str = DELETED
    required_columns: ClassVar[tuple[str, ...]] = ("key", "partition", "offset", "timestamp")

    @cached_property
    def schema(self) -> StructType:
        """The fields of a row, with the time, the kind and the position of the change."""
        partition, offset = self.log_position
        fields = [field for field in self.columns if field.name != self.time]
        change = StructType().add(EVENT_TIME, TimestampType()).add(self.deleted, BooleanType())
        position = StructType().add(partition, IntegerType()).add(offset, LongType())
        return StructType([*fields, *change, *position])

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        decoded = self._row_format.decode(raw)
        tombstone = F.col("value").isNull()
        bad = F.col("bad") | (tombstone & self._record_key().isNull())
        return decoded.withColumns({"record": self._row(tombstone), "bad": bad})

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        reason = (
            F.when(F.col("value").isNotNull(), F.col("reason"))
            .when(F.col("key").isNull(), "no key and no value")
            .otherwise("tombstone with an unreadable key")
        )
        return self._row_format.explain_failures(dead_letters).withColumn("reason", reason)

    @cached_property
    def _row_format(self) -> JsonFormat:
        return json_format(self.columns, tombstones="row")

    def _row(self, tombstone: Column) -> Column:
        record = F.col("record")
        partition, offset = self.log_position
        row_values = {field.name: record.getField(field.name) for field in self.columns}
        row_values[self.key] = F.when(tombstone, self._record_key()).otherwise(row_values[self.key])
        changed_at = F.when(tombstone, F.col("timestamp")).otherwise(row_values.pop(self.time))
        change_values = {EVENT_TIME: changed_at, self.deleted: tombstone}
        position_values = {partition: F.col("partition"), offset: F.col("offset")}
        fields = row_values | change_values | position_values
        return F.struct(*[value.alias(name) for name, value in fields.items()])

    def _record_key(self) -> Column:
        """Return the key of the record in the type of the key field; null if it does not fit."""
        text = F.col("key").cast("string")
        key_type = self.columns[self.key].dataType
        value = text.try_cast(key_type)
        is_wrong = does_not_fit(value, key_type) | has_odd_time(value, text, key_type)
        return F.when(F.is_valid_utf8(text) & ~is_wrong, value)


def _require_key(schema: StructType, key: str) -> None:
    if key not in schema.names or schema[key].nullable:
        raise ColumnError(
            f"invalid key: {key!r}",
            "a NOT NULL field of the schema, so that every value identifies a row",
            f"schema = '{key} STRING NOT NULL, ...'",
        )
    key_type = schema[key].dataType
    if isinstance(key_type, _NON_KEY_TYPES):
        raise ColumnTypeError(
            f"invalid type of key {key!r}: {key_type.simpleString()}",
            "a simple type other than TIMESTAMP, to which the text of a key can be cast",
        )


def _require_time(schema: StructType, time: str) -> None:
    if time not in schema.names:
        raise ColumnError(f"invalid time: {time!r}", f"one of the fields {', '.join(schema.names)}")
    if not isinstance(schema[time].dataType, TimestampType):
        raise ColumnTypeError(
            f"invalid type of time {time!r}: {schema[time].dataType.simpleString()}",
            "TIMESTAMP",
        )
