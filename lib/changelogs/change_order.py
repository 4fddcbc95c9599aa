"""The order of the changes of a key: that of the log, without changes that were sent again.

Offsets order the changes of one partition. Across partitions, which happens after partitions were
added to a topic, the position in the log of the database decides, or else the time at which the
record was written. A change with a lower position in the log of the database than one before it was
sent again, and has no effect, unless it was committed later: then positions have started again, as
after a failover or a restore, and the topic decides.

A snapshot row has no position in the log of the database. It has that of the change before it, so
that changes that are sent again after it have no effect either. A tombstone has none at all: after
one that deletes a row, without a delete before it, any change of the key takes effect.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from .change_schema import POSITION_TYPE

SOURCE_FIELDS = ("server", "source", "committed_at")
"""The fields of a position that are in the log of the database."""


def replaces(position: Column, stored: Column) -> Column:
    """Return whether a change takes effect after another one of its key, the stored one."""
    newer, older = position["source"], stored["source"]
    is_comparable = _is_same_log(position, stored)
    is_later = F.coalesce(position["committed_at"] > stored["committed_at"], F.lit(False))
    return (
        F.when(is_comparable & (newer > older), F.lit(True))
        .when(is_comparable & ((newer == older) | ~is_later), F.lit(False))
        .when(_is_same_partition(position, stored), position["offset"] >= stored["offset"])
        .otherwise(F.coalesce(position["written_at"] >= stored["written_at"], F.lit(True)))
    )


def with_inherited_source(position: Column, stored: Column) -> Column:
    """Return a position; without one in the log of the database, it has that of the stored one."""
    inherited = F.when(position["source"].isNotNull(), position).otherwise(stored)
    fields = {
        name: inherited if name in SOURCE_FIELDS else position for name in POSITION_TYPE.names
    }
    return F.struct(*[of[name].alias(name) for name, of in fields.items()])


def in_log_order(changes: Column) -> Column:
    """Return an array of the changes of a key, structs with `position` first, in log order.

    The changes of each partition are in the order of their offsets, also where the clock of the
    producer was set back.
    """
    by_offset = F.array_sort(changes)
    first, last = F.element_at(by_offset, 1)["position"], F.element_at(by_offset, -1)["position"]
    return F.when(_is_same_partition(first, last), by_offset).otherwise(_by_time(by_offset))


def _by_time(by_offset: Column) -> Column:
    """Return changes in the order of the latest time of a record so far in their partition."""

    def add(so_far: Column, change: Column) -> Column:
        previous = F.element_at(so_far, -1)
        is_next = (F.size(so_far) > 0) & _is_same_partition(
            previous["change"]["position"], change["position"]
        )
        time = F.when(
            is_next, F.greatest(previous["time"], change["position"]["written_at"])
        ).otherwise(change["position"]["written_at"])
        return F.concat(so_far, F.array(F.struct(time.alias("time"), change.alias("change"))))

    empty = F.filter(
        F.transform(
            by_offset,
            lambda change: F.struct(
                change["position"]["written_at"].alias("time"), change.alias("change")
            ),
        ),
        lambda _: F.lit(False),
    )
    timed = F.aggregate(by_offset, empty, add)
    return F.transform(F.array_sort(timed), lambda each: each["change"])


def _is_same_log(one: Column, other: Column) -> Column:
    """Return whether positions in the log of the database are comparable.

    A position without the identity of its log is that of a snapshot of the caller.
    """
    is_same = F.coalesce(one["server"] == other["server"], F.lit(True))
    return one["source"].isNotNull() & other["source"].isNotNull() & is_same


def _is_same_partition(one: Column, other: Column) -> Column:
    return one["topic"].eqNullSafe(other["topic"]) & one["partition"].eqNullSafe(other["partition"])
