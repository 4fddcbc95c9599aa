"""Lookup joins of events with a table: its current rows, or its versions at the event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from operator import and_
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from ..columns import (
    as_column,
    column_type,
    quoted_column,
    require_choice,
    require_column_names,
    require_columns,
    require_dataframe,
    require_instance,
    require_timestamp,
)
from ..errors import ArgumentError, ColumnError
from ._sides import require_distinct_columns, require_equal_keys

VALID_FROM = "valid_from"
VALID_TO = "valid_to"
BLOCK = 64
"""The number of versions in a block; an event is compared with blocks, then with versions."""

_START = "__tidegate_start"
_END = "__tidegate_end"
_BLOCK = "__tidegate_block"
_FIRST = "__tidegate_first"
_NEXT_START = "__tidegate_next"
_EVENT_BLOCK = "__tidegate_own"

LookupJoinType = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True)
class LookupJoin:
    """A lookup join of events with a table, as the argument of a sink; see `stream_table`.

    Raises ArgumentError for `on` and `how` at construction, and the errors of `stream_table` when
    called.

    >>> titles = spark.createDataFrame([("/0", "Home")], "page string, title string")
    >>> LookupJoin("page", how="left")(clicks, titles).columns
    ['event_time', 'page', 'user', 'ms', 'title']
    """

    plan_name: ClassVar[str] = "lookup_join"
    on: str | Sequence[str]
    _: KW_ONLY
    how: LookupJoinType = "inner"
    as_of: str | None = None
    order: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        if not require_column_names(self.on, "on"):
            raise ArgumentError("invalid on: no columns", "one or more columns", 'on="user_id"')
        require_choice(self.how, "how", LookupJoinType)
        if self.as_of is not None:
            require_instance(self.as_of, "as_of", str, 'as_of="event_time"')
        if require_column_names(self.order, "order") and self.as_of is None:
            raise ArgumentError(
                f"invalid order: {self.order!r} without as_of",
                "as_of together with order",
                'as_of="event_time"',
            )

    def __call__(self, events: DataFrame, table: DataFrame) -> DataFrame:
        """Return the joined rows."""
        keys = require_column_names(self.on, "on")
        order_columns = require_column_names(self.order, "order")
        require_dataframe(events, "events")
        require_dataframe(table, "table")
        if table.isStreaming:
            raise ArgumentError(
                "invalid table: a stream",
                "a table that is read as a batch",
                "the sink tidegate.sinks.TemporalJoin, which maintains a copy of a table",
            )
        require_equal_keys(events, table, keys, ("the events", "the table"))
        table_columns: list[str] = []
        if self.how in ("inner", "left"):
            excluded = keys if self.as_of is None else [*keys, VALID_TO]
            table_columns = [name for name in table.columns if name not in excluded]
            require_distinct_columns(events, table_columns, ("the events", "table"))
        columns = [*map(quoted_column, events.columns), *map(quoted_column, table_columns)]
        if self.as_of is None:
            return events.join(table, keys, self.how).select(*columns)
        require_timestamp(events, self.as_of, "as_of")
        require_timestamp(table, VALID_FROM, "table")
        if VALID_TO in table.columns:
            require_timestamp(table, VALID_TO, "table")
        require_columns(table, order_columns, "order")
        # The first join finds the block of versions that contains the time, the second the version
        # in that block. An event is thus compared with v / 64 + 64 of v versions, not with all.
        versions = _split_into_blocks(table, keys, order_columns)
        with_blocks = _with_block(events, versions, keys, self.as_of)
        candidates = versions.select(
            *_renamed_keys(keys),
            *map(quoted_column, table_columns),
            quoted_column(VALID_FROM).alias(_START),
            quoted_column(_END),
            quoted_column(_BLOCK),
        )
        is_in_block = quoted_column(_EVENT_BLOCK) == quoted_column(_BLOCK)
        condition = _keys_equal(keys) & is_in_block & is_valid_at(self.as_of, _START, _END)
        return with_blocks.join(candidates, condition, self.how).select(*columns)


def stream_table(
    events: DataFrame,
    table: DataFrame,
    on: str | Sequence[str],
    *,
    how: LookupJoinType = "inner",
    as_of: str | None = None,
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Join events with the rows of a table by key: its current rows, or its versions at event time.

    "inner" returns the events with a matching row, "left" all events, with nulls without a
    match; "semi" and "anti" return the columns of the events only, for events with and without a
    match. A null key matches nothing. Several rows with one key multiply the event, as in SQL.

    With `as_of`, the time column of the events, the join is temporal (as-of). Each row of the table
    is a version of its key, valid from `valid_from` (inclusive) to `valid_to` (exclusive; null if
    open). An event matches the latest version that starts at or before its time, unless this
    version has ended. It thus matches at most one version, even if versions overlap: a version ends
    at the start of the next one, even if its `valid_to` is later. A table without `valid_to` is a
    changelog. Among versions that start at the same time, the last by `order` applies, or without
    `order` the one that ends last. A null time or a null `valid_from` matches nothing. A replay
    returns the same rows if the table only grows at its end. For that reason the result does not
    include `valid_to`; do not select other columns that later changes update, such as is_current.

    State: none. A stream reads the current version of the table in each micro-batch. To record
    which version a batch has read, use the sink `SnapshotJoin`. To join with a changelog stream,
    use the sink `TemporalJoin`, which maintains a copy of the table and lets events wait for it.

    Cost: each batch reads the table, sorts it by key and time if `as_of` is set, and broadcasts it
    if it is small. With `as_of`, an event is compared with v / 64 + 64 of the v versions of its
    key.

    Args:
        events: a batch, or a stream.
        table: a batch; with `as_of`, it requires the column `valid_from` and can have `valid_to`.
        on: the key columns, with the same names and types on both sides.
        how: the join type.
        as_of: the time column of the events, a timestamp.
        order: columns that order the versions of a key that start at the same time, such as the
            position in a log.

    Returns:
        The columns of the events; for "inner" and "left" also the columns of the table without the
        key and `valid_to`, which must differ from the columns of the events.

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
    >>> joined = stream_table(clicks, history, "user", as_of="event_time").orderBy("event_time")
    >>> [(row.ms, row.plan) for row in joined.collect()]
    [(1, 'free'), (3, 'free'), (5, 'paid'), (7, 'paid')]
    """
    return LookupJoin(on, how=how, as_of=as_of, order=order)(events, table)


def validity_periods(
    changes: DataFrame, *, time: str = "event_time", deleted: str | Column | None = None
) -> DataFrame:
    """Convert a changelog to a table of versions, which `stream_table` joins with `as_of`.

    Each change starts a version at its time, which ends at the next change of its key. A deletion
    (`deleted` is true; null is false) is an empty version: it ends the previous version and matches
    no event.

    Columns: those of the changelog with `time` renamed to `valid_from`, and `valid_to`, which is
    null except for deletions.

    Raises ColumnError, ColumnTypeError.

    >>> validity_periods(clicks, deleted=F.col("ms") > 5).columns
    ['valid_from', 'page', 'user', 'ms', 'valid_to']
    """
    require_timestamp(changes, time, "time")
    added = {VALID_FROM, VALID_TO} - {time}
    replaced = [name for name in changes.columns if name.lower() in added]
    if replaced:
        raise ColumnError(
            f"invalid columns: {', '.join(replaced)}",
            f"no columns named {VALID_FROM} and {VALID_TO}, which the versions add",
            f"withColumnRenamed({replaced[0]!r}, 'source_{replaced[0]}')",
        )
    if deleted is not None:
        column_type(changes, deleted, "deleted")
    is_deleted = F.lit(False) if deleted is None else as_column(deleted)
    with_valid_to = changes.withColumn(VALID_TO, F.when(is_deleted, quoted_column(time)))
    return with_valid_to.withColumnRenamed(time, VALID_FROM)


def version_ends(
    table: DataFrame, keys: Sequence[str], order: Sequence[str]
) -> tuple[WindowSpec, Column]:
    """Return the order of the versions of each key, and the end of each version.

    A version ends at the start of the next one, or at its `valid_to` if that is earlier; null if
    it is open.
    """
    valid_from = quoted_column(VALID_FROM)
    valid_to = F.lit(None).cast("timestamp")
    if VALID_TO in table.columns:
        valid_to = quoted_column(VALID_TO)
    # Of versions with the same start all but the last are empty, so an empty version sorts first.
    version_order = [valid_from, *map(quoted_column, order), valid_to.asc_nulls_last()]
    timeline = Window.partitionBy(*map(quoted_column, keys)).orderBy(*version_order)
    return timeline, F.least(valid_to, F.lead(valid_from).over(timeline))


def is_valid_at(time: str, start: str, end: str) -> Column:
    """Return whether a version contains the time.

    The start is inclusive, the end exclusive; a null end is open.
    """
    has_started = quoted_column(start) <= quoted_column(time)
    has_ended = quoted_column(end).isNotNull() & (quoted_column(time) >= quoted_column(end))
    return has_started & ~has_ended


def _split_into_blocks(table: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Add the end and block of each version, and the start of the next block."""
    valid_from = quoted_column(VALID_FROM)
    timeline, end = version_ends(table, keys, order)
    number = F.row_number().over(timeline) - 1
    # A version without a start matches nothing. It must not be the first version of a block, whose
    # start delimits the block.
    return table.where(valid_from.isNotNull()).withColumns(
        {
            _END: end,
            _BLOCK: F.floor(number / BLOCK).cast("int"),
            _FIRST: number % BLOCK == 0,
            _NEXT_START: F.lead(valid_from, BLOCK).over(timeline),
        }
    )


def _with_block(
    events: DataFrame, versions: DataFrame, keys: Sequence[str], time: str
) -> DataFrame:
    """Add the block of its key that contains the time of each event."""
    # Events outside later blocks belong to block 0, which is not joined; most keys have one block.
    later_blocks = versions.where(quoted_column(_FIRST) & (quoted_column(_BLOCK) > 0)).select(
        *_renamed_keys(keys),
        quoted_column(VALID_FROM).alias(_START),
        quoted_column(_NEXT_START).alias(_END),
        quoted_column(_BLOCK),
    )
    is_in_block = _keys_equal(keys) & is_valid_at(time, _START, _END)
    matched = events.join(later_blocks, is_in_block, "left")
    block = F.coalesce(quoted_column(_BLOCK), F.lit(0))
    return matched.select(*map(quoted_column, events.columns), block.alias(_EVENT_BLOCK))


def _renamed_keys(keys: Sequence[str]) -> list[Column]:
    return [quoted_column(name).alias(_key_alias(index)) for index, name in enumerate(keys)]


def _keys_equal(keys: Sequence[str]) -> Column:
    pairs = [(quoted_column(name), quoted_column(_key_alias(i))) for i, name in enumerate(keys)]
    return reduce(and_, [event_key == version_key for event_key, version_key in pairs])


def _key_alias(index: int) -> str:
    return f"__tidegate_on_{index}"
