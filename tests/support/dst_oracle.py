"""Calendar windows in plain Python, from their definition and the zones of zoneinfo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

from tests.support.window_frames import instant
from tests.support.window_oracle import Event, WindowRow, events_by_key, window_row
from tidegate.commit.batch import UNIX_EPOCH

Unit = Literal["day", "week", "month"]
MINUTE = timedelta(minutes=1)
MAX_UTC_OFFSET = timedelta(hours=27)


def local_time(at: datetime, zone: str) -> datetime:
    """Return the local time of a zone at an instant."""
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@cache
def first_instant(wall: datetime, zone: str) -> datetime:
    """Return the first minute at which the local time of the zone is at or after `wall`."""
    at = wall.replace(tzinfo=UTC) - MAX_UTC_OFFSET
    # Steps of 15 minutes first, for speed.
    while local_time(at + 15 * MINUTE, zone) < wall:
        at += 15 * MINUTE
    while local_time(at, zone) < wall:
        at += MINUTE
    return at


def start_dates(near: datetime, unit: Unit) -> Iterator[datetime]:
    """Return the first dates of the periods around a date."""
    date = datetime(near.year, near.month, near.day)
    if unit == "month":
        months = near.year * 12 + near.month - 1
        yield from (
            datetime(month // 12, month % 12 + 1, 1) for month in range(months - 2, months + 4)
        )
    elif unit == "week":
        yield from (date + timedelta(days=7 * week - date.weekday()) for week in range(-2, 4))
    else:
        yield from (date + timedelta(days=day) for day in range(-3, 5))


def period(micros: int, zone: str, unit: Unit) -> tuple[int, int]:
    """Return the start and end of the period that contains an instant."""
    at = instant(micros)
    edges = sorted({first_instant(date, zone) for date in start_dates(local_time(at, zone), unit)})
    return next(
        (epoch_micros(start), epoch_micros(end))
        for start, end in pairwise(edges)
        if start <= at < end
    )


def epoch_micros(at: datetime) -> int:
    """Return the microseconds from 1970 to an instant."""
    return (at - UNIX_EPOCH) // timedelta(microseconds=1)


def tumbling(events: list[Event], zone: str, unit: Unit) -> list[WindowRow]:
    """Return the non-empty calendar periods of each key."""
    return aggregate_windows(events, lambda micros: [period(micros, zone, unit)])


def cumulative(events: list[Event], zone: str, unit: Unit, step: int | Unit) -> list[WindowRow]:
    """Return the non-empty cumulative windows of each key."""

    def windows(micros: int) -> list[tuple[int, int]]:
        start, end = period(micros, zone, unit)
        if isinstance(step, int):
            ends = {*range(start + step, end, step), end}
        else:
            ends = {end}
            while min(ends) > start:
                ends.add(period(min(ends) - 1, zone, step)[0])
        return [(start, step_end) for step_end in ends if step_end > micros]

    return aggregate_windows(events, windows)


def aggregate_windows(
    events: list[Event], windows: Callable[[int], list[tuple[int, int]]]
) -> list[WindowRow]:
    """Return the rows of all non-empty windows; `windows` returns those of an instant."""
    rows = []
    for key, own in events_by_key(events).items():
        window_events: dict[tuple[int, int], list[Event]] = {}
        for event in own:
            for window in windows(event.micros):
                window_events.setdefault(window, []).append(event)
        rows += [
            window_row(start, end, key, members) for (start, end), members in window_events.items()
        ]
    return rows
