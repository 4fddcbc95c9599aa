"""The newest change of each key: what a current table takes of a batch of changes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .change import TRUNCATE, has_key, key_names, moved, no_row, row_names

_LAST = "__tidegate_last"
_TOMBSTONE = "__tidegate_stone"
_TRUNCATE = "__tidegate_cut"


def newest(changes: DataFrame) -> DataFrame:
    """Return each key's row after its newest change, in the order of the log.

    A key's change with the highest position wins; of changes at one position, such as redelivered
    ones, the change that came last by its place in the topic. Deletes and truncates leave a row of
    the key alone, marked `deleted`. A truncate ends all keys with lower positions, and has a row of
    its own whose key is null, since it counts for keys that come later too. An update that changes
    the key ends the old key.

    A tombstone without a position (position="source") stands right after the newest change of its
    key that came before it. That change may be in the table alone: where a key has tombstones only,
    `position` is that of the last truncate, or null, and `tidegate.sinks.Current` compares the
    tombstone with the table.

    State: none; `changes` is a batch, or a micro-batch inside a sink. Changes without a whole key
    are left out: the formats make dead letters of them.

    Args:
        changes: the rows of `debezium` or `maxwell`.

    Returns:
        the table's columns, `changed_at` (the source's time), `deleted`, `position`, and
        `tombstone`, the time of the key's last tombstone.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium
    >>> customers = debezium("id INT, name STRING", key="id")
    >>> newest(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'changed_at', 'deleted', 'position', 'tombstone']
    """
    is_truncate = F.col("op") == F.lit(TRUNCATE)
    known = moved(changes).where(has_key(changes) | is_truncate)
    is_placed = F.col("position").isNotNull()
    log_order = F.when(is_placed, F.struct("position", "place"))
    last = F.struct("position", "place", "event_time", "op", "after")
    tombstone = F.when(~is_placed, F.struct("place", "event_time"))
    of_keys = known.groupBy("key").agg(
        F.max_by(last, log_order).alias(_LAST), F.max(tombstone).alias(_TOMBSTONE)
    )
    truncate = F.struct("position", "event_time")
    last_truncate = known.where(is_truncate).agg(F.max(truncate).alias(_TRUNCATE))
    both = of_keys.crossJoin(F.broadcast(last_truncate))
    return _rows(both, key_names(changes), row_names(changes))


def _rows(found: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """Return the rows of a table: of each key what its last change left, and when it ended."""
    last = F.col(_LAST)
    tombstone = F.col(_TOMBSTONE)
    truncate = F.col(_TRUNCATE)
    # What ended a key: a tombstone after its last change, a truncate after it, or this change.
    by_tombstone = F.coalesce(tombstone["place"] > last["place"], last.isNull())
    by_truncate = F.coalesce(last["position"] < truncate["position"], F.lit(False))
    by_itself = F.coalesce(no_row(last["op"]), F.lit(False))
    ended = by_tombstone | by_truncate | by_itself

    def value(name: str) -> Column:
        if name in keys:
            return F.col("key").getField(name).alias(name)
        return F.when(~ended, last["after"].getField(name)).alias(name)

    # A tombstone after a delete says nothing new, so that the delete's time stands.
    is_newer = by_tombstone & ~by_itself
    own_time = F.when(is_newer, tombstone["event_time"]).otherwise(last["event_time"])
    changed_at = F.when(by_truncate, truncate["event_time"]).otherwise(own_time)
    of_truncate = by_truncate | last.isNull()
    position = F.when(of_truncate, truncate["position"]).otherwise(last["position"])
    return found.select(
        *map(value, names),
        changed_at.alias("changed_at"),
        ended.alias("deleted"),
        position.alias("position"),
        tombstone["event_time"].alias("tombstone"),
    )
