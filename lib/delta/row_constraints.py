"""Rows that a Delta table cannot store exactly, by its partition columns and constraints."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..columns import Fault, null_faults, quoted_column
from ..jvm import DeltaState, delta_state, try_expression
from .table_layout import TableLayout

_CHECK_PREFIX = "delta.constraints."
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_MAX_NAME_BYTES = 255
"""The longest name of a folder in common file systems."""
_ESCAPED_CHARACTERS = "[\\x01-\\x1F\\x7F\"#%'*/:=?\\\\{\\[\\]^]"
"""The characters that a folder name has as three, such as %3A for a colon."""


def storage_faults(rows: DataFrame, path: str, layout: TableLayout) -> list[Fault]:
    """Return the faults of rows that the table cannot store, or would store as another value.

    Only columns of the table that the rows have are checked.
    """
    state = delta_state(rows.sparkSession, path)
    faults = [*_partition_faults(rows, state, layout)]
    if state.version >= 0:
        required = [field.name for field in state.schema() if not field.nullable]
        faults += null_faults(rows, required, "NOT NULL column")
        faults += _check_faults(rows, state)
    return faults


def partition_faults(rows: DataFrame, path: str, layout: TableLayout) -> list[Fault]:
    """Return the faults of text in the partition columns of a table, by those of the rows."""
    return [*_partition_faults(rows, delta_state(rows.sparkSession, path), layout)]


def _partition_faults(rows: DataFrame, state: DeltaState, layout: TableLayout) -> Iterator[Fault]:
    columns = state.partition_columns() if state.version >= 0 else layout.partition_by
    fields = {field.name.lower(): field for field in rows.schema}
    for name in columns:
        field = fields.get(name.lower())
        if field is None or not isinstance(field.dataType, StringType):
            continue
        value = quoted_column(field.name)
        label = f"the partition column {name!r}"
        yield value == F.lit(""), f"{label} is an empty text, which Delta would store as null"
        yield (
            value == F.lit(_NULL_PARTITION),
            f"{label} is {_NULL_PARTITION!r}, which Delta would store as null",
        )
        escaped = F.regexp_replace(value, F.lit(_ESCAPED_CHARACTERS), F.lit("%00"))
        max_bytes = _MAX_NAME_BYTES - len(f"{name}=".encode())
        yield F.octet_length(escaped) > max_bytes, f"{label} is too long for the name of a folder"


def _check_faults(rows: DataFrame, state: DeltaState) -> Iterator[Fault]:
    """Return the faults of CHECK constraints over columns of the rows; Delta refuses null, too."""
    for name, condition in state.properties().items():
        if not name.lower().startswith(_CHECK_PREFIX) or not _can_evaluate(rows, condition):
            continue
        # Not a constant, as the guard requires.
        guard = F.monotonically_increasing_id() >= 0
        satisfied = try_expression(rows.sparkSession, F.expr(condition), guard=guard)
        is_violated = ~F.coalesce(satisfied["value"], F.lit(False))
        label = name[len(_CHECK_PREFIX) :]
        yield is_violated, f"the table's CHECK constraint {label!r} is violated: {condition}"


def _can_evaluate(rows: DataFrame, condition: str) -> bool:
    try:
        _ = rows.select(F.expr(condition)).schema
    except AnalysisException:
        return False
    return True
