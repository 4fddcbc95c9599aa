"""Numbers as people read them on a page."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10

UNKNOWN = "-"
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_STEPS = (1, 2, 5, 10)


def whole(value: float | None) -> str:
    """Return a count."""
    return UNKNOWN if value is None else f"{round(value):,}"


def short(value: float) -> str:
    """Return a count in four signs or so.

    >>> short(12_500)
    '12.5 k'
    """
    for size, name in _THOUSANDS:
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Return a number of seconds.

    >>> duration(5_400)
    '1.5 h'
    """
    if seconds is None:
        return UNKNOWN
    for size, name in _SPANS:
        if abs(seconds) >= size:
            return (
                f"{seconds / size:,.3g} {name}"
                if seconds < 1000 * size
                else (f"{seconds / size:,.0f} {name}")
            )
    return f"{seconds:.3g} s"


def span_unit(seconds: float) -> float:
    """Return how many seconds the unit has in which `duration` tells so many."""
    return next((float(size) for size, _ in _SPANS if seconds >= size), 1.0)


def octets(value: float | None) -> str:
    """Return a number of bytes.

    >>> octets(2_500_000)
    '2.5 MB'
    """
    if value is None:
        return UNKNOWN
    text = short(value)
    return f"{text}B" if " " in text else f"{text} B"


def instant(seconds: float | None) -> str:
    """Return an instant, given in seconds since 1970."""
    if seconds is None:
        return UNKNOWN
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def ticks(most: float, about: int = 4, unit: float = 1.0) -> list[float]:
    """Return round numbers of a unit from 0 on, the last of which is `most` or more.

    >>> ticks(7)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    if most <= 0:
        return [0.0, 1.0]
    rough = most / unit / about
    size = 10.0 ** floor(log10(rough))
    step = unit * size * next(each for each in _STEPS if each * size >= rough * 0.999)
    return [step * at for at in range(ceil(most / step * 0.999) + 1)]
