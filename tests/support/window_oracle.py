"""Windows in plain Python, from their definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

SECOND = 1_000_000


class Event(NamedTuple):
    """An event: microseconds since 1970, a key, a value."""

    micros: int
    key: str | None
    value: int | None


WindowRow = tuple[int, int, str | None, int, int | None, int | None, int | None]


def window_row(start: int, end: int, key: str | None, events: list[Event]) -> WindowRow:
    """Return (start, end, key, count, sum, min, last value) of the events of a window."""
    values = [event.value for event in events if event.value is not None]
    latest = max(
        events, key=lambda event: (event.micros, event.value is not None, event.value or 0)
    )
    return (
        start,
        end,
        key,
        len(events),
        sum(values) if values else None,
        min(values, default=None),
        latest.value,
    )


def events_by_key(events: Iterable[Event]) -> dict[str | None, list[Event]]:
    """Return the events of each key in the order of their time."""
    keyed = defaultdict(list)
    for event in sorted(events, key=lambda event: event.micros):
        keyed[event.key].append(event)
    return keyed


def hopping(events: list[Event], size: int, hop: int, offset: int = 0) -> list[WindowRow]:
    """Return the non-empty hopping windows; tumbling windows have a hop of their size."""
    rows = []
    for key, own in events_by_key(events).items():
        starts = {
            start
            for event in own
            for start in range(
                (event.micros - offset) // hop * hop + offset, event.micros - size, -hop
            )
        }
        window_events = {
            start: [e for e in own if start <= e.micros < start + size] for start in starts
        }
        rows += [
            window_row(start, start + size, key, members)
            for start, members in window_events.items()
        ]
    return rows


def sliding(events: list[Event], size: int) -> list[WindowRow]:
    """Return the window of each event."""
    return [
        window_row(
            event.micros - size,
            event.micros,
            key,
            [e for e in own if event.micros - size <= e.micros <= event.micros],
        )
        for key, own in events_by_key(events).items()
        for event in own
    ]


def sliding_sets(events: list[Event], size: int) -> set[tuple[str | None, tuple[Event, ...]]]:
    """Return the distinct sets of events of a key in windows of a size, both ends inclusive."""
    sets = set()
    for key, own in events_by_key(events).items():
        edges = {
            edge
            for e in own
            for edge in (e.micros - size, e.micros, e.micros + 1, e.micros - size - 1)
        }
        for start in edges:
            window_events = tuple(e for e in own if start <= e.micros <= start + size)
            if window_events:
                sets.add((key, window_events))
    return sets


def session(events: list[Event], gap: int, max_duration: int | None = None) -> list[WindowRow]:
    """Return the sessions of events, split at multiples of `max_duration`."""
    rows = []
    for key, own in events_by_key(events).items():
        run: list[Event] = []
        for event in own:
            is_split = (
                max_duration is not None
                and bool(run)
                and run[0].micros // max_duration != event.micros // max_duration
            )
            if run and (event.micros - run[-1].micros > gap or is_split):
                rows.append(window_row(run[0].micros, run[-1].micros + gap, key, run))
                run = []
            run.append(event)
        rows.append(window_row(run[0].micros, run[-1].micros + gap, key, run))
    return rows
