"""Changes whose row a current table or a history table cannot store."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...changelogs.change_schema import ROW_OPS, current_row, row_names
from ...columns import Fault
from ...delta.row_constraints import value_faults
from ...delta.table_layout import TableLayout


def change_faults(changes: DataFrame, path: str, layout: TableLayout) -> list[Fault]:
    """Return the faults of the row that each change leaves.

    The row of a deletion has nulls except in its key, so NOT NULL is not checked for it.
    """
    values = dict(zip(row_names(changes), current_row(changes), strict=True))
    texts, nulls = value_faults(changes, path, layout, values)
    is_row = F.col("op").isin(*ROW_OPS)
    return [*texts, *[(is_row & condition, reason) for condition, reason in nulls]]
