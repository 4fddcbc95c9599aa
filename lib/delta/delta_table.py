"""Create, append to and merge into Delta tables; compare schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from ..columns import (
    cache_columns,
    nested_names,
    quote_name,
    quoted_column,
    quoted_column_in,
    require_storable_names,
)
from ..errors import TableError
from ..jvm import DeltaState, delta_state
from .commit_options import ROW_CHANGED, CommitOptions
from .table_layout import ANY_LAYOUT, TableLayout

TARGET_ALIAS = "old"
SOURCE_ALIAS = "new"
"""Aliases of the stored and of the new rows in a merge."""


def start_merge(
    spark: SparkSession, path: str, source: DataFrame, condition: Column
) -> DeltaMergeBuilder:
    """Return a merge of rows into a table, without clauses, under the two aliases."""
    target = DeltaTable.forPath(spark, path).alias(TARGET_ALIAS)
    return target.merge(source.alias(SOURCE_ALIAS), condition)


def merge_assignments(names: Iterable[str]) -> dict[str, str | Column]:
    """Return the assignments of a merge that set these columns to the new values."""
    return {quote_name(name): quoted_column_in(SOURCE_ALIAS, name) for name in names}


def raise_if_changed(value: Column, unchanged: Column, data_type: str | DataType) -> Column:
    """Return a value of this type whose evaluation fails the merge if `unchanged` is false.

    A row that another writer changed since it was read is thus not overwritten.
    """
    # As a value, since Delta also evaluates conditions of merge clauses for unaffected rows.
    failure = F.raise_error(F.lit(ROW_CHANGED)).cast(data_type)
    return F.when(unchanged, value).otherwise(failure)


def guarded_assignments(
    names: Iterable[str], guard: str, unchanged: Column, data_type: str | DataType
) -> dict[str, str | Column]:
    """Return `merge_assignments` ; that of `guard` fails the merge unless `unchanged`."""
    value = raise_if_changed(quoted_column_in(SOURCE_ALIAS, guard), unchanged, data_type)
    return {**merge_assignments(names), quote_name(guard): value}


def without_column_metadata(frame: DataFrame) -> DataFrame:
    """Return the frame without column metadata.

    Otherwise readers of the table would inherit the watermark of the streaming query.
    """
    return frame.select(*map(_without_metadata, frame.columns))


@cache_columns
def _without_metadata(name: str) -> Column:
    return quoted_column(name).alias(name, metadata={})


def read_table(spark: SparkSession, path: str) -> DataFrame | None:
    """Return the rows of a table, or None if it does not exist."""
    if delta_state(spark, path).version < 0:
        return None
    return spark.read.format("delta").load(path)


def read_table_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Return the rows of a version of a table."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def evolve_columns(spark: SparkSession, path: str, columns: StructType) -> None:
    """Add the columns that a table does not have, and change others to their wider types.

    Each statement is a commit without rows. Columns that have the type already are left as they
    are, so that a call can be repeated. Raises what Delta raises for a type that is not wider.
    """
    state = delta_state(spark, path)
    stored = {field.name.lower(): field.dataType for field in state.schema()}
    added = [field for field in columns if field.name.lower() not in stored]
    widened = [
        field
        for field in columns
        if stored.get(field.name.lower(), field.dataType).simpleString()
        != field.dataType.simpleString()
    ]
    table = f"ALTER TABLE delta.{quote_name(path)}"
    properties: dict[str, str] = {}
    if widened:
        properties[_TYPE_WIDENING] = "true"
    if any("timestamp_ntz" in field.dataType.simpleString() for field in added):
        # Delta adds this feature by itself only to a new table.
        properties["delta.feature.timestampNtz"] = "supported"
    for name, value in properties.items():
        if state.property(name) != value:
            spark.sql(f"{table} SET TBLPROPERTIES ('{name}' = '{value}')")
    if added:
        definitions = [f"{quote_name(field.name)} {_ddl(field.dataType)}" for field in added]
        spark.sql(f"{table} ADD COLUMNS ({', '.join(definitions)})")
    for field in widened:
        name, data_type = quote_name(field.name), _ddl(field.dataType)
        spark.sql(f"{table} ALTER COLUMN {name} TYPE {data_type}")


def _ddl(data_type: DataType) -> str:
    """Return a type as SQL, with quoted names of fields."""
    if isinstance(data_type, StructType):
        fields = [f"{quote_name(field.name)}: {_ddl(field.dataType)}" for field in data_type]
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{_ddl(data_type.elementType)}>"
    return data_type.simpleString()


_TYPE_WIDENING = "delta.enableTypeWidening"
GENERATION_KEY = "delta.generationExpression"
"""The key in the metadata of a generated column with its expression."""
_IDENTITY_KEY = "delta.identity.start"
_SCHEMA_HINT = (
    "the types of the table in the schema of the job, for columns that another program has "
    "widened; evolve=True if columns were only added; or a new table and checkpoint"
)
_IS_MISSING = " is missing"
_MISSING_COLUMNS_HINT = (
    "the rows with these columns; for columns that another program has added, ALTER TABLE ... DROP "
    "COLUMN, or RESTORE TABLE to the version before; or a new table and checkpoint"
)


def require_matching_schema(
    frame: DataFrame,
    path: str,
    layout: TableLayout = ANY_LAYOUT,
    *,
    evolve: bool,
    hint: str = _SCHEMA_HINT,
) -> DeltaState | None:
    """Return the state of a table, or None if it does not exist; refuse a different schema.

    The frame must have the columns and types of the table, in any order, and with `evolve` may have
    more columns. Generated columns may be missing: Delta computes them. Nullability is left to
    Delta.

    Raises:
        ColumnError, ColumnTypeError: if layout columns are missing or of an unsupported type, or
            names are invalid for a new table.
        TableError: if columns, types or the layout differ from the table's.
    """
    layout.require_columns(frame)
    state = delta_state(frame.sparkSession, path)
    if state.version < 0:
        require_storable_names(nested_names(frame.schema), path)
        return None
    _require_no_identity_columns(state.schema(), path)
    differences = _schema_differences(state.schema(), frame.schema, evolve=evolve)
    if differences:
        raise TableError(
            f"schema mismatch with {path}: {'; '.join(differences)}",
            "the columns and types of the table" + (", and new columns" if evolve else ""),
            _MISSING_COLUMNS_HINT
            if hint == _SCHEMA_HINT and _lacks_columns_only(differences)
            else hint,
        )
    layout.require_same_layout(state, path)
    return state


def _require_no_identity_columns(schema: StructType, path: str) -> None:
    names = [field.name for field in schema if _IDENTITY_KEY in field.metadata]
    if names:
        raise TableError(
            f"table {path} has an identity column: {', '.join(names)}",
            "a table without identity columns: their numbers depend on how often and in how many "
            "tasks a batch was written, so that a replay or another run has other numbers",
            "a new table with the position of the record as identifier: "
            "kafka_columns=['topic', 'partition', 'offset']",
        )


def append(
    frame: DataFrame,
    path: str,
    options: CommitOptions,
    layout: TableLayout = ANY_LAYOUT,
    *,
    evolve: bool = False,
    with_metadata: bool = False,
) -> None:
    """Append the frame in one commit; create the table with its layout if it does not exist.

    with_metadata: whether the table gets the column metadata of the frame.
    """
    rows = frame if with_metadata else without_column_metadata(frame)
    writer = rows.write.format("delta").mode("append")
    if layout != ANY_LAYOUT:
        state = delta_state(rows.sparkSession, path)
        if state.version < 0:
            layout.create_clustered_table(rows, state)
            writer = layout.apply_to(writer)
    if evolve:
        writer = writer.option("mergeSchema", "true")
    options.apply_to(writer).save(path)


def overwrite(
    rows: DataFrame, path: str, options: CommitOptions, replaced: str | None = None
) -> None:
    """Replace all rows of a table, or those for which an SQL condition is true, in one commit."""
    writer = with_full_overwrite(without_column_metadata(rows).write.format("delta"))
    if replaced is not None:
        writer = writer.option("replaceWhere", replaced)
    options.apply_to(writer).save(path)


def with_full_overwrite(writer: DataFrameWriter) -> DataFrameWriter:
    """Return the writer in overwrite mode for the complete table.

    The session may set spark.sql.sources.partitionOverwriteMode to dynamic, which would retain
    other partitions.
    """
    return writer.mode("overwrite").option("partitionOverwriteMode", "static")


def _lacks_columns_only(differences: Sequence[str]) -> bool:
    return all(each.endswith(_IS_MISSING) for each in differences)


def _schema_differences(table: StructType, frame: StructType, *, evolve: bool) -> list[str]:
    table_fields = {field.name.lower(): field for field in table.fields}
    frame_fields = {field.name.lower(): field for field in frame.fields}
    removed = [
        field.name
        for name, field in table_fields.items()
        if name not in frame_fields and GENERATION_KEY not in field.metadata
    ]
    added = [frame_fields[name].name for name in frame_fields if name not in table_fields]
    differences = [f"{name}{_IS_MISSING}" for name in removed]
    differences += [f"{name} is new" for name in added if not evolve]
    for name in [each for each in table_fields if each in frame_fields]:
        # Delta ignores the case of nested names; the text does not contain nullability.
        old = table_fields[name].dataType.simpleString().lower()
        new = frame_fields[name].dataType.simpleString().lower()
        if old != new:
            differences.append(f"{frame_fields[name].name} was {old} and is {new}")
    return differences
