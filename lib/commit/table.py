"""The table under a sink: made at the first commit, guarded against other columns afterwards."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from ..columns import nested_names, quoted, require_storable
from ..errors import TableError
from ..jvm import DeltaState, delta_state
from ..made_once import made_once
from .layout import ANY, Layout
from .options import CommitOptions


def plain(frame: DataFrame) -> DataFrame:
    """Return the frame without the streaming query's marks on its columns.

    The table's readers would inherit the query's watermark by them.
    """
    return frame.select(*map(_without_marks, frame.columns))


@made_once
def _without_marks(name: str) -> Column:
    return quoted(name).alias(name, metadata={})


def at_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Return the rows that a table had at one of its versions."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


_REMEDY = (
    "a new table and checkpoint for a changed query, or evolve=True where columns were only added."
)


def existing(
    frame: DataFrame, path: str, layout: Layout = ANY, *, evolve: bool, remedy: str = _REMEDY
) -> DeltaState | None:
    """Return the state of the table at `path`, and refuse a frame that does not fit it.

    None where there is no table yet. The frame must have the table's columns and types, in any
    order; with `evolve` it may have more columns. Whether a column may be null is left to Delta.

    Raises:
        ColumnError, ColumnTypeError: for a layout by columns that are not there or no table is laid
            out by, and names that a new table cannot have.
        TableError: for columns, types or a layout that differ from the table's.
    """
    layout.require_columns(frame)
    state = delta_state(frame.sparkSession, path)
    if state.version < 0:
        require_storable(nested_names(frame.schema), path)
        return None
    differences = _differences(state.schema(), frame.schema, evolve=evolve)
    if differences:
        raise TableError(
            f"the rows do not fit the table {path}: {'; '.join(differences)}.",
            "the table's columns and types" + (", and new columns." if evolve else "."),
            remedy,
        )
    layout.require_same(state, path)
    return state


def append(
    frame: DataFrame,
    path: str,
    options: CommitOptions,
    layout: Layout = ANY,
    *,
    evolve: bool = False,
) -> None:
    """Append the frame in one commit, which makes the table by its layout where there is none."""
    put(plain(frame), path, options, layout, evolve=evolve)


def put(
    rows: DataFrame,
    path: str,
    options: CommitOptions,
    layout: Layout = ANY,
    *,
    evolve: bool = False,
) -> None:
    """Append rows as `append` does, with the marks that their columns bear."""
    writer = rows.write.format("delta").mode("append")
    if layout != ANY:
        state = delta_state(rows.sparkSession, path)
        if state.version < 0:
            layout.begin(rows, state)
            writer = layout.on(writer)
    if evolve:
        writer = writer.option("mergeSchema", "true")
    options.on(writer).save(path)


def replacing(writer: DataFrameWriter) -> DataFrameWriter:
    """Return the writer, whose rows take the place of all that the table has.

    A session may have overwrites replace no more than the partitions of the rows that come
    (spark.sql.sources.partitionOverwriteMode): the table's other rows would stay beside them.
    """
    return writer.mode("overwrite").option("partitionOverwriteMode", "static")


def _differences(table: StructType, frame: StructType, *, evolve: bool) -> list[str]:
    have = {field.name.lower(): field for field in table.fields}
    given = {field.name.lower(): field for field in frame.fields}
    removed = [f"{have[name].name} is missing" for name in have if name not in given]
    added = [f"{given[name].name} is new" for name in given if name not in have and not evolve]
    changed = [_retyped(have[name], given[name]) for name in have if name in given]
    return removed + added + [text for text in changed if text is not None]


def _retyped(table: StructField, frame: StructField) -> str | None:
    """Return how a column's type has changed, as text; None where it has not."""
    old = _nullable(table.dataType).simpleString()
    new = _nullable(frame.dataType).simpleString()
    return None if old == new else f"{frame.name} was {old} and is {new}"


def _nullable(kind: DataType) -> DataType:
    """Return the type with all of its parts nullable, and the names of fields in lower case."""
    if isinstance(kind, StructType):
        fields = [StructField(f.name.lower(), _nullable(f.dataType)) for f in kind.fields]
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
