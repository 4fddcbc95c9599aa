"""Charts of a run over time as SVG, styled by the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from math import ceil, floor, log10

# Formatting of numbers.
UNKNOWN = "-"
_TIME_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_COUNT_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_STEPS = (1, 2, 5, 10)


def format_count(value: float | None) -> str:
    """Return a count with thousands separators; `-` for None."""
    return UNKNOWN if value is None else f"{round(value):,}"


def format_short_number(value: float) -> str:
    """Return a number with three digits and a unit prefix.

    >>> format_short_number(12_500)
    '12.5 k'
    """
    for size, name in _COUNT_UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


def format_duration(seconds: float | None) -> str:
    """Return a duration in a readable unit; `-` for None.

    >>> format_duration(5_400)
    '1.5 h'
    """
    if seconds is None:
        return UNKNOWN
    for size, name in _TIME_UNITS:
        if abs(seconds) >= size:
            number = seconds / size
            return f"{number:,.3g} {name}" if number < 1000 else f"{number:,.0f} {name}"
    return f"{seconds:.3g} s"


def duration_unit(seconds: float) -> float:
    """Return the seconds in the unit that `format_duration` uses for this value."""
    return next((float(size) for size, _ in _TIME_UNITS if seconds >= size), 1.0)


def format_bytes(value: float | None) -> str:
    """Return a number of bytes in a readable unit; `-` for None.

    >>> format_bytes(2_500_000)
    '2.5 MB'
    """
    if value is None:
        return UNKNOWN
    text = format_short_number(value)
    return f"{text}B" if " " in text else f"{text} B"


def format_timestamp(seconds: float | None) -> str:
    """Return seconds since 1970 as a UTC timestamp; `-` for None."""
    if seconds is None:
        return UNKNOWN
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def axis_ticks(max_value: float, target_count: int = 4, unit: float = 1.0) -> list[float]:
    """Return round multiples of a unit from 0 up to at least `max_value`.

    >>> axis_ticks(7)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    if max_value <= 0:
        return [0.0, 1.0]
    raw_step = max_value / unit / target_count
    size = 10.0 ** floor(log10(raw_step))
    step = unit * size * next(factor for factor in _STEPS if factor * size >= raw_step * 0.999)
    return [step * index for index in range(ceil(max_value / step * 0.999) + 1)]


# The chart.

_WIDTH = 640
_HEIGHT = 220
_LEFT = 64
_RIGHT = 16
_TOP = 12
_BOTTOM = 30
_TIME_INTERVALS = 4
_MIN_POINTS_WITHOUT_DOTS = 60
"""A line with fewer points shows a dot for each."""
_CLOCK_FORMAT_SECONDS = 60.0
Point = tuple[float, float | None]
"""Seconds since the start of the run, and a value; None if it is unknown."""


@dataclass(frozen=True)
class Line:
    """A named series of points in the order of time."""

    name: str
    points: Sequence[Point]


def render_chart(title: str, lines: Sequence[Line], format_value: Callable[[float], str]) -> str:
    """Return a figure: caption, SVG with axes, and a legend if there are several lines.

    format_value: formats a value with its unit. The value axis starts at 0.
    """
    values = [value for line in lines for _, value in line.points if value is not None]
    if not values:
        return f"<figure><figcaption>{escape(title)}</figcaption><p class=none>unknown</p></figure>"
    unit = duration_unit(max(values)) if format_value is format_duration else 1.0
    ticks = axis_ticks(max(values), unit=unit)
    last_time = max(at for line in lines for at, _ in line.points)
    span = max(last_time, 1.0)
    description = "; ".join(f"{line.name}: {_extremes_text(line, format_value)}" for line in lines)
    extremes, legend = _extremes_text(lines[0], format_value), ""
    if len(lines) > 1:
        extremes = description
        names = (escape(line.name) for line in lines)
        legend = "".join(f"<span class=k{at}>{name}</span>" for at, name in enumerate(names))
    parts = [_horizontal_grid_line(tick, ticks[-1], format_value) for tick in ticks]
    parts += [_time_label(span * at / _TIME_INTERVALS, span) for at in range(_TIME_INTERVALS + 1)]
    parts += [_render_line(at, line, span, ticks[-1]) for at, line in enumerate(lines)]
    return (
        f"<figure><figcaption>{escape(title)}{legend}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title}. {description}")}">{"".join(parts)}</svg>'
        f"<p class=ends>{escape(extremes)}</p></figure>"
    )


def _extremes_text(line: Line, format_value: Callable[[float], str]) -> str:
    values = [value for _, value in line.points if value is not None]
    if not values:
        return UNKNOWN
    return (
        f"last {format_value(values[-1])}, min {format_value(min(values))}, "
        f"max {format_value(max(values))}"
    )


def _render_line(line_index: int, line: Line, span: float, max_value: float) -> str:
    """Return a line, interrupted where values are unknown."""
    runs = groupby(line.points, key=lambda point: point[1] is not None)
    elements = []
    for has_values, points in runs:
        coordinates = [
            f"{_x(time, span):.1f},{_y(value or 0, max_value):.1f}" for time, value in points
        ]
        if has_values:
            elements.append(f'<polyline class="s{line_index}" points="{" ".join(coordinates)}"/>')
        if has_values and (len(line.points) < _MIN_POINTS_WITHOUT_DOTS or len(coordinates) == 1):
            for x, y in (place.split(",") for place in coordinates):
                elements.append(f'<circle class="d{line_index}" cx="{x}" cy="{y}" r="2.5"/>')
    return "".join(elements)


def _horizontal_grid_line(
    tick: float, max_value: float, format_value: Callable[[float], str]
) -> str:
    y = _y(tick, max_value)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
        f"{escape(format_value(tick))}</text>"
    )


def _time_label(time: float, span: float) -> str:
    anchor = "end" if time >= span else "middle"
    return (
        f'<text x="{_x(time, span):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">'
        f"{_format_elapsed(time)}</text>"
    )


def _format_elapsed(seconds: float) -> str:
    if seconds < _CLOCK_FORMAT_SECONDS:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _x(time: float, span: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(time, 0.0), span) / span


def _y(value: float, max_value: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * max(value, 0.0) / max_value
