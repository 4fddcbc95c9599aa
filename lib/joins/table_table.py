"""Two changing tables joined: how their changes change the join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..errors import ArgumentError, ColumnError, ColumnTypeError

WEIGHT = "_weight"
"""What happens to a row: 1, it comes; -1, it goes; 0, it stays.

A row that changes goes as it was and comes anew."""

JoinKind = Literal["inner", "left", "full"]

_OTHER = "__tidegate_other"
_HAD = "__tidegate_had"
_HAS = "__tidegate_has"


def table_table(
    left: DataFrame, right: DataFrame, *, on: str | Sequence[str], how: JoinKind = "inner"
) -> DataFrame:
    """Return the change of the join of two tables that follows from the changes of both.

    The rows of each frame bear a `_weight`: 1 for a row that comes into its table, -1 for one that
    leaves it, 0 for one that stays. The rows given have weights 1 and -1 alike: applied to the join
    as it was, they make it what it is now. By the product rule that is (change of left) x right and
    left x (change of right); nothing else is worked out. A frame without weights is a table that
    comes whole: of two such frames the join itself comes, each row once.

    Rows that stay are needed only of the join keys that change in either table, and there all of
    them; more of them change nothing and cost time. So the work grows with the change and with the
    rows that share its keys.

    As in SQL: equal keys multiply, null keys match nothing. In a left or full join a row without a
    match stands beside nulls; it goes when the first match of its key comes, and comes back when
    the last one goes. Keeps no state: the sink `tidegate.views.view.View` keeps the tables and the
    join between batches, and calls this with each one.

    Args:
        left: the rows of one table that come, go and stay.
        right: those of the other.
        on: the columns that must be equal, in both frames, of the same types.
        how: "inner", "left" or "full".

    Returns:
        the `on` columns once, the other columns of the left, those of the right, and `_weight`: 1
        or -1. The result is a change as the arguments are, so that a third table can be joined to
        it.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: Gupta, Mumick, Maintenance of Materialized Views (1995); Budiu et al., DBSP (2023), for
    the weights.

    >>> visits = clicks.groupBy("user").count()
    >>> seen = table_table(clicks.select("user", "page"), visits, on="user")
    >>> seen.columns, seen.count()
    (['user', 'page', 'count', '_weight'], 9)
    """
    keys = names(on, "on")
    left = _weighted(left)
    right = _weighted(right)
    _require_joinable(left, right, keys, how)
    columns = [*keys, *_others(left, keys), *_others(right, keys), WEIGHT]
    change = _pairs(left, right, keys, columns)
    if how != "inner":
        change = change.unionByName(_alone(left, right, keys, columns))
    if how == "full":
        change = change.unionByName(_alone(right, left, keys, columns))
    return change


def _weighted(frame: DataFrame) -> DataFrame:
    """Return a frame with weights; one that has none is a table that comes whole."""
    return frame if WEIGHT in frame.columns else frame.withColumn(WEIGHT, F.lit(1))


def _pairs(left: DataFrame, right: DataFrame, keys: list[str], columns: list[str]) -> DataFrame:
    """Return the matches that come and go, each with its weight."""
    weight = quoted(WEIGHT)
    other = quoted(_OTHER)
    weighed = right.withColumnRenamed(WEIGHT, _OTHER)
    # A row that comes and a row that goes were never in the tables together, so they are no match.
    together = (other == 0) | (other == weight)
    moved = left.where(weight != 0).join(weighed, keys).where(together)
    stayed = left.where(weight == 0).drop(WEIGHT).join(right.where(weight != 0), keys)
    return _picked(moved, columns).unionByName(_picked(stayed, columns))


def _alone(rows: DataFrame, other: DataFrame, keys: list[str], columns: list[str]) -> DataFrame:
    """Return the rows without a match that come and go, beside nulls for the other's columns."""
    weight = quoted(WEIGHT)
    # Of the other table: did a row of this key stay or go, so that it was there before, and does
    # one stay or come, so that it is there now?
    matches = other.groupBy(*map(quoted, keys)).agg(
        F.bool_or(weight <= 0).alias(_HAD), F.bool_or(weight >= 0).alias(_HAS)
    )
    was_alone = (weight <= 0) & ~F.coalesce(quoted(_HAD), F.lit(False))
    is_alone = (weight >= 0) & ~F.coalesce(quoted(_HAS), F.lit(False))
    moved = rows.join(matches, keys, "left").where(was_alone != is_alone)
    kinds = {name: other.schema[name].dataType for name in _others(other, keys)}
    added = {name: F.lit(None).cast(kind) for name, kind in kinds.items()}
    added[WEIGHT] = F.when(is_alone, 1).otherwise(-1)
    return _picked(moved.withColumns(added), columns)


def _picked(frame: DataFrame, columns: list[str]) -> DataFrame:
    return frame.select(*map(quoted, columns))


def _others(frame: DataFrame, keys: list[str]) -> list[str]:
    return [name for name in frame.columns if name not in keys and name != WEIGHT]


def _require_joinable(left: DataFrame, right: DataFrame, keys: list[str], how: str) -> None:
    if how not in ("inner", "left", "full"):
        raise ArgumentError(
            f"how is {how!r}.", '"inner", "left" or "full".', "swap the frames for a right join."
        )
    if not keys:
        raise ArgumentError("on names no column.", "one column or more.", 'on="user"')
    require(left, [*keys, WEIGHT], "on (left)")
    require(right, [*keys, WEIGHT], "on (right)")
    mine = {name.lower() for name in left.columns}
    both = [name for name in _others(right, keys) if name.lower() in mine]
    if both:
        raise ColumnError(
            f"left and right both have {', '.join(both)}.",
            "no common columns but those of on.",
            f"withColumnRenamed({both[0]!r}, {'right_' + both[0]!r}) on the right.",
        )
    for name in keys:
        kind = left.schema[name].dataType.simpleString()
        other = right.schema[name].dataType.simpleString()
        if kind != other:
            raise ColumnTypeError(
                f"{name} is {kind} on the left and {other} on the right.",
                "one type.",
                f"withColumn({name!r}, F.col({name!r}).cast({kind!r})) on the right.",
            )
