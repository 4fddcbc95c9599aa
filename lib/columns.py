"""The one place where names, columns and durations that a caller gives are checked and
normalised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from .errors import ArgumentError, ColumnError, ColumnTypeError, WatermarkError

WATERMARK_KEY = "spark.watermarkDelayMs"

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*(-?\d+)\s+([a-z]+?)s?(?=\s|$)")
_LONGEST = 100 * 366 * _UNITS["day"]
DURATION_FORMS = (
    "a timedelta, or text such as '10 seconds', '1 hour 30 minutes' or '250 milliseconds'"
)


def microseconds(duration: str | timedelta, what: str = "duration", *, least: int = 1) -> int:
    """Return a fixed duration in microseconds; `least` is the smallest value allowed.

    Months and years have no fixed length and are refused, as is anything beyond a century.

    >>> microseconds("1 minute 30 seconds")
    90000000
    """
    value = _parsed(duration, what)
    if value < least:
        kind = (
            "positive"
            if least == 1
            else "zero or more"
            if least == 0
            else f"at least {least} microseconds"
        )
        raise ArgumentError(
            f"{what} is {duration!r}.", f"{kind}: {DURATION_FORMS}.", f"{what}='10 seconds'"
        )
    if value > _LONGEST:
        raise ArgumentError(f"{what} is {duration!r}, longer than a century.", f"{DURATION_FORMS}.")
    return value


def _parsed(duration: str | timedelta, what: str) -> int:
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if not isinstance(duration, str):
        raise ColumnTypeError(
            f"{what} is {duration!r}, a {type(duration).__name__}.", f"{DURATION_FORMS}."
        )
    text, total, at = duration.strip().lower(), 0, 0
    text = text.removeprefix("interval ")
    while match := _PART.match(text, at):
        number, unit = match.groups()
        if unit in ("month", "year"):
            raise ArgumentError(
                f"{what} is {duration!r}, and a {unit} has no fixed length.",
                f"{DURATION_FORMS}; the units are {', '.join(_UNITS)}.",
                f"{what}='30 days'" if unit == "month" else f"{what}='365 days'",
            )
        if unit not in _UNITS:
            break
        total, at = total + int(number) * _UNITS[unit], match.end()
    if at == 0 or text[at:].strip():
        raise ArgumentError(
            f"{what} is {duration!r}.", f"{DURATION_FORMS}; the units are {', '.join(_UNITS)}."
        )
    return total


def interval(micros: int) -> str:
    """Return the text by which Spark's window functions take a duration."""
    return f"{micros} microseconds"


def names(columns: str | Sequence[str], what: str = "by") -> list[str]:
    """Return a list of column names from one name or several."""
    given = [columns] if isinstance(columns, str) else list(columns)
    for name in given:
        if not isinstance(name, str):
            raise ColumnTypeError(
                f"{what} holds {name!r}, a {type(name).__name__}.",
                "column names as text.",
                f"add the expression with withColumn first, then name it in {what}.",
            )
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise ColumnError(
            f"{what} names {', '.join(repeated)} more than once.", "each column once."
        )
    return given


def column(value: str | Column) -> Column:
    """Return a Column from a column or its name; a name is taken whole, dots and all."""
    return quoted(value) if isinstance(value, str) else value


def quoted(name: str) -> Column:
    """Return the top-level column of just this name, whatever characters are in it."""
    return F.col(f"`{name.replace('`', '``')}`")


def require(frame: DataFrame, wanted: Iterable[str], what: str = "by") -> None:
    """Refuse names that the frame does not have, or has twice."""
    have = frame.columns
    for name in wanted:
        if name not in have:
            raise ColumnError(f"{what} names {name!r}.", f"the columns are {', '.join(have)}.")
        if have.count(name) > 1:
            raise ColumnError(
                f"{what} names {name!r}, which is there {have.count(name)} times.",
                "one such column.",
            )


def require_event_time(frame: DataFrame, time: str) -> None:
    """Refuse a time column that is no timestamp, and a stream that has no watermark on it."""
    require(frame, [time], "time")
    field = frame.schema[time]
    if not isinstance(field.dataType, TimestampType):
        raise ColumnTypeError(
            f"time={time!r} is of type {field.dataType.simpleString()}.",
            "a timestamp (an instant; timestamp_ntz has no zone and is none).",
            f"withColumn({time!r}, F.to_timestamp({time!r})), or F.timestamp_millis for epoch "
            "milliseconds.",
        )
    if frame.isStreaming and WATERMARK_KEY not in (field.metadata or {}):
        raise WatermarkError(
            f"the stream has no watermark on {time!r}, so no window could close, and its state "
            "would grow.",
            f"a watermark on {time!r}: how late a row may be.",
            f"withWatermark({time!r}, '10 seconds') before the transform.",
        )


def require_free(taken: Iterable[str], wanted: Iterable[str], what: str = "aggs") -> None:
    """Refuse result names that would clash, as Spark compares them: without regard to case."""
    seen = {name.lower() for name in taken}
    for name in wanted:
        if name.lower() in seen:
            raise ColumnError(
                f"{what} would make a second column {name!r}.",
                "names other than 'window', the by columns and each other, capitals or not.",
                f"{what}={{'{name}_value': ...}}",
            )
        seen.add(name.lower())
