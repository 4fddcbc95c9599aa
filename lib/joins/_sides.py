"""The sides and time buckets of a stream-stream join: validation, and the columns of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import (
    WATERMARK_KEY,
    is_byte_comparable,
    quoted_column,
    require_column_names,
    require_columns,
    require_dataframe,
    require_event_time,
    require_no_name_clash,
)
from ..errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError

MatchType = Literal["inner", "left", "full", "semi", "anti"]

SLICES = 8
"""The number of slices in a pane; more slices mean fewer rewrites of rows, but more groups."""

_MIN_SPAN = 1_000_000

RESULT_TIME = "event_time"
LEFT = "__tidegate_left"
RIGHT = "__tidegate_right"
"""The time column of each side among the joined rows, and the prefix of its other columns."""


@dataclass(frozen=True)
class Side:
    """One input of a join, with its key columns and event-time column."""

    frame: DataFrame
    on: tuple[str, ...]
    time: str

    @property
    def time_column(self) -> Column:
        return quoted_column(self.time)

    @property
    def non_key_columns(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.on]

    @property
    def payload_columns(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.on and name != self.time]


def validate_sides(
    left: DataFrame, right: DataFrame, on: str | Sequence[str], time: str | tuple[str, str]
) -> tuple[Side, Side]:
    """Return the sides of a join; raise an error for invalid arguments."""
    keys = tuple(require_column_names(on, "on"))
    for frame in (left, right):
        require_dataframe(frame)
    if not keys:
        raise ArgumentError("invalid on: no columns", "one or more columns", 'on="session"')
    times = (time, time) if isinstance(time, str) else time
    if not isinstance(times, Sequence) or len(times) != 2:
        raise ArgumentError(
            f"invalid time: {time!r}",
            "a column name, or one column name for each side",
            'time=("searched_at", "clicked_at")',
        )
    left_side, right_side = Side(left, keys, times[0]), Side(right, keys, times[1])
    for name, side in (("left", left_side), ("right", right_side)):
        require_columns(side.frame, side.frame.columns, name)
        _require_watermark(side, name)
        require_event_time(side.frame, side.time)
    require_equal_keys(left, right, keys)
    for key in keys:
        data_type = left.schema[key].dataType
        if not is_byte_comparable(data_type):
            raise ColumnTypeError(
                f"invalid on: {key!r} has type {data_type.simpleString()}",
                "a string, binary, integer, decimal, boolean, date or timestamp column",
                "cast a double to a decimal, use the fields of a struct, or F.collation_key of a "
                "string with a collation",
            )
    if left.isStreaming != right.isStreaming:
        kinds = ["stream" if frame.isStreaming else "batch" for frame in (left, right)]
        raise ArgumentError(
            f"invalid inputs: left is a {kinds[0]} and right is a {kinds[1]}",
            "two streams, or two batches",
            "stream_table to join a stream with a table",
        )
    return left_side, right_side


def _require_watermark(side: Side, name: str) -> None:
    require_columns(side.frame, [side.time], f"time ({name})")
    metadata = side.frame.schema[side.time].metadata or {}
    if side.frame.isStreaming and WATERMARK_KEY not in metadata:
        raise WatermarkError(
            f"invalid {name}: no watermark on {side.time!r}, so the state would grow without bound",
            "a watermark on the event time of both sides",
            f"withWatermark({side.time!r}, '10 seconds') on the {name} side before the join",
        )


def require_equal_keys(
    left: DataFrame,
    right: DataFrame,
    keys: Sequence[str],
    names: tuple[str, str] = ("left", "right"),
) -> None:
    """Raise an error unless both frames have the key columns, with equal types."""
    require_columns(left, keys, "on")
    require_columns(right, keys, "on")
    for key in keys:
        left_type, right_type = left.schema[key].dataType, right.schema[key].dataType
        if left_type != right_type:
            raise ColumnTypeError(
                f"invalid on: {key!r} has type {left_type.simpleString()} in {names[0]} and "
                f"{right_type.simpleString()} in {names[1]}",
                "the same type on both sides",
                f"withColumn({key!r}, F.col({key!r}).cast({left_type.simpleString()!r})) on "
                f"{names[1]}",
            )


def require_distinct_columns(
    left: DataFrame, right_columns: Sequence[str], names: tuple[str, str] = ("left", "right")
) -> None:
    """Raise ColumnError for columns of the right frame that also exist in the left one."""
    left_names = {name.lower() for name in left.columns}
    clashes = [name for name in right_columns if name.lower() in left_names]
    if clashes:
        raise ColumnError(
            f"invalid {names[1]}: columns {', '.join(clashes)} also exist in {names[0]}",
            "no common columns except those of on, ignoring case",
            f"withColumnRenamed({clashes[0]!r}, {names[1] + '_' + clashes[0]!r}) on "
            f"{names[1]}, or drop it",
        )


def result_columns(
    left: Side, right: Side, suffixes: tuple[str, str]
) -> list[tuple[Side, str, str]]:
    """Return the columns of each side other than the keys: (side, name, name in the result).

    A name that both sides have, or that is RESULT_TIME, gets the suffix of its side. Raises
    ColumnError for names that still clash.
    """
    if isinstance(suffixes, str) or len(suffixes) != 2:
        raise ArgumentError(
            f"invalid suffixes: {suffixes!r}",
            "two strings, one for each side",
            'suffixes=("_left", "_right")',
        )
    in_left = {name.lower() for name in left.non_key_columns}
    in_right = {name.lower() for name in right.non_key_columns}
    shared = (in_left & in_right) | {RESULT_TIME}
    columns = [
        (side, name, f"{name}{suffix}" if name.lower() in shared else name)
        for side, suffix in zip((left, right), suffixes, strict=True)
        for name in side.non_key_columns
    ]
    if RESULT_TIME in {name.lower() for name in left.on}:
        raise ColumnError(
            f"invalid on: {RESULT_TIME!r} is the name of the time column of the result",
            "key columns with other names",
            f"withColumnRenamed({RESULT_TIME!r}, 'key_time') on both sides",
        )
    require_no_name_clash([*left.on, RESULT_TIME], [name for _, _, name in columns], "suffixes")
    return columns


@dataclass(frozen=True)
class Panes:
    """The interval of a join in microseconds, and its slices and panes.

    A right row at r matches a left row at l if l - before <= r <= l + after. A row is in one slice,
    by its time; slices are contiguous, and SLICES of them form a pane. A pane is as long as the
    larger bound, so that the possible matches of its rows are in two or three panes.
    """

    before: int
    after: int

    @property
    def slice(self) -> int:
        return -(-max(abs(self.before), abs(self.after), _MIN_SPAN) // SLICES)

    @property
    def length(self) -> int:
        return SLICES * self.slice

    def swapped(self) -> Panes:
        return Panes(self.after, self.before)

    def slice_of(self, time: Column) -> Column:
        """Return the slice that contains an instant: a struct of start and exclusive end."""
        start = _floor(F.unix_micros(time), self.slice)
        return span(start, start + F.lit(self.slice))

    def own_pane(self, start: Column) -> Column:
        """Return the start of the pane of a slice."""
        return _floor(start, self.length)

    def overlapping_panes(self, start: Column) -> tuple[Column, Column]:
        """Return the starts of the first and last pane that require right rows of a slice."""
        last_row = start + F.lit(self.slice - 1)
        first = _floor(start - F.lit(self.after), self.length)
        last = _floor(last_row + F.lit(self.before), self.length)
        return first, last

    def closing_delay(self, *, full: bool) -> int:
        """Return the time from the start of a pane until it has all matches of its left rows.

        With `full`, also all matches of its right rows.
        """
        reach_after = max(0, self.after, self.before if full else 0)
        return -(-(self.length + reach_after) // self.slice) * self.slice


def span(start: Column, end: Column) -> Column:
    """Return a window struct of two instants in microseconds."""
    return F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end"))


def _floor(micros: Column, width: int) -> Column:
    return micros - F.pmod(micros, F.lit(width))


@dataclass(frozen=True)
class Join:
    """A join with unmatched rows of the left side, of both sides, or of neither."""

    left: Side
    right: Side
    panes: Panes
    how: MatchType

    def emits_unmatched(self, side: Side) -> bool:
        if side is self.left:
            return self.how in ("left", "full", "anti")
        return self.how == "full"

    def payload_columns(self, side: Side) -> list[str]:
        if side is self.right and self.how in ("semi", "anti"):
            return []
        return side.payload_columns

    def output_columns(
        self, rows: DataFrame, left: Side, right: Side, suffixes: tuple[str, str]
    ) -> DataFrame:
        """Return the columns of the result, for the sides in the order of the caller.

        The rows have LEFT and RIGHT, the keys, and the other columns prefixed by LEFT or RIGHT; for
        "semi" and "anti" only those of the left side.
        """

        def value(side: Side, name: str) -> Column:
            prefix = LEFT if side is self.left else RIGHT
            if name in side.on:
                return quoted_column(name)
            return quoted_column(prefix if name == side.time else f"{prefix}{name}")

        if self.how in ("semi", "anti"):
            return rows.select(*[value(left, name).alias(name) for name in left.frame.columns])
        columns = result_columns(left, right, suffixes)
        return rows.select(
            *map(quoted_column, left.on),
            self._result_time().alias(RESULT_TIME),
            *[value(side, source_name).alias(name) for side, source_name, name in columns],
        )

    def _result_time(self) -> Column:
        """Return the later time of a pair, or the last time of a possible match."""
        left = F.unix_micros(LEFT)
        right = F.unix_micros(RIGHT)
        left_unmatched = left + F.lit(max(0, self.panes.after))
        right_unmatched = right + F.lit(max(0, self.panes.before))
        is_pair = left.isNotNull() & right.isNotNull()
        later = F.when(is_pair, F.greatest(left, right))
        return F.timestamp_micros(later.otherwise(F.coalesce(left_unmatched, right_unmatched)))


def has_null_key(side: Side) -> Column:
    return reduce(or_, [quoted_column(key).isNull() for key in side.on])
