"""Charts over a run's time as SVG, drawn without a library and styled by the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from .units import UNKNOWN, duration, span_unit, ticks

_WIDTH = 640
_HEIGHT = 220
_LEFT = 64
_RIGHT = 16
_TOP = 12
_BOTTOM = 30
_ACROSS = 4
_DOT_BELOW = 60
"""With fewer points than these each has a dot."""
_CLOCK = 60.0
Point = tuple[float, float | None]
"""Seconds since the run began, and a value; None where it is not known."""


@dataclass(frozen=True)
class Line:
    """What one line shows, and its points in the order of time."""

    name: str
    points: Sequence[Point]


def chart(title: str, lines: Sequence[Line], shown: Callable[[float], str]) -> str:
    """Return a figure: a heading, the SVG with its axes, and a key where there are several lines.

    shown: makes a value readable, with its unit. The values begin at 0.
    """
    known = [value for line in lines for _, value in line.points if value is not None]
    if not known:
        return (
            f"<figure><figcaption>{escape(title)}</figcaption><p class=none>not known</p></figure>"
        )
    marks = ticks(max(known), unit=span_unit(max(known)) if shown is duration else 1.0)
    last = max(at for line in lines for at, _ in line.points)
    span = max(last, 1.0)
    told = "; ".join(f"{line.name}: {_ends(line, shown)}" for line in lines)
    key = "".join(f"<span class=k{at}>{escape(line.name)}</span>" for at, line in enumerate(lines))
    parts = [_across(mark, marks[-1], shown) for mark in marks]
    parts += [_down(span * at / _ACROSS, span) for at in range(_ACROSS + 1)]
    parts += [_drawn(at, line, span, marks[-1]) for at, line in enumerate(lines)]
    return (
        f"<figure><figcaption>{escape(title)}{key if len(lines) > 1 else ''}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title}. {told}")}">{"".join(parts)}</svg>'
        f"<p class=ends>{escape(told if len(lines) > 1 else _ends(lines[0], shown))}</p></figure>"
    )


def _ends(line: Line, shown: Callable[[float], str]) -> str:
    values = [value for _, value in line.points if value is not None]
    if not values:
        return UNKNOWN
    return f"last {shown(values[-1])}, least {shown(min(values))}, most {shown(max(values))}"


def _drawn(number: int, line: Line, span: float, most: float) -> str:
    """Return a line, which is broken where values are not known."""
    runs = groupby(line.points, key=lambda point: point[1] is not None)
    drawn = []
    for known, points in runs:
        places = [f"{_x(at, span):.1f},{_y(value or 0, most):.1f}" for at, value in points]
        if known:
            drawn.append(f'<polyline class="s{number}" points="{" ".join(places)}"/>')
        if known and (len(line.points) < _DOT_BELOW or len(places) == 1):
            drawn += [_dot(number, *place.split(",")) for place in places]
    return "".join(drawn)


def _dot(number: int, x: str, y: str) -> str:
    return f'<circle class="d{number}" cx="{x}" cy="{y}" r="2.5"/>'


def _across(mark: float, most: float, shown: Callable[[float], str]) -> str:
    y = _y(mark, most)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(shown(mark))}</text>'
    )


def _down(at: float, span: float) -> str:
    anchor = "end" if at >= span else "middle"
    return (
        f'<text x="{_x(at, span):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{_clock(at)}</text>'
    )


def _clock(seconds: float) -> str:
    """Return a time since the run began."""
    if seconds < _CLOCK:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _x(at: float, span: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(at, 0.0), span) / span


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * max(value, 0.0) / most
