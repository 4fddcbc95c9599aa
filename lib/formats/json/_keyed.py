"""A table's changelog of plain JSON: the record's key says whose row, its value what the row is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ...columns import schema_of
from ...errors import ColumnError, ColumnTypeError
from .._fitting import unfit
from ._format import JsonFormat, json_format
from ._texts import odd_times

EVENT_TIME = "event_time"
DELETED = "deleted"
_NO_KEYS = (ArrayType, MapType, StructType, VariantType, TimestampType)


def keyed_json(
    schema: str | StructType,
    *,
    key: str,
    time: str = EVENT_TIME,
    place: tuple[str, str] = ("partition", "offset"),
) -> KeyedJson:
    """Read a compacted topic's changelog: a value is a whole row, and no value deletes the key's.

    The record's key is the text of the field `key`: bytes such as `user-1` or `17`. The columns of
    a row are

    | field | what it is |
    |---|---|
    | those of the schema but `time` | the row; of a tombstone its key alone, the others are null |
    | event_time | the field `time`; a tombstone has its record's own timestamp |
    | deleted | whether it is a tombstone |
    | partition, offset (or as `place` has it) | the record's place: the order of changes |

    | record | what becomes of it |
    |---|---|
    | no value, a key that can be read | deleted |
    | no value and no key, or a key that cannot be read | dead letter |
    | a value without the key's field | dead letter "missing field: <key>" |
    | a value without a time | dead letter "no event time" |
    | any other value that `json_format` refuses | dead letter with its reason |

    Args:
        schema: the row's fields, as DDL text or StructType; rules as in `json_format`.
        key: the field that names a row, NOT NULL, of a simple type.
        time: the field that says when the row changed, a TIMESTAMP.
        place: how the columns of the record's partition and offset are called.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> fields = "user_id STRING NOT NULL, plan STRING, at TIMESTAMP"
    >>> keyed_json(fields, key="user_id", time="at").schema.names
    ['user_id', 'plan', 'event_time', 'deleted', 'partition', 'offset']
    """
    given = schema_of(schema)
    _require_key(given, key)
    _require_time(given, time)
    made = KeyedJson(given, key, time, place)
    lowered = [name.lower() for name in made.schema.names]
    taken = sorted({name for name in made.schema.names if lowered.count(name.lower()) > 1})
    if taken:
        raise ColumnError(
            f"schema and place would make {', '.join(taken)} twice.",
            f"fields not called {EVENT_TIME}, unless that is their time, nor {DELETED}, nor as "
            "place has it.",
            'place=("log_partition", "log_offset")',
        )
    return made


@dataclass(frozen=True)
class KeyedJson:
    """Rows by key, as JSON; made by `keyed_json`, where its rules stand."""

    columns: StructType
    key: str
    time: str
    place: tuple[str, str]
    needs: ClassVar[tuple[str, ...]] = ("key", "partition", "offset", "timestamp")

    @cached_property
    def schema(self) -> StructType:
        """The fields of a row, and those that say when and where it changed."""
        partition, offset = self.place
        return StructType(
            [
                *(field for field in self.columns if field.name != self.time),
                StructField(EVENT_TIME, TimestampType()),
                StructField(DELETED, BooleanType()),
                StructField(partition, IntegerType()),
                StructField(offset, LongType()),
            ]
        )

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        read = self._values.decode(raw)
        tombstone = F.col("value").isNull()
        bad = F.col("bad") | (tombstone & self._own_key().isNull())
        return read.withColumns({"record": self._row(tombstone), "bad": bad})

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        reason = (
            F.when(F.col("value").isNotNull(), F.col("reason"))
            .when(F.col("key").isNull(), "no key and no value")
            .otherwise("tombstone whose key cannot be read")
        )
        return self._values.diagnose(dead).withColumn("reason", reason)

    @cached_property
    def _values(self) -> JsonFormat:
        return json_format(self.columns, tombstones="row")

    def _row(self, tombstone: Column) -> Column:
        record = F.col("record")
        partition, offset = self.place
        found = {field.name: record.getField(field.name) for field in self.columns}
        found[self.key] = F.when(tombstone, self._own_key()).otherwise(found[self.key])
        at = F.when(tombstone, F.col("timestamp")).otherwise(found.pop(self.time))
        told = {EVENT_TIME: at, DELETED: tombstone}
        where = {partition: F.col("partition"), offset: F.col("offset")}
        fields = found | told | where
        return F.struct(*[value.alias(name) for name, value in fields.items()])

    def _own_key(self) -> Column:
        """Return the record's key as a value of the key's field; null where it is none."""
        text = F.col("key").cast("string")
        kind = self.columns[self.key].dataType
        value = text.try_cast(kind)
        return F.when(
            F.is_valid_utf8(text) & ~unfit(value, kind) & ~odd_times(value, text, kind), value
        )


def _require_key(schema: StructType, key: str) -> None:
    if key not in schema.names or schema[key].nullable:
        raise ColumnError(
            f"schema has no {key!r} that is NOT NULL: a row without it would be nobody's.",
            "the key as a field that is never null.",
            f"schema = '{key} STRING NOT NULL, ...'",
        )
    found: DataType = schema[key].dataType
    if isinstance(found, _NO_KEYS):
        raise ColumnTypeError(
            f"key={key!r} is of type {found.simpleString()}.",
            "a simple type other than TIMESTAMP, which a key's text can be cast to.",
        )


def _require_time(schema: StructType, time: str) -> None:
    if time not in schema.names:
        raise ColumnError(f"time names {time!r}.", f"the fields are {', '.join(schema.names)}.")
    if not isinstance(schema[time].dataType, TimestampType):
        raise ColumnTypeError(
            f"time={time!r} is of type {schema[time].dataType.simpleString()}.",
            "a timestamp (an instant).",
        )
