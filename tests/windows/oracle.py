"""The windows in plain Python, from their definitions, with no regard to cost."""

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


Answer = tuple[int, int, str | None, int, int | None, int | None, int | None]


def answer(start: int, end: int, key: str | None, events: list[Event]) -> Answer:
    """Return (start, end, key, count, total, smallest, latest value) of a window's events."""
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


def by_key(events: Iterable[Event]) -> dict[str | None, list[Event]]:
    """Return each key's events in the order of their time."""
    keyed = defaultdict(list)
    for event in sorted(events, key=lambda event: event.micros):
        keyed[event.key].append(event)
    return keyed


def hopping(events: list[Event], size: int, hop: int, offset: int = 0) -> list[Answer]:
    """Return every window of multiples of the hop that holds an event; a tumbling one hops by its
    size."""
    answers = []
    for key, own in by_key(events).items():
        starts = {
            start
            for event in own
            for start in range(
                (event.micros - offset) // hop * hop + offset, event.micros - size, -hop
            )
        }
        held = {start: [e for e in own if start <= e.micros < start + size] for start in starts}
        answers += [answer(start, start + size, key, inside) for start, inside in held.items()]
    return answers


def sliding(events: list[Event], size: int) -> list[Answer]:
    """Return one window for each event."""
    return [
        answer(
            event.micros - size,
            event.micros,
            key,
            [e for e in own if event.micros - size <= e.micros <= event.micros],
        )
        for key, own in by_key(events).items()
        for event in own
    ]


def sliding_sets(events: list[Event], size: int) -> set[tuple[str | None, tuple[Event, ...]]]:
    """Return every distinct set of a key's events that some window of the size, ends included,
    holds."""
    found = set()
    for key, own in by_key(events).items():
        edges = {
            edge
            for e in own
            for edge in (e.micros - size, e.micros, e.micros + 1, e.micros - size - 1)
        }
        for start in edges:
            held = tuple(e for e in own if start <= e.micros <= start + size)
            if held:
                found.add((key, held))
    return found


def session(events: list[Event], gap: int, longest: int | None = None) -> list[Answer]:
    """Return the runs of events at most a gap apart, cut at the multiples of `longest`."""
    answers = []
    for key, own in by_key(events).items():
        run: list[Event] = []
        for event in own:
            cut = (
                longest is not None
                and bool(run)
                and run[0].micros // longest != event.micros // longest
            )
            if run and (event.micros - run[-1].micros > gap or cut):
                answers.append(answer(run[0].micros, run[-1].micros + gap, key, run))
                run = []
            run.append(event)
        answers.append(answer(run[0].micros, run[-1].micros + gap, key, run))
    return answers
