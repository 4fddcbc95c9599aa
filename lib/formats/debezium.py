"""Changes as Debezium's connectors write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ..changes.change import CREATE, DELETE, SNAPSHOT, TRUNCATE, UPDATE, change_type, row_type
from ..errors import ColumnError
from ._decoder import ChangeFormat, Dialect, Parts, Position, checked
from ._positions import DEBEZIUM_SOURCE, debezium_position
from .format import Format
from .json import json_format

_OPS = {"c": CREATE, "u": UPDATE, "d": DELETE, "r": SNAPSHOT, "t": TRUNCATE}


def debezium(
    columns: str | StructType,
    *,
    key: str | Sequence[str],
    using: Callable[[StructType], Format] | None = None,
    position: Position = "log",
) -> ChangeFormat:
    """Read the changes of one table, as Debezium's connectors for SQL databases write them.

    An event may come with its schema part ({"schema": ..., "payload": ...}) or without it. Columns
    that `columns` does not name are left out. NOT NULL is asked of the row after a change alone,
    since `before` often has nothing but the key. The row shape is that of all changelogs:

    | field | what it is |
    |---|---|
    | op | "create" (c), "update" (u), "delete" (d), "snapshot" (r), "truncate" (t); "tombstone" |
    | key | struct of the key columns, out of `after`, else `before`, else the record's own key |
    | before, after | structs of all columns; null where there is no row, or none was logged |
    | position | array of bigint that compares as the log goes on, see below |
    | event_time | source.ts_us, else source.ts_ms, else ts_ms; Kafka's timestamp of a tombstone |
    | place | struct of topic, partition and offset |

    `position="log"` is the offset. Debezium puts all changes of a key into one partition, so that
    offsets give the order of each key's changes. When a connector starts again it may send a
    stretch of its log a second time, at later offsets: tables then go back to the beginning of that
    stretch, and are right again at its end.

    `position="source"` is the database's own position (PostgreSQL lsn; MySQL, MariaDB file, pos,
    row; SQL Server, Db2 commit_lsn, change_lsn, event_serial_no; Oracle scn). A change that is sent
    again is then older than what is known, and changes nothing; partitions may be added to the
    topic; truncates have their place. Positions stop being comparable where the log begins anew: in
    a restored database, or a MySQL server whose binlog has other files. A tombstone has no source
    position, and stands right after the newest change of its key that came before it.

    | record | what becomes of it |
    |---|---|
    | no value, a readable key | op "tombstone" |
    | neither value nor key, or a tombstone whose key cannot be read | dead letter |
    | delete without `before` | the row of the record's own key, else a dead letter |
    | create, update or snapshot without `after`; a key column that is null | dead letter |
    | op "m" (a message, not a row), any other op, or none | dead letter |
    | a column that holds `__debezium_unavailable_value` | dead letter "value left out: ..." |
    | truncate | with position="source" a change without a key; with "log" a dead letter |
    | no usable source position, with position="source" | dead letter |
    | bytes that cannot be read, values of another type | dead letter with the format's reason |

    Debezium sends `__debezium_unavailable_value` for a large value that has not changed, which
    PostgreSQL logs with REPLICA IDENTITY FULL alone.

    Not decoded: decimals as bytes (set decimal.handling.mode to string and declare DECIMAL, since
    some of the default's base64 texts are digits alone and would pass for numbers); numbers of
    days, milliseconds or microseconds since 1970 (declare INT or BIGINT and convert them, since a
    number in a TIMESTAMP column would be taken for seconds); geometry; MongoDB's documents. A
    `timestamp with time zone` is text and can be declared TIMESTAMP.

    Args:
        columns: the table's columns, as DDL text or StructType; no maps and variants.
        key: the columns of its primary key. None can be called "payload", the name in which
            Debezium may wrap a record's own key.
        using: how bytes become fields, as `avro_format` does; JSON where nothing is said.
        position: what orders the changes of a key.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Debezium 3, "Data change events" of its connectors.

    >>> customers = debezium("id INT NOT NULL, name STRING", key="id")
    >>> customers.schema.names
    ['op', 'key', 'before', 'after', 'position', 'event_time', 'place']
    """
    given, keys = row_type(columns, key)
    _require_key(keys)
    row = change_type(given, keys)
    envelope = StructType(
        [
            StructField("op", StringType()),
            StructField("before", row["before"].dataType),
            StructField("after", given),
            StructField("source", DEBEZIUM_SOURCE),
            StructField("ts_ms", LongType()),
        ]
    )
    own = row["key"].dataType
    dialect = Dialect(
        envelope=StructType([*envelope, StructField("payload", envelope)]),
        keys=StructType([*own, StructField("payload", own)]),  # type: ignore[misc]
        parts=_parts,
        key=_key,
        ops=_OPS,
        none=("m",),
    )
    return ChangeFormat(given, tuple(keys), dialect, using or json_format, checked(position))


def _require_key(keys: Sequence[str]) -> None:
    for name in keys:
        if name.lower() == "payload":
            raise ColumnError(
                f"key names {name!r}, in which Debezium may wrap a record's own key.",
                "key columns of other names.",
                "rename the column where it is captured (Debezium: the transform ReplaceField).",
            )


def _parts(record: Column) -> Parts:
    def of(name: str) -> Column:
        return F.coalesce(record["payload"][name], record[name])

    source = of("source")
    times = [_known(source["ts_us"]), _micros(_known(source["ts_ms"])), _micros(of("ts_ms"))]
    return Parts(
        code=of("op"),
        before=of("before"),
        after=of("after"),
        micros=F.coalesce(*times),
        at=debezium_position(source),
    )


def _key(record: Column, name: str) -> Column:
    return F.coalesce(record["payload"].getField(name), record.getField(name))


def _micros(milliseconds: Column) -> Column:
    return F.try_multiply(milliseconds, F.lit(1_000))


def _known(time: Column) -> Column:
    """Return null for a time of 0, which some connectors write in the rows of a snapshot."""
    return F.nullif(time, F.lit(0).cast("bigint"))
