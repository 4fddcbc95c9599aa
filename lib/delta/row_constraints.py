"""Rows that a Delta table cannot store exactly, by its partition columns and constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from ..columns import Fault, null_faults, quoted_column
from ..jvm import DeltaState, delta_state, try_expression
from .delta_table import GENERATION_KEY
from .table_layout import TableLayout

_CHECK_PREFIX = "delta.constraints."
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_MAX_NAME_BYTES = 255
"""The longest name of a folder in common file systems."""
_ESCAPED_CHARACTERS = "[\\x01-\\x1F\\x7F\"#%'*/:=?\\\\{\\[\\]^]"
"""The characters that a folder name has as three, such as %3A for a colon."""


def storage_faults(
    rows: DataFrame, path: str, layout: TableLayout, columns: Sequence[str] | None = None
) -> list[Fault]:
    """Return the faults of rows that the table cannot store, or would store as another value.

    Only columns of the table that the rows have are checked.

    columns: the columns that reach the table as they are; all columns by default.
    """
    if columns is not None:
        rows = rows.select(*[quoted_column(name) for name in columns if name in rows.columns])
    state = delta_state(rows.sparkSession, path)
    faults = [*_partition_faults(rows, state, layout)]
    if state.version >= 0:
        required = [field.name for field in state.schema() if not field.nullable]
        faults += null_faults(rows, required, "NOT NULL column")
        faults += _generation_faults(rows, state)
        faults += _check_faults(rows, state)
    return faults


def value_faults(
    rows: DataFrame, path: str, layout: TableLayout, values: Mapping[str, Column]
) -> tuple[list[Fault], dict[str, Fault]]:
    """Return the faults of values that are parts of columns of the rows, by columns of the table.

    First the faults of text in partition columns, then those of nulls in NOT NULL columns, by the
    name of the value.
    """
    state = delta_state(rows.sparkSession, path)
    schema = rows.select(*[value.alias(name) for name, value in values.items()]).schema
    partition_faults = [*_text_faults(schema, state, layout, values)]
    if state.version < 0:
        return partition_faults, {}
    required = {field.name.lower(): field.name for field in state.schema() if not field.nullable}
    nulls = {
        name: (value.isNull(), f"the NOT NULL column {required[name.lower()]!r} is null")
        for name, value in values.items()
        if name.lower() in required
    }
    return partition_faults, nulls


def _partition_faults(rows: DataFrame, state: DeltaState, layout: TableLayout) -> Iterator[Fault]:
    values = {name: quoted_column(name) for name in rows.columns}
    for name, expression in _generation_expressions(state).items():
        if name not in values and _can_evaluate(rows, expression):
            values[name] = F.expr(expression)
    schema = rows.select(*[value.alias(name) for name, value in values.items()]).schema
    return _text_faults(schema, state, layout, values)


def _text_faults(
    schema: StructType, state: DeltaState, layout: TableLayout, values: Mapping[str, Column]
) -> Iterator[Fault]:
    columns = state.partition_columns() if state.version >= 0 else layout.partition_by
    fields = {field.name.lower(): field for field in schema}
    for name in columns:
        field = fields.get(name.lower())
        if field is None or not isinstance(field.dataType, StringType):
            continue
        value = values[field.name]
        label = f"the partition column {name!r}"
        yield value == F.lit(""), f"{label} is an empty text, which Delta would store as null"
        yield (
            value == F.lit(_NULL_PARTITION),
            f"{label} is {_NULL_PARTITION!r}, which Delta would store as null",
        )
        escaped = F.regexp_replace(value, F.lit(_ESCAPED_CHARACTERS), F.lit("%00"))
        max_bytes = _MAX_NAME_BYTES - len(f"{name}=".encode())
        yield F.octet_length(escaped) > max_bytes, f"{label} is too long for the name of a folder"


def _generation_expressions(state: DeltaState) -> dict[str, str]:
    """Return the expressions of generated columns by name."""
    fields = state.schema() if state.version >= 0 else ()
    return {
        field.name: field.metadata[GENERATION_KEY]
        for field in fields
        if GENERATION_KEY in field.metadata
    }


def _generation_faults(rows: DataFrame, state: DeltaState) -> Iterator[Fault]:
    """Return the faults of rows for which a generated column raises an error, or has another value.

    Delta computes a generated column that the rows do not have, and checks one that they have.
    """
    names = {name.lower(): name for name in rows.columns}
    for name, expression in _generation_expressions(state).items():
        if not _can_evaluate(rows, expression):
            continue
        computed = _try(rows, expression)
        yield computed.isNull(), f"the generated column {name!r} raises an error: {expression}"
        if name.lower() in names:
            is_equal = quoted_column(names[name.lower()]).eqNullSafe(computed["value"])
            yield ~is_equal, f"the generated column {name!r} is not {expression}"


def _try(rows: DataFrame, expression: str) -> Column:
    """Return a struct with the value of an expression; null for a row in which it raises."""
    # Not a constant, as the guard requires.
    guard = F.monotonically_increasing_id() >= 0
    return try_expression(rows.sparkSession, F.expr(expression), guard=guard)


def _check_faults(rows: DataFrame, state: DeltaState) -> Iterator[Fault]:
    """Return the faults of CHECK constraints over columns of the rows; Delta refuses null, too."""
    for name, condition in state.properties().items():
        if not name.lower().startswith(_CHECK_PREFIX) or not _can_evaluate(rows, condition):
            continue
        is_violated = ~F.coalesce(_try(rows, condition)["value"], F.lit(False))
        label = name[len(_CHECK_PREFIX) :]
        yield is_violated, f"the table's CHECK constraint {label!r} is violated: {condition}"


def _can_evaluate(rows: DataFrame, condition: str) -> bool:
    try:
        _ = rows.select(F.expr(condition)).schema
    except AnalysisException:
        return False
    return True
