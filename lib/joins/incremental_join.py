"""Incremental join of two changing tables: the change of the join by the changes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import quoted_column, require_column_names, require_columns, require_dataframe
from ..errors import ArgumentError
from ._sides import require_distinct_columns, require_equal_keys

WEIGHT = "_weight"
"""The weight of a row: 1 for an inserted, -1 for a deleted and 0 for an unchanged row.

An updated row is a deletion of the old row and an insertion of the new one."""

IncrementalJoinType = Literal["inner", "left", "full"]

_OTHER_WEIGHT = "__tidegate_other"
_HAD_MATCH = "__tidegate_had"
_HAS_MATCH = "__tidegate_has"


def table_table(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    how: IncrementalJoinType = "inner",
) -> DataFrame:
    """Compute how the join of two tables changes, from the changes of both tables.

    The column `_weight` of each frame is 1 for an inserted, -1 for a deleted and 0 for an unchanged
    row. The result has weights 1 and -1: applied to the previous join, it yields the current join.
    By the product rule it is (change of left) x right plus left x (change of right). A frame
    without weights counts as inserted completely: two such frames return their join.

    Unchanged rows are required for join keys that change in either table, and then all of them;
    further rows have no effect. The cost is proportional to the changes and the rows with their
    keys.

    As in SQL, equal keys multiply and null keys match nothing. In a left or full join, a row
    without a match is joined with nulls; this row is deleted with the first match of its key and
    inserted again when the last match is deleted. Stateless: the sink `tidegate.views.View` stores
    the tables and the join between batches and calls this function for each batch.

    Args:
        left: the inserted, deleted and unchanged rows of the left table.
        right: the same of the right table.
        on: the columns with equal values, with the same types in both frames.
        how: "inner", "left" or "full".

    Returns:
        The `on` columns, the other columns of the left, those of the right, and `_weight`, 1 or -1.
        The result can in turn be joined with a third table.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Gupta, Mumick, Maintenance of Materialized Views (1995); Budiu et al., DBSP (2023), for
    the weights.

    >>> visits = clicks.groupBy("user").count()
    >>> change = table_table(clicks.select("user", "page"), visits, on="user")
    >>> change.columns, change.count()
    (['user', 'page', 'count', '_weight'], 9)
    """
    keys = require_column_names(on, "on")
    for name, frame in (("left", left), ("right", right)):
        require_dataframe(frame, name)
        if frame.isStreaming:
            raise ArgumentError(
                f"invalid {name}: a stream",
                "a batch",
                "the sink tidegate.views.View, or stream_stream for two streams",
            )
    left = _with_weight(left)
    right = _with_weight(right)
    _require_joinable(left, right, keys, how)
    columns = [*keys, *_payload_columns(left, keys), *_payload_columns(right, keys), WEIGHT]
    change = _matched_deltas(left, right, keys, columns)
    if how != "inner":
        change = change.unionByName(_unmatched_deltas(left, right, keys, columns))
    if how == "full":
        change = change.unionByName(_unmatched_deltas(right, left, keys, columns))
    return change


def _with_weight(frame: DataFrame) -> DataFrame:
    """Return a frame with weights; rows without a weight are inserted rows."""
    return frame if WEIGHT in frame.columns else frame.withColumn(WEIGHT, F.lit(1))


def _matched_deltas(
    left: DataFrame, right: DataFrame, keys: list[str], columns: list[str]
) -> DataFrame:
    weight = quoted_column(WEIGHT)
    other_weight = quoted_column(_OTHER_WEIGHT)
    right_weighted = right.withColumnRenamed(WEIGHT, _OTHER_WEIGHT)
    # An inserted and a deleted row never exist at the same time, so they do not match.
    is_pair = (other_weight == 0) | (other_weight == weight)
    changed = left.where(weight != 0).join(right_weighted, keys).where(is_pair)
    unchanged = left.where(weight == 0).drop(WEIGHT).join(right.where(weight != 0), keys)
    return _select_output(changed, columns).unionByName(_select_output(unchanged, columns))


def _unmatched_deltas(
    rows: DataFrame, other: DataFrame, keys: list[str], columns: list[str]
) -> DataFrame:
    """Return the inserted and deleted unmatched rows, with nulls for the columns of the other."""
    weight = quoted_column(WEIGHT)
    # Whether the other table had a row with this key before the change, and has one after it.
    matches = other.groupBy(*map(quoted_column, keys)).agg(
        F.bool_or(weight <= 0).alias(_HAD_MATCH), F.bool_or(weight >= 0).alias(_HAS_MATCH)
    )
    was_unmatched = (weight <= 0) & ~F.coalesce(quoted_column(_HAD_MATCH), F.lit(False))
    is_unmatched = (weight >= 0) & ~F.coalesce(quoted_column(_HAS_MATCH), F.lit(False))
    changed = rows.join(matches, keys, "left").where(was_unmatched != is_unmatched)
    types = {name: other.schema[name].dataType for name in _payload_columns(other, keys)}
    null_columns = {name: F.lit(None).cast(data_type) for name, data_type in types.items()}
    null_columns[WEIGHT] = F.when(is_unmatched, 1).otherwise(-1)
    return _select_output(changed.withColumns(null_columns), columns)


def _select_output(frame: DataFrame, columns: list[str]) -> DataFrame:
    return frame.select(*map(quoted_column, columns))


def _payload_columns(frame: DataFrame, keys: list[str]) -> list[str]:
    return [name for name in frame.columns if name not in keys and name != WEIGHT]


def _require_joinable(left: DataFrame, right: DataFrame, keys: list[str], how: str) -> None:
    if how not in ("inner", "left", "full"):
        raise ArgumentError(
            f"invalid how: {how!r}", "'inner', 'left' or 'full'", "swap the frames for a right join"
        )
    if not keys:
        raise ArgumentError("invalid on: no columns", "one or more columns", 'on="user"')
    require_equal_keys(left, right, keys)
    require_columns(left, [WEIGHT], "left")
    require_columns(right, [WEIGHT], "right")
    require_distinct_columns(left, _payload_columns(right, keys))
