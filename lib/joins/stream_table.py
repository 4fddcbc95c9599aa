"""Events meet a table: as it is now, or as it was when they happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from ..columns import column, names, quoted, require
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ._as_of import VALID_FROM, VALID_TO, join_as_of

TableJoin = Literal["inner", "left", "semi", "anti"]


def stream_table(
    events: DataFrame,
    table: DataFrame,
    on: str | Sequence[str],
    *,
    how: TableJoin = "inner",
    as_of: str | None = None,
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Join events with a table's rows by key: as they are, or as they were at the event's time.

    "inner" gives the events that meet a row, "left" all of them, with nulls where they meet none;
    "semi" and "anti" give the events alone, those that meet a row and those that do not. A null key
    equals nothing. Several rows of a key multiply the event, as in SQL.

    With `as_of`, the events' time, the table is a history: each row is a version of its key, valid
    from `valid_from` (inclusive) to `valid_to` (exclusive; null for open). An event meets the
    version that began last at or before its time, unless that one has ended by then. So it meets
    one at most, even where versions overlap: a version ends where the next of its key begins,
    whatever its `valid_to` says. A table without the column `valid_to` is a log of versions. Of
    versions that began at the same instant the last by `order` counts; without it, the one that
    ends last. An event at the instant at which a version begins meets that version, and one at its
    `valid_to` no longer does. A null time, and a null `valid_from`, meets nothing. Replay gives the
    same rows as long as the history only grows at its end: leave out of the table what a later
    change alters, such as is_current; `valid_to` is left out of the result for that reason.

    State: none. On a stream the table is read anew with each micro-batch, and which version of it
    that was is not told: the sink `Snapshot` reads one version a batch and tells it. A stream
    cannot be the table: the sink `TemporalJoin` keeps a copy of the table by its changelog, and
    lets events wait for it.

    Cost: the table is read, and for `as_of` sorted by key and time, for each batch, and sent to all
    executors where it is small. With `as_of` an event of a key with v versions is compared with v /
    64 + 64 of them.

    Args:
        events: a batch, or a stream.
        table: a batch; with `as_of` it has a column `valid_from`, and may have `valid_to`.
        on: the key's columns, which both have under the same names and types.
        how: which events come out.
        as_of: the events' time column, a timestamp.
        order: columns by which versions of a key that began at the same instant follow one another:
            a place in a log.

    Returns:
        The events' columns; for "inner" and "left" then the table's, without the key and
        `valid_to`. For these two no other column may be in both.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    Source: temporal joins of SQL:2011 (FOR SYSTEM_TIME AS OF) and of Flink.

    >>> rows = [("/0", "Home"), ("/1", "Help")]
    >>> titles = spark.createDataFrame(rows, "page string, title string")
    >>> stream_table(clicks, titles, "page").columns
    ['event_time', 'page', 'user', 'ms', 'title']
    >>> from datetime import timedelta
    >>> at = datetime(2026, 1, 1, 10, 3, tzinfo=UTC)
    >>> plans = [("u1", at, "free"), ("u1", at + timedelta(seconds=4), "paid")]
    >>> history = spark.createDataFrame(plans, "user string, valid_from timestamp, plan string")
    >>> met = stream_table(clicks, history, "user", as_of="event_time").orderBy("event_time")
    >>> [(row.ms, row.plan) for row in met.collect()]
    [(1, 'free'), (3, 'free'), (5, 'paid'), (7, 'paid')]
    """
    keys = names(on, "on")
    ordered = names(order, "order")
    _check(events, table, keys, how)
    if how in ("inner", "left"):
        _refuse_clashes(events, _added(table, keys, as_of))
    if as_of is None:
        if ordered:
            raise ArgumentError(
                f"order is {order!r}, without as_of.", "as_of with it.", 'as_of="event_time"'
            )
        return _join_as_it_is(events, table, keys, how)
    _require_timestamp(events, as_of, "as_of")
    _require_timestamp(table, VALID_FROM, "the history")
    if VALID_TO in table.columns:
        _require_timestamp(table, VALID_TO, "the history")
    require(table, ordered, "order")
    return join_as_of(events, table, keys, how, as_of, ordered)


def _join_as_it_is(
    events: DataFrame, table: DataFrame, keys: list[str], how: TableJoin
) -> DataFrame:
    columns = events.columns
    if how in ("inner", "left"):
        columns = [*columns, *_added(table, keys, None)]
    return events.join(table, keys, how).select(*map(quoted, columns))


def _added(table: DataFrame, keys: Sequence[str], as_of: str | None) -> list[str]:
    """Return the table's columns that the result has beside the events' own."""
    left_out = {*keys} if as_of is None else {*keys, VALID_TO}
    return [name for name in table.columns if name not in left_out]


def versions(
    changes: DataFrame, *, time: str = "event_time", deleted: str | Column | None = None
) -> DataFrame:
    """Return a changelog as a log of versions, which `stream_table` takes as a history.

    Each change begins a version at its time, which lasts until the next change of its key; one that
    is `deleted` (a boolean; null is false) lasts for no time at all, so that it ends the version
    before it and is never met itself.

    Columns: those of the changelog, `time` renamed to `valid_from`, and `valid_to`, null but for
    deletions.

    Raises ColumnError, ColumnTypeError.

    >>> versions(clicks, deleted=F.col("ms") > 5).columns
    ['valid_from', 'page', 'user', 'ms', 'valid_to']
    """
    _require_timestamp(changes, time, "time")
    ended = F.lit(False) if deleted is None else column(deleted)
    marked = changes.withColumn(VALID_TO, F.when(ended, quoted(time)))
    return marked.withColumnRenamed(time, VALID_FROM)


def _check(events: DataFrame, table: DataFrame, keys: Sequence[str], how: str) -> None:
    if how not in get_args(TableJoin):
        raise ArgumentError(
            f"how is {how!r}.",
            f"{', '.join(get_args(TableJoin))}; rows of the table without an event never come out.",
        )
    if table.isStreaming:
        raise ArgumentError(
            "the table is a stream.",
            "a table that is read as a batch.",
            "the sink tidegate.sinks.TemporalJoin, which keeps a copy of a table by its changelog.",
        )
    if not keys:
        raise ArgumentError("on names no column.", "one column or more.", 'on="user_id"')
    require(events, keys, "on")
    require(table, keys, "on")
    for name in keys:
        ours = events.schema[name].dataType
        theirs = table.schema[name].dataType
        if ours != theirs:
            raise ColumnTypeError(
                f"on={name!r} is {ours.simpleString()} in the events and {theirs.simpleString()} "
                "in the table.",
                "the same type in both.",
                f"withColumn({name!r}, F.col({name!r}).cast({ours.simpleString()!r})) on one of "
                "them.",
            )


def _refuse_clashes(events: DataFrame, added: Sequence[str]) -> None:
    have = {name.lower() for name in events.columns}
    both = [name for name in added if name.lower() in have]
    if both:
        raise ColumnError(
            f"the events and the table both have {', '.join(both)}.",
            "columns that only one of them has, capitals or not, but for the key.",
            f"withColumnRenamed({both[0]!r}, 'table_{both[0]}') on the table, or leave it out.",
        )


def _require_timestamp(frame: DataFrame, name: str, what: str) -> None:
    require(frame, [name], what)
    found = frame.schema[name].dataType
    if not isinstance(found, TimestampType):
        raise ColumnTypeError(
            f"{what} has {name!r} of type {found.simpleString()}.",
            "a timestamp (an instant; timestamp_ntz has no zone and is none).",
            f"withColumn({name!r}, F.to_timestamp({name!r}))",
        )
