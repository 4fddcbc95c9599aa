"""Changelogs written by Debezium's connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ..changelogs.change_schema import (
    CREATE,
    DELETE,
    SNAPSHOT,
    TRUNCATE,
    UPDATE,
    change_type,
    row_type,
)
from ..columns import require_choice
from ..errors import ArgumentError, ColumnError
from ._change_envelope import ChangeFormat, Dialect
from ._log_positions import (
    DEBEZIUM_SOURCE,
    debezium_position,
    debezium_server,
    is_debezium_snapshot,
)
from .connect_json import ConnectJson, Decimals, Timestamps
from .format import Format

UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""Debezium's default of unavailable.value.placeholder."""
_FLAT_PREFIXES = ("__source_", "__")
"""The beginnings of the names of the source's fields in a flattened row."""
Shape: TypeAlias = Literal["envelope", "flattened"]
_OP_BY_CODE = {"c": CREATE, "u": UPDATE, "d": DELETE, "r": SNAPSHOT, "t": TRUNCATE}


def debezium_format(
    columns: str | StructType,
    *,
    key: str | Sequence[str],
    value_format: Callable[[StructType], Format] | None = None,
    decimals: Decimals | None = None,
    timestamps: Timestamps | None = None,
    unavailable_value: str = UNAVAILABLE_VALUE,
    shape: Shape = "envelope",
    rename: Mapping[str, str] | None = None,
) -> ChangeFormat:
    """Read the changes of one table, as Debezium's connectors for SQL databases write them.

    An event may have a schema part ({"schema": ..., "payload": ...}) or not. Columns that `columns`
    does not name are ignored. NOT NULL is checked only for the row after a change, because `before`
    often has only the key. All changelogs have the same columns:

    | column | content |
    |---|---|
    | op | "create" (c), "update" (u), "delete" (d), "snapshot" (r), "truncate" (t), "tombstone" |
    | key | struct of the key columns: from `after`, else `before`, else the key of the record |
    | before, after | structs of all columns; null if there is no row, or it was not logged |
    | unavailable | names of the columns whose values were not sent; null for none |
    | position | struct of topic, partition, offset, written_at, server, source and committed_at |
    | event_time | source.ts_us, else source.ts_ms, else ts_ms; for tombstones Kafka's timestamp |

    The changes of a key are in the order of the topic, without those that are sent again. Offsets
    order the changes of a partition. Where a key moves to another partition, because partitions
    were added, its position in the log of the database decides (`source`: PostgreSQL lsn; MySQL and
    MariaDB file, pos, row; SQL Server and Db2 commit_lsn, change_lsn, event_serial_no; Oracle scn,
    rs_id, ssn), or else the time of the record (`written_at`).

    A connector sends changes again after a restart. A change whose `source` is equal to that of an
    earlier one of its key, or lower with a `committed_at` that is not later, is one of them and has
    no effect. A lower `source` with a later `committed_at` has an effect: then positions have
    started again, as after a failover or a restore. `server` identifies the log; positions in
    different ones are not compared. Rows of a snapshot (initial, incremental or ad hoc) and
    tombstones have no `source`: they follow the change before them.

    | record | result |
    |---|---|
    | null value or JSON null, valid key | op "tombstone" |
    | null value and null key | dead letter "no key and no value" |
    | null value, invalid key | dead letter "tombstone with an unreadable key" |
    | delete without `before` | a row with the key of the record |
    | create, update or snapshot without `after` | dead letter "missing row after the change" |
    | a key column that is null | dead letter "missing key: <columns>" |
    | op "m" (a logical message), a heartbeat | skipped, and counted as discarded |
    | a schema change, the begin or end of a transaction | skipped, and counted as discarded |
    | any other op, or none | dead letter "unknown operation: <op>" or "missing operation" |
    | the placeholder of an unavailable value | see below |
    | truncate | a change without a key, which ends all rows before it |
    | unreadable bytes, values of other types | dead letter with the reason of the value format |

    Debezium sends a placeholder for an unchanged large value, unless the PostgreSQL table has
    REPLICA IDENTITY FULL. It is recognized in text, binary and logical types, and in arrays, where
    it is the only element; in an array of integers each byte of it is an element. A job that writes
    the changes to `CurrentTable`, `HistoryTable` or both takes the value from the row before;
    without such a row the change is a dead letter "unavailable value, and no row before it:
    <columns>". So is a change of the key that leaves a large value as it is, since Debezium writes
    it as a deletion and an insertion. In all other uses, and in key columns, such a change is a
    dead letter "unavailable value: <columns>".

    JSON values are decoded by the schema part of their record. Without one (schemas.enable=false),
    the arguments say what is ambiguous:

    | column | JSON with a schema part | without a schema part |
    |---|---|---|
    | DECIMAL | bytes, text or a number, in every mode | a number; text by `decimals` |
    | DATE | days, ISO 8601 text | a number is days; text |
    | TIMESTAMP, TIMESTAMP_NTZ | a number in any unit, text | a number by `timestamps`; text |
    | BINARY | base64 | base64 |
    | DOUBLE, FLOAT | as DECIMAL; NaN and infinite numbers | the same; other text by `decimals` |
    | STRING | text; decimals as text; the JSON text of other values | text; the JSON text |

    Times without a zone are UTC; nanoseconds are truncated to microseconds.

    | value | reason of the dead letter |
    |---|---|
    | an infinite time; NaN or an infinite number in a DECIMAL | "not finite: <column> = <value>" |
    | more digits than a DECIMAL, a year outside 1 to 9999 | "out of range: <column> = <value>" |
    | any other value of another type | "wrong type: <column>" |
    | a text or number whose encoding is not known | a reason that names the argument |

    Other columns take the underlying value: a time of day is a number in BIGINT.
    Geometry types and MongoDB documents are not decoded.

    Args:
        columns: the columns of the table, as DDL text or StructType, without maps and variants.
        key: the columns of the primary key.
        value_format: function from a schema to the format of keys and values, such as
            `avro_format`; by default the JSON of Kafka Connect, with or without a schema part.
        decimals: decimal.handling.mode of records without a schema part: "precise" (base64 of the
            bytes, with the scale of the column), "string" or "double". None accepts text only if it
            cannot be base64.
        timestamps: the unit of timestamps in records without a schema part: "milliseconds",
            "microseconds" or "nanoseconds". None accepts text only.
        unavailable_value: the connector's property unavailable.value.placeholder.
        shape: "envelope", or "flattened" for rows that the transform ExtractNewRecordState has
            taken out of their envelopes: columns at the top, with `__deleted` and other fields that
            it can add. Without `__op` an insert is an "update"; without `__source_ts_ms` or
            `__ts_ms` the time is that of the record.
        rename: the names of columns in changes, by their names in the source. Columns that have a
            name that current and history tables add, such as `op` or `deleted`, require one.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Debezium 3, "Data change events" of its connectors.

    >>> customers = debezium_format("id INT NOT NULL, name STRING", key="id")
    >>> customers.schema.names
    ['op', 'key', 'before', 'after', 'unavailable', 'position', 'event_time']
    """
    row_schema, keys = row_type(columns, key, rename or {})
    if not isinstance(unavailable_value, str) or not unavailable_value:
        raise ArgumentError(
            f"invalid unavailable_value: {unavailable_value!r}",
            "the text of Debezium's property unavailable.value.placeholder",
            f"unavailable_value={UNAVAILABLE_VALUE!r}",
        )
    if value_format is not None and (decimals is not None or timestamps is not None):
        raise ArgumentError(
            f"invalid decimals and timestamps: {decimals!r}, {timestamps!r} with value_format",
            "None: they say how JSON is encoded, and the value format says it for other values",
        )
    json_values = ConnectJson(decimals, timestamps, unavailable_value)
    require_choice(shape, "shape", Shape)
    change_schema = change_type(row_schema, keys)
    rows = change_schema["before"].dataType
    assert isinstance(rows, StructType)
    is_flat = shape == "flattened"
    dialect = Dialect(
        plan_name="debezium_flattened" if is_flat else "debezium",
        envelope=_flat_envelope(rows) if is_flat else _envelope(rows, row_schema),
        key_schema=change_schema["key"].dataType,  # type: ignore[arg-type]
        extract_parts=_FlatParts(rows) if is_flat else _extract_parts,
        extract_key=_extract_key,
        op_by_code=_OP_BY_CODE,
        row_path="" if is_flat else "after",
        null_as_json=value_format is None,
    )
    return ChangeFormat(
        row_schema,
        tuple(keys),
        dialect,
        value_format or json_values,
        unavailable_value,
        dict(rename or {}),
    )


def _envelope(before: StructType, after: StructType) -> StructType:
    return (
        StructType()
        .add("op", StringType())
        .add("before", before)
        .add("after", after)
        .add("source", DEBEZIUM_SOURCE)
        .add("ts_ms", LongType())
        .add("status", StringType())
        .add("ddl", StringType())
    )


def _extract_parts(record: Column) -> dict[str, Column]:
    source = record["source"]
    is_of_no_row = record["op"].isNull() & record["before"].isNull() & record["after"].isNull()
    is_transaction = record["status"].isin("BEGIN", "END")
    is_heartbeat = source.isNull() & record["ts_ms"].isNotNull()
    is_other = is_transaction | is_heartbeat | record["ddl"].isNotNull()
    return {
        "skipped": (record["op"] == F.lit("m")) | (is_of_no_row & is_other),
        "code": record["op"],
        "before": record["before"],
        "after": record["after"],
        "micros": _time_of_change(source, record["ts_ms"]),
        "source_position": debezium_position(source),
        "server": debezium_server(source),
        "from_snapshot": is_debezium_snapshot(source),
    }


def _time_of_change(source: Column, ts_ms: Column) -> Column:
    return F.coalesce(
        _null_if_zero(source["ts_us"]),
        _to_micros(_null_if_zero(source["ts_ms"])),
        _to_micros(ts_ms),
    )


def _flat_envelope(rows: StructType) -> StructType:
    """Return the columns of the row with the fields that ExtractNewRecordState can add."""
    envelope = StructType([*rows])
    reserved = {"__deleted", "__op", "__ts_ms"}
    added = [StructField(name, StringType()) for name in ("__deleted", "__op")]
    added.append(StructField("__ts_ms", LongType()))
    for prefix in _FLAT_PREFIXES:
        fields = [field for field in DEBEZIUM_SOURCE if f"{prefix}{field.name}" not in reserved]
        added += [StructField(f"{prefix}{field.name}", field.dataType) for field in fields]
    for field in added:
        if field.name in envelope.names:
            raise ColumnError(
                f"invalid column: {field.name!r}",
                "names other than those of the fields that the transform adds",
                "add.fields.prefix has its default, __",
            )
        envelope = envelope.add(field)
    return envelope


@dataclass(frozen=True)
class _FlatParts:
    """Returns the parts of a change in a row that ExtractNewRecordState has flattened."""

    rows: StructType

    def __call__(self, record: Column) -> dict[str, Column]:
        row = F.struct(*[record[name].alias(name) for name in self.rows.names])
        row = F.when(record.isNotNull(), row)
        is_deleted = record["__deleted"] == F.lit("true")
        written = F.coalesce(record["__op"], F.lit("u"))
        code = F.when(record.isNotNull(), F.when(is_deleted, F.lit("d")).otherwise(written))
        is_row = code != F.lit("d")
        source = F.struct(
            *[
                F.coalesce(*[record[name] for name in self._names(field.name)]).alias(field.name)
                for field in DEBEZIUM_SOURCE
            ]
        )
        # Without these fields, the time of the record is the best known.
        time = _time_of_change(source, record["__ts_ms"])
        return {
            "skipped": F.lit(False),
            "code": code,
            "before": F.when(~is_row, row),
            "after": F.when(is_row, row),
            "micros": F.coalesce(time, F.unix_micros("timestamp")),
            "source_position": debezium_position(source),
            "server": debezium_server(source),
            "from_snapshot": is_debezium_snapshot(source),
        }

    def _names(self, name: str) -> list[str]:
        names = [f"{prefix}{name}" for prefix in _FLAT_PREFIXES]
        # That of the connector, not of the source.
        return [each for each in names if each != "__ts_ms"]


def _extract_key(record: Column, name: str) -> Column:
    return record.getField(name)


def _to_micros(milliseconds: Column) -> Column:
    return F.try_multiply(milliseconds, F.lit(1_000))


def _null_if_zero(time: Column) -> Column:
    """Return null for a time of 0, which some connectors write in snapshots."""
    return F.nullif(time, F.lit(0).cast("bigint"))
