"""What lies between two states of a table: at most one change of each key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted, require
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from .change import CHANGE, CREATE, DELETE, UPDATE, row_type

IS_OLD = "__tidegate_is_old"
"""The mark of a row as it was before its change."""

_BEFORE = "__tidegate_before"
_AFTER = "__tidegate_after"
_OLD = "__tidegate_old"
_NEW = "__tidegate_new"
_LAST = "__tidegate_last"
_AT = "__tidegate_at"
_PLACE = "__tidegate_place"
NOT_UNIQUE = "is the key of several rows, or is null"


def changes_between(
    old: DataFrame,
    new: DataFrame,
    *,
    key: str | Sequence[str],
    position: Sequence[int],
    at: datetime,
    of: str = "snapshot",
) -> DataFrame:
    """Return the changes that make one snapshot of a table into another.

    So snapshots have a changelog where the source has none: `versions` of the changes between each
    snapshot and the next is the table's history, as far as the snapshots tell it. What changed
    and changed back between two snapshots is in none. A row that is the same in both is no change.

    Cost: both snapshots are read and shuffled by key, whatever has changed.

    Args:
        old: a batch, the older snapshot.
        new: a batch with the same columns, none of them a map.
        key: the columns by which rows are told apart; in each snapshot a key has one row.
        position: what orders these changes after those between older snapshots, such as `[7]`.
        at: the instant of the newer snapshot, with its zone: `event_time` of its changes.
        of: what `place.topic` says, such as the table's name.

    Returns:
        changes as the formats make them, with `op` create, update or delete, for `newest`,
        `versions`, `Current` and `History`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. A null key, and one that several
            rows have, are errors of the query.

    >>> old = spark.sql("SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b'")
    >>> new = spark.sql("SELECT 1 AS id, 'a' AS name UNION ALL SELECT 3, 'c'")
    >>> at = datetime.fromisoformat("2026-01-02T00:00:00Z")
    >>> found = changes_between(old, new, key="id", position=[2], at=at)
    >>> sorted((row.key.id, row.op) for row in found.collect())
    [(2, 'delete'), (3, 'create')]
    """
    require(old, [], "old")
    require(new, [], "new")
    columns, keys = row_type(new.schema, key)
    _require_same(old, columns)
    _require_batches(old, new)
    numbers = whole_numbers(position, "position")
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ArgumentError(f"at is {at!r}.", "an instant: a datetime with its zone.")
    both = old.withColumn(IS_OLD, F.lit(True)).unionByName(new.withColumn(IS_OLD, F.lit(False)))
    placed_at = F.array(*map(F.lit, numbers))
    ordered = placed(both, placed_at, F.lit(at), of)
    return netted(stepped(ordered, columns, keys), keys)


def stepped(rows: DataFrame, columns: StructType, keys: Sequence[str]) -> DataFrame:
    """Return what each step has made of each key: its row before and after, and how many there are.

    rows: with IS_OLD, and with what `placed` gives them.
    """
    row = F.struct(*map(quoted, columns.names))
    is_old = quoted(IS_OLD)
    named = [quoted(name).alias(name) for name in keys]
    marked = rows.select(
        F.struct(*named).alias("key"),
        F.when(is_old, row).alias(_BEFORE),
        F.when(~is_old, row).alias(_AFTER),
        _LAST, _AT, _PLACE,
    )  # fmt: skip
    return marked.groupBy("key", _LAST, _AT, _PLACE).agg(
        F.first(_BEFORE, ignorenulls=True).alias(_BEFORE),
        F.first(_AFTER, ignorenulls=True).alias(_AFTER),
        F.count(_BEFORE).alias(_OLD),
        F.count(_AFTER).alias(_NEW),
    )


def placed(rows: DataFrame, position: Column, at: Column, of: str) -> DataFrame:
    """Return rows with the position, the time and the place of the step that they belong to."""
    place = F.struct(F.lit(of), F.lit(0), F.element_at(position, -1))
    return rows.withColumns(
        {
            _LAST: position.cast("array<bigint>"),
            _AT: at,
            _PLACE: place.cast("struct<topic:string,partition:int,offset:bigint>"),
        }
    )


def netted(steps: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return at most one change of each key, from before its first step to after its last.

    A key whose rows are the same before and after has none.
    """
    by_key = _whole(steps)
    first = F.col("first")
    last = F.col("last")
    unkeyed = reduce(or_, [F.col("key")[name].isNull() for name in keys])
    # Each step has so many rows of the key as the steps before it have left.
    broken = first[_OLD] + F.col("gain") != last[_NEW]
    sound = unique(by_key, (F.col("most") > 1) | broken | unkeyed)
    before = first[_BEFORE]
    after = last[_AFTER]
    op = F.when(before.isNull(), CREATE).when(after.isNull(), DELETE).otherwise(UPDATE)
    changed = sound.where(~before.eqNullSafe(after))
    values = (op, F.col("key"), before, after, last[_LAST], last[_AT], last[_PLACE])
    return changed.select(*[value.alias(name) for name, value in zip(CHANGE, values, strict=True)])


def _whole(steps: DataFrame) -> DataFrame:
    """Return of each key its first and last step, the most rows it had, and how many it gained."""
    order = F.col(_LAST)
    first = F.min_by(F.struct(_BEFORE, _OLD), order)
    last = F.max_by(F.struct(_AFTER, _NEW, _LAST, _AT, _PLACE), order)
    return steps.groupBy("key").agg(
        first.alias("first"),
        last.alias("last"),
        F.max(F.greatest(_OLD, _NEW)).alias("most"),
        F.sum(F.col(_NEW) - F.col(_OLD)).alias("gain"),
    )


def unique(rows: DataFrame, fault: Column) -> DataFrame:
    """Return rows that raise an error, when they are computed, for a key that names several."""
    told = F.concat(F.to_json("key"), F.lit(f" {NOT_UNIQUE}"))
    refuse = F.raise_error(told).cast("boolean")
    return rows.where(F.when(fault, refuse).otherwise(F.lit(True)))


def _require_same(old: DataFrame, columns: StructType) -> None:
    theirs = {field.name: field.dataType for field in old.schema}
    ours = {field.name: field.dataType for field in columns}
    if theirs.keys() != ours.keys():
        raise ColumnError(
            f"old has the columns {', '.join(theirs)}, and new {', '.join(ours)}.",
            "the same columns in both.",
        )
    for name, kind in ours.items():
        if theirs[name].simpleString() != kind.simpleString():
            raise ColumnTypeError(
                f"{name} is {theirs[name].simpleString()} in old and {kind.simpleString()} in new.",
                "the same types in both.",
            )


def _require_batches(*frames: DataFrame) -> None:
    if any(frame.isStreaming for frame in frames):
        raise ArgumentError("old or new is a stream.", "batches.")


def whole_numbers(given: Sequence[int], what: str) -> list[int]:
    """Return a position as a list of whole numbers, and refuse any other value."""
    if (
        isinstance(given, str)
        or not isinstance(given, Sequence)
        or not given
        or not all(isinstance(each, int) and not isinstance(each, bool) for each in given)
    ):
        raise ArgumentError(f"{what} is {given!r}.", "a list of whole numbers.", f"{what}=[7]")
    return list(given)
