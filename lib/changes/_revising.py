"""What more changes mean for a table of versions: which rows they touch, and which then differ."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from .change import TRUNCATE, moved

VALIDITY = ("valid_from", "valid_to", "is_current", "op", "position")
_FIRST = "__tidegate_first"
_NEW = "__tidegate_new"
_WAS = "__tidegate_was"


def touched(table: DataFrame, changes: DataFrame, keys: list[str], *, truncated: bool) -> DataFrame:
    """Return the table's rows of the keys that get other versions, and its truncates."""
    changed = moved(changes).select(*[F.col("key").getField(name).alias(name) for name in keys])
    # The key of truncates is null.
    kinds = {name: changed.schema[name].dataType for name in keys}
    no_key = [F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]
    asking = changed.unionByName(changed.sparkSession.range(1).select(*no_key))
    if truncated:
        asking = asking.unionByName(_lived(table, changes).select(*map(quoted, keys)))
    renamed = [quoted(name).alias(_asked(name)) for name in keys]
    asked = asking.distinct().select(*renamed)
    same = reduce(and_, [quoted(name).eqNullSafe(quoted(_asked(name))) for name in keys])
    return table.join(asked, same, "left_semi")


def _lived(table: DataFrame, changes: DataFrame) -> DataFrame:
    """Return the versions that were valid when the table was emptied, or later."""
    first = changes.where(F.col("op") == F.lit(TRUNCATE)).agg(F.min("event_time").alias(_FIRST))
    later = F.col("valid_to").isNull() | (F.col("valid_to") > F.col(_FIRST))
    return table.crossJoin(F.broadcast(first)).where(later)


def _asked(name: str) -> str:
    return f"__tidegate_asked_{name}"


def differing(
    timeline: DataFrame, known: DataFrame, keys: list[str], names: list[str]
) -> DataFrame:
    """Return the versions that the table does not have as they are, each beside the one it has."""
    columns = [*names, *VALIDITY]
    identity = [*keys, "valid_from"]
    row = F.struct(*[quoted(name) for name in columns if name not in identity])
    both = _side_by_side(timeline, known, [quoted(name) for name in identity], row)
    found = both.where(~F.col(_NEW).eqNullSafe(F.col(_WAS)))

    def value(name: str) -> Column:
        return quoted(name) if name in identity else F.col(_NEW).getField(name).alias(name)

    return found.select(*map(value, columns), F.col(_WAS).alias("was"))


def _known(name: str) -> Column:
    """Return the value of a group's rows that is not null; null where there is none."""
    return F.max_by(name, F.col(name).isNotNull()).alias(name)


def _side_by_side(
    timeline: DataFrame, known: DataFrame, of_version: list[Column], row: Column
) -> DataFrame:
    """Return each version's row in the timeline beside its row in the table, null where it is not.

    The types of the rows are those that the table has.
    """
    kind = known.select(row.alias("row")).schema["row"].dataType
    nothing = F.lit(None).cast(kind)
    new = timeline.select(*of_version, row.cast(kind).alias(_NEW), nothing.alias(_WAS))
    was = known.select(*of_version, nothing.alias(_NEW), row.alias(_WAS))
    return new.unionByName(was).groupBy(*of_version).agg(_known(_NEW), _known(_WAS))
