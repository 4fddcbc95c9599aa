"""Durations: text or a timedelta, as microseconds and as Spark takes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from .errors import ArgumentError, ColumnTypeError

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
    "M": "month",
}
_PART = re.compile(r"\s*(-?\d+)\s*([A-Za-z]+)(?=[\s\d]|$)")
_LONGEST = 100 * 366 * _UNITS["day"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DURATION_TEXT = "text such as '10 seconds', '1 hour 30 minutes', '250 milliseconds' or '5m'"
DURATION_FORMS = f"a timedelta, or {DURATION_TEXT}"


def microseconds(duration: str | timedelta, what: str = "duration", *, least: int = 1) -> int:
    """Return a fixed duration in microseconds; `least` is the smallest value allowed.

    Months and years have no fixed length and are refused, as is anything beyond a century. Units
    may be short: us, ms, s, m, h, d, w.

    >>> microseconds("1 minute 30 seconds"), microseconds("5m")
    (90000000, 300000000)
    """
    value = _counted(duration, what)
    if value < least:
        kind = {0: "zero or more", 1: "positive"}.get(least, f"at least {_told(least)}")
        example = _told(max(least, 10 * _UNITS["second"]))
        raise ArgumentError(
            f"{what} is {duration!r}.", f"{kind}: {DURATION_FORMS}.", f"{what}='{example}'"
        )
    if value > _LONGEST:
        raise ArgumentError(f"{what} is {duration!r}, longer than a century.", f"{DURATION_FORMS}.")
    return value


def _counted(duration: str | timedelta, what: str) -> int:
    """Return the microseconds of a duration, whatever its sign and length."""
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if not isinstance(duration, str):
        raise ColumnTypeError(
            f"{what} is {duration!r}, a {type(duration).__name__}.", f"{DURATION_FORMS}."
        )
    text = re.sub(r"^\s*interval\s+", "", duration, flags=re.IGNORECASE)
    total = 0
    at = 0
    while match := _PART.match(text, at):
        number = match[1]
        unit = _unit(match[2])
        if unit in ("month", "year"):
            raise ArgumentError(
                f"{what} is {duration!r}, and a {unit} has no fixed length.",
                f"{DURATION_FORMS}; the units are {', '.join(_UNITS)}.",
                f"{what}='30 days'" if unit == "month" else f"{what}='365 days'",
            )
        if unit not in _UNITS:
            break
        total += int(number) * _UNITS[unit]
        at = match.end()
    if at == 0 or text[at:].strip():
        raise ArgumentError(
            f"{what} is {duration!r}.", f"{DURATION_FORMS}; the units are {', '.join(_UNITS)}."
        )
    return total


def _told(micros: int) -> str:
    """Return a positive duration as text, in the largest unit of which it is a multiple."""
    unit = max((unit for unit in _UNITS if micros % _UNITS[unit] == 0), key=_UNITS.__getitem__)
    number = micros // _UNITS[unit]
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _unit(written: str) -> str:
    """Return a unit by its whole name in the singular; an unknown one as it was written."""
    # Capitals count in a short form alone: 5M would be months to some and minutes to others.
    if written in _SHORT:
        return _SHORT[written]
    name = written.lower().removesuffix("s")
    return _SHORT.get(name, name) if len(name) > 1 else written


def interval(micros: int) -> str:
    """Return the text by which Spark's window functions take a duration."""
    return f"{micros} microseconds"


def since_1970(instant: datetime) -> int:
    """Return how many microseconds after the beginning of 1970, UTC, an instant is."""
    return (instant - _EPOCH) // timedelta(microseconds=1)
