"""The newest change of each key: what a current table takes of a batch, and the whole of it from a
whole log."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .change import TRUNCATE, has_key, key_names, moved, no_row, row_names

_LAST, _STONE, _CUT = (f"__tidegate_{name}" for name in ("last", "stone", "cut"))


def newest(changes: DataFrame) -> DataFrame:
    """Return each key's row after its newest change, in the order of the log.

    The highest position of a key wins; of changes at the same position, a redelivered one for
    instance, the one that came last by its place in the topic. Deletes and truncates leave a row of
    the key alone, marked `deleted`; a truncate ends all keys with lower positions, and has a row of
    its own whose key is null, since it counts for keys that come later too. An update that changes
    the key ends the old one.

    A tombstone without a position (position="source") stands right after the newest change of its
    key that came before it. What that is may be told by the table alone: where a key has tombstones
    only, `position` is that of the last truncate, or null; `tombstone` is the time of a key's last
    one; `tidegate.sinks.Current` sees to it.

    A batch, or a micro-batch inside a sink; no state. Changes without a whole key are left out, the
    formats make dead letters of them.

    Args:
        changes: the rows of `debezium` or `maxwell`.

    Returns:
        the table's columns, `changed_at` (the source's time), `deleted`, `position`, `tombstone`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium
    >>> from tidegate.formats import json_format
    >>> customers = debezium("id INT, name STRING", key="id", using=json_format)
    >>> newest(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'changed_at', 'deleted', 'position', 'tombstone']
    """
    keys, names = key_names(changes), row_names(changes)
    known = moved(changes).where(has_key(changes) | (F.col("op") == F.lit(TRUNCATE)))
    placed = F.col("position").isNotNull()
    last = F.struct("position", "place", "event_time", "op", "after")
    grouped = known.groupBy("key").agg(
        F.max_by(last, F.when(placed, F.struct("position", "place"))).alias(_LAST),
        F.max(F.when(~placed, F.struct("place", "event_time"))).alias(_STONE),
    )
    cut = known.where(F.col("op") == F.lit(TRUNCATE)).agg(
        F.max(F.struct("position", "event_time")).alias(_CUT)
    )
    return _rows(grouped.crossJoin(F.broadcast(cut)), keys, names)


def _rows(grouped: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    last, stone, cut = F.col(_LAST), F.col(_STONE), F.col(_CUT)
    stoned = F.coalesce(stone["place"] > last["place"], last.isNull())
    overtaken = F.coalesce(last["position"] < cut["position"], F.lit(False))
    gone = F.coalesce(no_row(last["op"]), F.lit(False))
    ended = stoned | overtaken | gone

    def value(name: str) -> Column:
        found = (
            F.col("key").getField(name)
            if name in keys
            else F.when(~ended, last["after"].getField(name))
        )
        return found.alias(name)

    stopped = F.when(stoned & ~gone, stone["event_time"]).otherwise(last["event_time"])
    return grouped.select(
        *map(value, names),
        F.when(overtaken, cut["event_time"]).otherwise(stopped).alias("changed_at"),
        ended.alias("deleted"),
        F.when(overtaken | last.isNull(), cut["position"])
        .otherwise(last["position"])
        .alias("position"),
        stone["event_time"].alias("tombstone"),
    )
