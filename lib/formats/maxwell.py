"""Changes as Maxwell's daemon writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ..changes.change import CREATE, DELETE, SNAPSHOT, UPDATE, change_type, row_type
from ._decoder import ChangeFormat, Dialect, Parts, Position, checked
from ._positions import maxwell_position
from .format import Format
from .json import fields, json_format

_OPS = {"insert": CREATE, "update": UPDATE, "delete": DELETE, "bootstrap-insert": SNAPSHOT}
_NONE = (
    "bootstrap-start",
    "bootstrap-complete",
    "table-create",
    "table-alter",
    "table-drop",
    "database-create",
    "database-alter",
    "database-drop",
)


def maxwell(
    columns: str | StructType,
    *,
    key: str | Sequence[str],
    using: Callable[[StructType], Format] | None = None,
    position: Position = "log",
) -> ChangeFormat:
    """Read the changes of one MySQL table, as Maxwell's daemon writes them.

    The row shape is that of `debezium`:

    | field | what it is |
    |---|---|
    | op | "create" (insert), "update", "delete", "snapshot" (bootstrap-insert), "tombstone" |
    | after | `data`, but of a delete, where `data` is `before` |
    | before, of an update | `data` with the values of `old` in their places |
    | event_time | `ts`, whole seconds |

    Values of `old` that are of another type than the column's are null. An update that changes the
    key is one record: `newest` and `versions` take it for the end of the old key as well.

    `position="log"` is the offset, which gives the order of a key's changes where Maxwell
    partitions by primary key, table or database. `position="source"` is `position` (file and pos)
    and `xoffset`, for which Maxwell is started with output_binlog_position and output_xoffset. As
    for `debezium`, a change that is sent again is then older than what is known, and a tombstone
    has no source position. Maxwell writes no truncates.

    The topic holds one table (kafka_topic = "%{database}.%{table}"): rows of other tables would be
    read as rows of this one.

    Dead letters, with their reasons: records that are about no row (bootstrap-start,
    bootstrap-complete, changes of tables), any other type, no `data`, no key, a tombstone whose key
    cannot be read, no source position with position="source", and what the format cannot read.

    Not decoded: binary columns, which are base64 text; datetimes, which are text without a zone,
    and of which 0000-00-00 is no TIMESTAMP.

    Args:
        columns: the table's columns, as DDL text or StructType; no maps and variants.
        key: the columns of its primary key.
        using: how bytes become fields, as `avro_format` does; JSON where nothing is said.
        position: what orders the changes of a key.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Maxwell's daemon, "Data format".

    >>> customers = maxwell("id INT, name STRING", key="id")
    >>> customers.schema["key"].dataType.simpleString()
    'struct<id:int>'
    """
    given, keys = row_type(columns, key)
    row = change_type(given, keys)
    envelope = StructType(
        [
            StructField("type", StringType()),
            StructField("ts", LongType()),
            StructField("position", StringType()),
            StructField("xoffset", LongType()),
            StructField("data", given),
            StructField("old", StringType()),
        ]
    )
    own = row["key"].dataType
    dialect = Dialect(
        envelope=envelope,
        keys=StructType([StructField(f"pk.{field.name}", field.dataType) for field in own]),  # type: ignore[attr-defined]
        parts=lambda record: _parts(record, row["before"].dataType),  # type: ignore[arg-type]
        key=lambda record, name: record.getField(f"pk.{name}"),
        ops=_OPS,
        none=_NONE,
    )
    return ChangeFormat(given, tuple(keys), dialect, using or json_format, checked(position))


def _parts(record: Column, row: StructType) -> Parts:
    data = record["data"].cast(row)
    updated = _before(data, record["old"], row)
    return Parts(
        code=record["type"],
        before=F.when(record["type"] == F.lit("delete"), data).otherwise(updated),
        after=data,
        micros=F.try_multiply(record["ts"], F.lit(1_000_000)),
        at=maxwell_position(record["position"], record["xoffset"]),
    )


def _before(data: Column, old: Column, row: StructType) -> Column:
    """Return the row before an update: a value that stands in `old` counts, even a null."""
    changed = F.json_object_keys(old)
    values = fields(old, row)

    def value(name: str) -> Column:
        is_old = F.array_contains(changed, name)
        return F.when(is_old, values[name]).otherwise(data.getField(name)).alias(name)

    return F.when(changed.isNotNull(), F.struct(*map(value, row.names)))
