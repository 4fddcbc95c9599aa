"""Calendar windows in plain Python, from their definition, on the clocks that zoneinfo knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

from tidegate.commit import EPOCH

from .frames import instant
from .oracle import Answer, Event, answer, by_key

Unit = Literal["day", "week", "month"]
MINUTE = timedelta(minutes=1)
FARTHEST = timedelta(hours=27)


def shown(at: datetime, zone: str) -> datetime:
    """Return what the zone's clocks show at an instant."""
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@cache
def begins(wall: datetime, zone: str) -> datetime:
    """Return the first instant, to the minute, at which the zone's clocks show this time or a later
    one."""
    at = wall.replace(tzinfo=UTC) - FARTHEST
    # Quarters of an hour first, for speed: all midnights since 1972 fall on one.
    while shown(at + 15 * MINUTE, zone) < wall:
        at += 15 * MINUTE
    while shown(at, zone) < wall:
        at += MINUTE
    return at


def dates(near: datetime, unit: Unit) -> Iterator[datetime]:
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
    """Return the bounds of the period that holds an instant: the last beginning before or at it,
    and the next one."""
    at = instant(micros)
    edges = sorted({begins(date, zone) for date in dates(shown(at, zone), unit)})
    return next((since(start), since(end)) for start, end in pairwise(edges) if start <= at < end)


def since(at: datetime) -> int:
    """Return the microseconds from 1970 to an instant."""
    return (at - EPOCH) // timedelta(microseconds=1)


def tumbling(events: list[Event], zone: str, unit: Unit) -> list[Answer]:
    """Return every period of the calendar that holds an event of a key."""
    return grown(events, lambda micros: [period(micros, zone, unit)])


def cumulative(events: list[Event], zone: str, unit: Unit, step: int | Unit) -> list[Answer]:
    """Return every window from a period's start to a later end of a step in it that holds an event
    of a key."""

    def windows(micros: int) -> list[tuple[int, int]]:
        start, end = period(micros, zone, unit)
        if isinstance(step, int):
            ends = {*range(start + step, end, step), end}
        else:
            ends = {end}
            while min(ends) > start:
                ends.add(period(min(ends) - 1, zone, step)[0])
        return [(start, until) for until in ends if until > micros]

    return grown(events, windows)


def grown(events: list[Event], windows: Callable[[int], list[tuple[int, int]]]) -> list[Answer]:
    """Return the answers of all windows that hold an event, given the windows of an instant."""
    answers = []
    for key, own in by_key(events).items():
        held: dict[tuple[int, int], list[Event]] = {}
        for event in own:
            for window in windows(event.micros):
                held.setdefault(window, []).append(event)
        answers += [answer(start, end, key, inside) for (start, end), inside in held.items()]
    return answers
