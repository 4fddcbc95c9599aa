"""The history of a table from its changes: each version of a row, and when it was valid."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted
from ._revising import VALIDITY, differing, touched
from .change import TOMBSTONE, TRUNCATE, has_key, key_names, moved, no_row, row_names

_ARRIVAL = "__tidegate_arrival"
_LAST = "__tidegate_last"
_AGAIN = "__tidegate_again"
_RANK = "__tidegate_rank"
_TRUNCATES = "__tidegate_cuts"
_ARRIVAL_TYPE = "struct<age:int,topic:string,partition:int,offset:bigint>"
_TRUNCATES_TYPE = "array<struct<at:timestamp,position:array<bigint>>>"
# How long ago a change came: changes that the table holds before those of this batch, and of
# the table's the tombstones last, since they came after the changes that they end.
_STORED = 0
_STORED_TOMBSTONE = 1
_FRESH = 2


def versions(changes: DataFrame) -> DataFrame:
    """Return every version of every row, with the time for which it was valid.

    This is a slowly changing dimension of type 2. A version is valid from its change's source time,
    inclusive, to the time of the key's next change, exclusive; null means that it is valid still.
    So the versions of a living key have neither overlaps nor gaps, in whatever order the changes
    came: a late change is put where it belongs. At one instant a key has one version, that of the
    highest position; other versions of that instant would have been valid for no time, and are left
    out. Each change makes a version, also a change of no value.

    An end of a key (delete, truncate, tombstone) is kept as a row without values that is valid for
    no time, valid_to = valid_from: a change that comes late needs to know of it, and an as-of join
    never meets it. `valid_to IS NULL OR valid_from < valid_to` selects the versions alone. A
    truncate is a row without a key, and ends all versions of lower positions that began no later.

    A tombstone has no time of its own. After a delete it says nothing new and is left out.
    Otherwise it ends its key when Kafka took it, or when the next change was made, whichever was
    first. Changes at equal positions are one change, of which the last to come holds. Where that
    came after a tombstone which had ended the change, the tombstone was a repeated one and is
    forgotten.

    Times are the source's: where its clock goes back between two changes of a key, the history
    follows the clock, and `newest` the log. Changes without a key or a time are in no version: the
    formats make dead letters of them.

    Args:
        changes: a batch of the rows of `debezium` or `maxwell`.

    Returns:
        the table's columns, `valid_from`, `valid_to`, `is_current`, `op` (the change that began the
        version), `position`.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.formats import debezium
    >>> customers = debezium("id INT, name STRING", key="id")
    >>> versions(spark.createDataFrame([], customers.schema)).columns
    ['id', 'name', 'valid_from', 'valid_to', 'is_current', 'op', 'position']
    """
    return _timeline(_rows(changes), key_names(changes), row_names(changes))


def revised(table: DataFrame, changes: DataFrame, *, truncated: bool) -> DataFrame:
    """Return the rows of a table of versions that must change, to take up more changes.

    Args:
        table: the table, as `versions` makes it.
        changes: a batch of further changes.
        truncated: whether there is a truncate among the changes, which touches all keys that lived
            then or later.

    Returns:
        the table's columns, and `was`: the row that the table has for this key and valid_from, null
        where there is none. In a row that must be deleted all but key, valid_from and `was` is
        null, `op` too.
    """
    keys = key_names(changes)
    names = row_names(changes)
    known = touched(
        table.select(*map(quoted, names), *VALIDITY), changes, keys, truncated=truncated
    )
    age = F.when(F.col("op") == F.lit(TOMBSTONE), _STORED_TOMBSTONE).otherwise(_STORED)
    nowhere = F.lit(None)
    arrival = _arrival(age, nowhere, nowhere, nowhere)
    stored = known.drop("valid_to", "is_current").withColumn(_ARRIVAL, arrival)
    timeline = _timeline(stored.unionByName(_rows(changes)), keys, names)
    return differing(timeline, known, keys, names)


def _rows(changes: DataFrame) -> DataFrame:
    """Return a row for each change, with the columns of a version that it begins."""
    known = moved(changes).where(F.col("event_time").isNotNull())
    keyed = known.where(has_key(changes) | (F.col("op") == F.lit(TRUNCATE)))
    keys = key_names(changes)

    def value(name: str) -> Column:
        part = F.col("key") if name in keys else F.col("after")
        return part.getField(name).alias(name)

    place = F.col("place")
    arrival = _arrival(F.lit(_FRESH), place["topic"], place["partition"], place["offset"])
    return keyed.select(
        *map(value, row_names(changes)),
        F.col("event_time").alias("valid_from"),
        "op",
        "position",
        arrival.alias(_ARRIVAL),
    )


def _arrival(age: Column, topic: Column, partition: Column, offset: Column) -> Column:
    """Return a value that is greater for the later of two changes to come."""
    return F.struct(age, topic, partition, offset).cast(_ARRIVAL_TYPE)


def _timeline(rows: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """Return the versions that changes make, each key's in the order of their times.

    `versions` says the rules, which are applied here one after the other.
    """
    key = [quoted(name) for name in keys]
    placed = _one_a_position(_placed(rows, key), key)
    timed = _one_an_instant(_with_timed_tombstones(placed, key), key)
    valid = _valid(timed.crossJoin(F.broadcast(_truncates(rows))), key)
    marked = valid.withColumn("is_current", F.col("valid_to").isNull())
    return marked.select(*map(quoted, names), *VALIDITY)


def _is_tombstone() -> Column:
    return F.col("op") == F.lit(TOMBSTONE)


def _placed(rows: DataFrame, key: list[Column]) -> DataFrame:
    """Give a change without a position, a tombstone, the highest position that came before it."""
    arrived = Window.partitionBy(*key).orderBy(_ARRIVAL)
    so_far = arrived.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    lowest = F.array().cast("array<bigint>")
    position = F.coalesce("position", F.max("position").over(so_far), lowest)
    return rows.withColumn("position", position)


def _one_a_position(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Keep the last change of those at one position, and the tombstones that came after it."""
    at_position = Window.partitionBy(*key, "position").orderBy(_is_tombstone(), _ARRIVAL)
    whole = at_position.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    last = F.max(F.when(~_is_tombstone(), F.col(_ARRIVAL))).over(whole)
    is_last = F.col(_ARRIVAL) == F.col(_LAST)
    is_after = F.coalesce(F.col(_ARRIVAL) > F.col(_LAST), F.lit(True))
    kept = F.when(_is_tombstone(), is_after).otherwise(is_last)
    return changes.withColumn(_LAST, last).where(kept)


def _with_timed_tombstones(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Leave out tombstones after an end, and time the others before the next change in the log."""
    logged = Window.partitionBy(*key).orderBy("position", _is_tombstone(), _ARRIVAL)
    again = _is_tombstone() & F.coalesce(no_row(F.lag("op").over(logged)), F.lit(False))
    following = F.min("valid_from").over(logged.rowsBetween(1, Window.unboundedFollowing))
    time = F.when(_is_tombstone(), F.least("valid_from", following))
    time = time.otherwise(F.col("valid_from"))
    return changes.withColumns({_AGAIN: again, "valid_from": time}).where(~F.col(_AGAIN))


def _one_an_instant(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Keep the change with the highest position of those at one instant."""
    order = [F.desc("position"), _is_tombstone().desc()]
    highest = Window.partitionBy(*key, "valid_from").orderBy(*order)
    return changes.withColumn(_RANK, F.row_number().over(highest)).where(F.col(_RANK) == 1)


def _valid(changes: DataFrame, key: list[Column]) -> DataFrame:
    """Add `valid_to`, and leave out the versions that a truncate ended where they began."""
    is_end = no_row(F.col("op"))
    start = F.col("valid_from")

    def ends_it(truncate: Column) -> Column:
        return (truncate["at"] >= start) & (truncate["position"] > F.col("position"))

    emptied = F.array_min(F.filter(F.col(_TRUNCATES), ends_it)["at"])
    following = F.lead("valid_from").over(Window.partitionBy(*key).orderBy("valid_from"))
    until = F.when(is_end, start).otherwise(F.least(following, emptied))
    valid = changes.withColumn("valid_to", until)
    return valid.where(is_end | F.col("valid_to").isNull() | (F.col("valid_to") > start))


def _truncates(rows: DataFrame) -> DataFrame:
    """Return one row: when, and where in the log, the whole table was emptied."""
    truncates = rows.where(F.col("op") == F.lit(TRUNCATE))
    found = F.collect_set(F.struct(F.col("valid_from").alias("at"), "position"))
    return truncates.agg(found.cast(_TRUNCATES_TYPE).alias(_TRUNCATES))
