"""The two sides of a stream-stream join: what is asked of them, and their columns' names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ..columns import WATERMARK_KEY, names, quoted, require, require_event_time, require_free
from ..errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError

RESULT_TIME = "event_time"

_KEYS = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)


@dataclass(frozen=True)
class Side:
    """One input of a join, with its key columns and its event time."""

    frame: DataFrame
    on: tuple[str, ...]
    time: str

    @property
    def at(self) -> Column:
        """The event-time column."""
        return quoted(self.time)

    @property
    def but_keys(self) -> list[str]:
        """The columns that are no key."""
        return [name for name in self.frame.columns if name not in self.on]

    @property
    def others(self) -> list[str]:
        """The columns that are neither key nor event time."""
        return [name for name in self.frame.columns if name not in self.on and name != self.time]


def sides(
    left: DataFrame, right: DataFrame, on: str | Sequence[str], time: str | tuple[str, str]
) -> tuple[Side, Side]:
    """Check what a join was given, before any stream starts."""
    keys = tuple(names(on, "on"))
    times = (time, time) if isinstance(time, str) else time
    if not keys:
        raise ArgumentError(
            "on names no column.",
            "at least one, so that rows can be told apart by key.",
            'on="session"',
        )
    if len(times) != 2:
        raise ArgumentError(
            f"time is {time!r}.", "a column's name, or two: the left side's and the right side's."
        )
    both = {"left": Side(left, keys, times[0]), "right": Side(right, keys, times[1])}
    for name, side in both.items():
        require(side.frame, side.frame.columns, name)
        require(side.frame, keys, f"on, in {name},")
        _require_watermark(side, name)
        require_event_time(side.frame, side.time)
    for key in keys:
        _require_key(key, left.schema[key].dataType, right.schema[key].dataType)
    if left.isStreaming != right.isStreaming:
        raise ArgumentError(
            f"left is a {_kind(left)} and right a {_kind(right)}.",
            "two streams, or two batches.",
            "stream_table joins a stream with a table.",
        )
    return both["left"], both["right"]


def _require_watermark(side: Side, name: str) -> None:
    require(side.frame, [side.time], f"time, in {name},")
    metadata = side.frame.schema[side.time].metadata or {}
    if side.frame.isStreaming and WATERMARK_KEY not in metadata:
        raise WatermarkError(
            f"the {name} stream has no watermark on {side.time!r}, so none of its rows could ever "
            "be let go, and the "
            "state would grow without bound.",
            "a watermark on the event time of both sides: how late a row may be.",
            f"withWatermark({side.time!r}, '10 seconds') on the {name} side before the join.",
        )


def _require_key(name: str, left: DataType, right: DataType) -> None:
    if left != right:
        raise ColumnTypeError(
            f"on names {name!r}, of type {left.simpleString()} in left and {right.simpleString()} "
            "in right.",
            "one type on both sides.",
            f"withColumn({name!r}, F.col({name!r}).cast(...)) on one of them.",
        )
    if not isinstance(left, _KEYS) and not (isinstance(left, StringType) and left == StringType()):
        raise ColumnTypeError(
            f"on names {name!r}, of type {left.simpleString()}.",
            "text, binary, whole numbers, decimals, booleans, dates, timestamps.",
            "cast a double to a decimal, name a struct's fields one by one, take F.collation_key "
            "of a collated text.",
        )


def _kind(frame: DataFrame) -> str:
    return "stream" if frame.isStreaming else "batch"


def named(left: Side, right: Side, suffixes: tuple[str, str]) -> list[tuple[Side, str, str]]:
    """Return each side's columns other than the keys: (side, name, name in the result).

    Names that clash are refused. A name that both sides have, or that is the result's own, gets the
    suffix of its side.
    """
    if len(suffixes) != 2:
        raise ArgumentError(
            f"suffixes is {suffixes!r}.", "two texts: the left side's and the right side's."
        )
    in_left = {name.lower() for name in left.but_keys}
    in_right = {name.lower() for name in right.but_keys}
    shared = (in_left & in_right) | {RESULT_TIME}
    found = [
        (side, name, f"{name}{suffix}" if name.lower() in shared else name)
        for side, suffix in zip((left, right), suffixes, strict=True)
        for name in side.but_keys
    ]
    if RESULT_TIME in {name.lower() for name in left.on}:
        raise ColumnError(
            f"on names {RESULT_TIME!r}, which in the result is the later of a pair's times.",
            "keys of other names.",
            f"withColumnRenamed({RESULT_TIME!r}, 'key_time') on both sides.",
        )
    require_free([*left.on, RESULT_TIME], [name for _, _, name in found], "suffixes")
    return found
