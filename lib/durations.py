"""Durations as text or timedelta, converted to microseconds and to Spark interval text."""

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
_ABBREVIATIONS = {
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
_MAX_DURATION = 100 * 366 * _UNITS["day"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DURATION_TEXT = "text such as '10 seconds', '1 hour 30 minutes', '250 milliseconds' or '5m'"
DURATION_FORMS = f"a timedelta, or {DURATION_TEXT}"


def microseconds(duration: str | timedelta, label: str = "duration", *, min_value: int = 1) -> int:
    """Return a fixed duration in microseconds, at least `min_value`.

    Units are weeks to microseconds, also abbreviated: us, ms, s, m, h, d, w.

    Raises ArgumentError for months and years, which have no fixed length, and for more than a
    century; ColumnTypeError for a value that is neither text nor timedelta.

    >>> microseconds("1 minute 30 seconds"), microseconds("5m")
    (90000000, 300000000)
    """
    value = _parse_duration(duration, label)
    if value < min_value:
        at_least = f"at least {duration_text(min_value)}"
        allowed_range = {0: "zero or more", 1: "positive"}.get(min_value, at_least)
        example = duration_text(max(min_value, 10 * _UNITS["second"]))
        raise ArgumentError(
            f"invalid {label}: {duration!r}",
            f"{allowed_range}: {DURATION_FORMS}",
            f"{label}='{example}'",
        )
    if value > _MAX_DURATION:
        problem = f"invalid {label}: {duration!r} is longer than a century"
        raise ArgumentError(problem, DURATION_FORMS)
    return value


def _parse_duration(duration: str | timedelta, label: str) -> int:
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if not isinstance(duration, str):
        problem = f"invalid {label}: {duration!r} ({type(duration).__name__})"
        raise ColumnTypeError(problem, DURATION_FORMS)
    forms = f"{DURATION_FORMS}; the units are {', '.join(_UNITS)}"
    text = re.sub(r"^\s*interval\s+", "", duration, flags=re.IGNORECASE)
    total = 0
    position = 0
    while match := _PART.match(text, position):
        number = match[1]
        unit = _unit_name(match[2])
        if unit in ("month", "year"):
            problem = f"invalid {label}: {duration!r}; a {unit} has no fixed length"
            example = "30 days" if unit == "month" else "365 days"
            raise ArgumentError(problem, forms, f"{label}='{example}'")
        if unit not in _UNITS:
            break
        total += int(number) * _UNITS[unit]
        position = match.end()
    if position == 0 or text[position:].strip():
        raise ArgumentError(f"invalid {label}: {duration!r}", forms)
    return total


def duration_text(micros: int) -> str:
    """Return a duration of zero or more as text that `microseconds` reads, in days and below.

    >>> duration_text(604_800_000_000), duration_text(5_400_000_000)
    ('7 days', '1 hour 30 minutes')
    """
    parts = []
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        number, micros = divmod(micros, _UNITS[unit])
        if number:
            parts.append(f"{number} {unit}" if number == 1 else f"{number} {unit}s")
    return " ".join(parts) or "0 seconds"


def _unit_name(text: str) -> str:
    # Only one-letter abbreviations are case-sensitive: 5M is months, 5m is minutes.
    if text in _ABBREVIATIONS:
        return _ABBREVIATIONS[text]
    name = text.lower().removesuffix("s")
    return _ABBREVIATIONS.get(name, name) if len(name) > 1 else text


def interval_text(micros: int) -> str:
    """Return a duration as interval text for Spark's window functions.

    >>> interval_text(1_500_000)
    '1500000 microseconds'
    """
    return f"{micros} microseconds"


def epoch_micros(timestamp: datetime) -> int:
    """Return a timestamp in microseconds since 1970-01-01 00:00:00 UTC.

    >>> epoch_micros(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    return (timestamp - _EPOCH) // timedelta(microseconds=1)
