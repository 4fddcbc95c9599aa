"""The history of a table from its changes: each version of a row, and when it was valid."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted
from .change import TOMBSTONE, TRUNCATE, has_key, key_names, moved, no_row, row_names

VALIDITY = ("valid_from", "valid_to", "is_current", "op", "position")
_ARRIVAL, _LAST, _AGAIN, _RANK, _CUTS, _FIRST, _NEW, _WAS = (
    f"__tidegate_{name}"
    for name in ("arrival", "last", "again", "rank", "cuts", "first", "new", "was")
)
_ORDER = "age INT, topic STRING, partition INT, offset BIGINT"
_CUT = "array<struct<at:timestamp,position:array<bigint>>>"


def versions(changes: DataFrame) -> DataFrame:
    """Return every version of every row, with the time for which it was valid: a slowly changing dimension of type 2.

    A version is valid from its change's source time, inclusive, to that of the key's next change,
    exclusive; null is "still". So the versions of a living key have neither overlaps nor gaps, in
    whatever order the changes came: a late one is put where it belongs. At one instant a key has
    one version, that of the highest position; the others would have been valid for no time and are
    left out. Each change makes a version, also one that changed no value.

    An end of a key (delete, truncate, tombstone) is kept as a row without values that is valid for
    no time, valid_to =
    valid_from: a change that comes late needs to know of it, and an as-of join never meets it.
    `valid_to IS NULL OR valid_from < valid_to` leaves the versions alone. A truncate is a row
    without a key, and ends all versions of lower positions that began no later.

    A tombstone has no time of its own. After a delete it says nothing new and is left out; else it
    ends its key when Kafka took it, or when the next change was made, if that was before. Equal
    positions are one change, of which the last to come holds; where that came after a tombstone
    that had ended it, the tombstone was a repeated one and is forgotten.

    Times are the source's: should its clock go back between two changes of a key, the history
    follows the clock, and `newest` the log. Changes without a key or a time are in no version; the
    formats make dead letters of them.

    Args:
        changes: a batch of the rows of `debezium` or `maxwell`.

    Returns:
        the table's columns, `valid_from`, `valid_to`, `is_current`, `op` (the change that began the
        version), `position`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium
    >>> from tidegate.formats import json_format
    >>> customers = debezium("id INT, name STRING", key="id", using=json_format)
    >>> versions(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'valid_from', 'valid_to', 'is_current', 'op', 'position']
    """
    return _timeline(_rows(changes), key_names(changes), row_names(changes))


def revised(table: DataFrame, changes: DataFrame, *, truncated: bool) -> DataFrame:
    """Return what a table of versions must change to take up more changes: of the keys that they touch, what differs.

    `truncated` says whether there is a truncate among the changes, which touches all keys that
    lived then or later.

    Returns:
        the table's columns, and `was`: the row that the table has for this key and valid_from, null
        where there is none. In a row that has to go all but key, valid_from and `was` is null, `op`
        included.
    """
    keys, names = key_names(changes), row_names(changes)
    known = _touched(table.select(*map(quoted, names), *VALIDITY), changes, keys, truncated)
    age = F.when(F.col("op") == F.lit(TOMBSTONE), 1).otherwise(0)
    nowhere = [F.lit(None)] * 3
    stored = known.drop("valid_to", "is_current").withColumn(_ARRIVAL, _arrival(age, *nowhere))
    timeline = _timeline(stored.unionByName(_rows(changes)), keys, names)
    return _differences(timeline, known, keys, names)


def _rows(changes: DataFrame) -> DataFrame:
    known = moved(changes).where(F.col("event_time").isNotNull())
    keyed = known.where(has_key(changes) | (F.col("op") == F.lit(TRUNCATE)))
    place = [F.col("place").getField(name) for name in ("topic", "partition", "offset")]
    keys = key_names(changes)
    values = [
        F.col("key" if name in keys else "after").getField(name).alias(name)
        for name in row_names(changes)
    ]
    return keyed.select(
        *values,
        F.col("event_time").alias("valid_from"),
        "op",
        "position",
        _arrival(F.lit(2), *place).alias(_ARRIVAL),
    )


def _arrival(age: Column, *place: Column) -> Column:
    """Return what tells which of two changes came first; of those stored, tombstones came after
    what they end."""
    return F.struct(age, *place).cast(f"struct<{_ORDER.replace(' ', ':').replace(',:', ',')}>")


def _touched(table: DataFrame, changes: DataFrame, keys: list[str], truncated: bool) -> DataFrame:
    """Return the table's rows of those keys that get other versions, and its truncates."""
    touched = moved(changes).select(*[F.col("key").getField(name).alias(name) for name in keys])
    nothing = touched.sparkSession.range(1).select(
        *[F.lit(None).cast(touched.schema[name].dataType).alias(name) for name in keys]
    )
    touched = touched.unionByName(nothing)
    if truncated:
        touched = touched.unionByName(_lived(table, changes).select(*map(quoted, keys)))
    asked = touched.distinct().select(*[quoted(name).alias(_asked(name)) for name in keys])
    same = reduce(and_, [quoted(name).eqNullSafe(quoted(_asked(name))) for name in keys])
    return table.join(asked, same, "left_semi")


def _lived(table: DataFrame, changes: DataFrame) -> DataFrame:
    """Return the versions that were valid when the table was emptied, or later."""
    first = changes.where(F.col("op") == F.lit(TRUNCATE)).agg(F.min("event_time").alias(_FIRST))
    later = F.col("valid_to").isNull() | (F.col("valid_to") > F.col(_FIRST))
    return table.crossJoin(F.broadcast(first)).where(later)


def _asked(name: str) -> str:
    return f"__tidegate_asked_{name}"


def _timeline(rows: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """Order each key's changes by their times; see `versions` for the rules."""
    key = [quoted(name) for name in keys]
    single = _single(_telling(_once(rows, key), key), key)
    valid = _valid(single.crossJoin(F.broadcast(_cuts(rows))), key)
    return valid.withColumn("is_current", F.col("valid_to").isNull()).select(
        *map(quoted, names), *VALIDITY
    )


def _is_stone() -> Column:
    return F.col("op") == F.lit(TOMBSTONE)


def _once(rows: DataFrame, key: list[Column]) -> DataFrame:
    """Place the tombstones that have no position, and keep one change of those at the same one."""
    whole = (Window.unboundedPreceding, Window.unboundedFollowing)
    so_far = (
        Window.partitionBy(*key)
        .orderBy(_ARRIVAL)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = F.coalesce("position", F.max("position").over(so_far), F.array().cast("array<bigint>"))
    equal = Window.partitionBy(*key, "position").orderBy(_is_stone(), _ARRIVAL).rowsBetween(*whole)
    last = F.max(F.when(~_is_stone(), F.col(_ARRIVAL))).over(equal)
    latest = F.col(_ARRIVAL) == F.col(_LAST)
    after = F.coalesce(F.col(_ARRIVAL) > F.col(_LAST), F.lit(True))
    placed = rows.withColumn("position", known).withColumn(_LAST, last)
    return placed.where(F.when(_is_stone(), after).otherwise(latest))


def _telling(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Leave out tombstones after an end, and put the others before the change that follows in the
    log."""
    logged = Window.partitionBy(*key).orderBy("position", _is_stone(), _ARRIVAL)
    again = _is_stone() & F.coalesce(no_row(F.lag("op").over(logged)), F.lit(False))
    following = F.min("valid_from").over(logged.rowsBetween(1, Window.unboundedFollowing))
    at = F.when(_is_stone(), F.least("valid_from", following)).otherwise(F.col("valid_from"))
    return changes.withColumns({_AGAIN: again, "valid_from": at}).where(~F.col(_AGAIN))


def _single(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Keep one change of those at the same instant."""
    highest = Window.partitionBy(*key, "valid_from").orderBy(F.desc("position"), _is_stone().desc())
    return changes.withColumn(_RANK, F.row_number().over(highest)).where(F.col(_RANK) == 1)


def _valid(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Add until when each was valid, and leave out what a truncate ended where it began."""
    ended, at = no_row(F.col("op")), F.col("valid_from")
    cuts = F.filter(
        F.col(_CUTS), lambda cut: (cut["at"] >= at) & (cut["position"] > F.col("position"))
    )
    following = F.lead("valid_from").over(Window.partitionBy(*key).orderBy("valid_from"))
    until = F.when(ended, at).otherwise(F.least(following, F.array_min(cuts["at"])))
    valid = changes.withColumn("valid_to", until)
    return valid.where(ended | F.col("valid_to").isNull() | (F.col("valid_to") > at))


def _cuts(rows: DataFrame) -> DataFrame:
    """Collect when and where in the log the whole table was emptied; one row."""
    truncates = rows.where(F.col("op") == F.lit(TRUNCATE))
    found = F.collect_set(F.struct(F.col("valid_from").alias("at"), "position"))
    return truncates.agg(found.cast(_CUT).alias(_CUTS))


def _differences(
    timeline: DataFrame, known: DataFrame, keys: list[str], names: list[str]
) -> DataFrame:
    rest = [name for name in (*names, *VALIDITY) if name not in (*keys, "valid_from")]
    row, nothing = F.struct(*map(quoted, rest)), F.lit(None)
    kind = known.select(row.alias("row")).schema["row"].dataType
    identity = [*map(quoted, keys), F.col("valid_from")]
    new = timeline.select(*identity, row.cast(kind).alias(_NEW), nothing.cast(kind).alias(_WAS))
    was = known.select(*identity, nothing.cast(kind).alias(_NEW), row.alias(_WAS))
    both = (
        new.unionByName(was)
        .groupBy(*identity)
        .agg(
            F.max_by(_NEW, F.col(_NEW).isNotNull()).alias(_NEW),
            F.max_by(_WAS, F.col(_WAS).isNotNull()).alias(_WAS),
        )
    )
    differs = both.where(~F.col(_NEW).eqNullSafe(F.col(_WAS)))
    fields = [
        quoted(name) if name in (*keys, "valid_from") else F.col(_NEW).getField(name).alias(name)
        for name in (*names, *VALIDITY)
    ]
    return differs.select(*fields, F.col(_WAS).alias("was"))
