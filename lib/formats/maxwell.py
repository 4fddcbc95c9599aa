"""Changelogs written by Maxwell's daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ..changelogs.change_schema import CREATE, DELETE, SNAPSHOT, UPDATE, change_type, row_type
from ._change_envelope import ChangeFormat, Dialect
from ._log_positions import maxwell_position, maxwell_server
from .format import Format
from .json import inner_object_fields, json_format

_OP_BY_CODE = {"insert": CREATE, "update": UPDATE, "delete": DELETE, "bootstrap-insert": SNAPSHOT}
_IGNORED_TYPES = (
    "bootstrap-start",
    "bootstrap-complete",
    "table-create",
    "table-alter",
    "table-drop",
    "database-create",
    "database-alter",
    "database-drop",
)


def maxwell_format(
    columns: str | StructType,
    *,
    key: str | Sequence[str],
    value_format: Callable[[StructType], Format] | None = None,
    rename: Mapping[str, str] | None = None,
) -> ChangeFormat:
    """Read the changes of one MySQL table, as Maxwell's daemon writes them.

    The columns are those of `debezium_format`, with these contents:

    | column | content |
    |---|---|
    | op | "create" (insert), "update", "delete", "snapshot" (bootstrap-insert), "tombstone" |
    | before | for an update `data` with the values of `old`; for a delete `data` |
    | after | `data`, except for a delete |
    | event_time | `ts`, in seconds |

    Values of `old` of another type than their column are null. An update that changes the key is a
    single record; `latest_changes` and `history_rows` also delete the row of the old key.

    The order of changes is that of `debezium_format`; `source` is `position` (file and pos) with
    `xoffset`, and `server` has `server_id` and `gtid`. Start Maxwell with output_binlog_position,
    output_xoffset and output_server_id. Maxwell writes no truncates.

    The topic must contain only this table (kafka_topic = "%{database}.%{table}"); rows of other
    tables would be read as rows of this one.

    Skipped and counted: bootstrap-start, bootstrap-complete and schema changes.

    Dead letters: unknown types, changes without `data` or key, tombstones with an unreadable key,
    and values that the value format rejects, with the path of the column: "wrong type: data.price".

    Decimals are exact; a decimal with more digits than its column, and the date 0000-00-00, are
    dead letters. Datetimes are text without a zone and are UTC. BINARY is read from base64.

    Args:
        columns: the columns of the table, as DDL text or StructType, without maps and variants.
        key: the columns of the primary key.
        value_format: function from a schema to the format of keys and values, such as
            `json_format` (default) or `avro_format`.
        rename: the names of columns in changes, by their names in the source; see
            `debezium_format`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Maxwell's daemon, "Data format".

    >>> customers = maxwell_format("id INT, name STRING", key="id")
    >>> customers.schema["key"].dataType.simpleString()
    'struct<id:int>'
    """
    row_schema, keys = row_type(columns, key, rename or {})
    change_schema = change_type(row_schema, keys)
    envelope = StructType(
        [
            StructField("type", StringType()),
            StructField("ts", LongType()),
            StructField("position", StringType()),
            StructField("xoffset", LongType()),
            StructField("server_id", LongType()),
            StructField("gtid", StringType()),
            StructField("data", change_schema["before"].dataType),
            StructField("old", StringType()),
        ]
    )
    key_schema = change_schema["key"].dataType
    dialect = Dialect(
        plan_name="maxwell",
        envelope=envelope,
        key_schema=StructType(
            [StructField(f"pk.{key_field.name}", key_field.dataType) for key_field in key_schema]  # type: ignore[attr-defined]
        ),
        extract_parts=lambda record: _extract_parts(record, change_schema["before"].dataType),  # type: ignore[arg-type]
        extract_key=lambda record, name: record.getField(f"pk.{name}"),
        op_by_code=_OP_BY_CODE,
        row_path="data",
    )
    return ChangeFormat(
        row_schema,
        tuple(keys),
        dialect,
        value_format or json_format,
        rename=dict(rename or {}),
    )


def _extract_parts(record: Column, row_schema: StructType) -> dict[str, Column]:
    data = record["data"].cast(row_schema)
    updated = _row_before(data, record["old"], row_schema)
    return {
        "skipped": record["type"].isin(*_IGNORED_TYPES),
        "code": record["type"],
        "before": F.when(record["type"] == F.lit("delete"), data).otherwise(updated),
        "after": data,
        "micros": F.try_multiply(record["ts"], F.lit(1_000_000)),
        "source_position": maxwell_position(record["position"], record["xoffset"]),
        "server": maxwell_server(record["server_id"], record["gtid"]),
        "from_snapshot": F.lit(False),
    }


def _row_before(data: Column, old: Column, row_schema: StructType) -> Column:
    """Return the row before an update: the values in `old`, even nulls, else those in `data`."""
    changed_names = F.json_object_keys(old)
    values = inner_object_fields(old, row_schema)

    def value(name: str) -> Column:
        is_old = F.array_contains(changed_names, name)
        return F.when(is_old, values[name]).otherwise(data.getField(name)).alias(name)

    return F.when(changed_names.isNotNull(), F.struct(*map(value, row_schema.names)))
