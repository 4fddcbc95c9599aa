"""The world of jobs/deduplicated.py: a topic with redelivery, and what must be left of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tidegate.testing.clicks import SCHEMA, Click, clicks
from tidegate.testing.ledger import Sent

from ..tables import rows

HORIZON_MS, HOLD_MS, LATENESS_MS = 8_000, 2_000, 10_000
OPTIONS = {
    "events.schema": SCHEMA,
    "events.lateness": f"{LATENESS_MS} milliseconds",
    "deduplicate.key": "event_id",
    "deduplicate.horizon": f"{HORIZON_MS} milliseconds",
    "deduplicate.hold": f"{HOLD_MS} milliseconds",
}
Place = tuple[int, int]


def redelivered(count: int) -> list[Click]:
    """Make clicks of which some come again: within the horizon, just beyond it, and long after
    it."""
    made = clicks(count, seed=9, duplicates=0.1)
    sound = [click for click in made if click.fault is None and not click.straggler]
    again = [
        replace(click, at=click.at + later, arrived=click.arrived + later)
        for number, click in enumerate(sound[::25])
        for later in ((3_000,), (7_999, 15_000), (8_001,), (20_000,))[number % 4]
    ]
    return sorted(
        [*made, *again],
        key=lambda click: (click.arrived, click.event_id, click.at, click.duplicate),
    )


def within(ledger: Iterable[Sent]) -> list[Sent]:
    """Return the records that no other of their key came before within the horizon, in the order of
    their time."""
    kept, last = [], defaultdict[str, float](lambda: float("-inf"))
    sound = [sent for sent in ledger if sent.click.fault is None and not sent.click.straggler]
    for sent in sorted(sound, key=lambda sent: (sent.click.at, sent.partition, sent.offset)):
        if sent.click.at - last[sent.click.event_id] > HORIZON_MS:
            kept.append(sent)
        last[sent.click.event_id] = sent.click.at
    return kept


def for_ever(ledger: Iterable[Sent]) -> list[Sent]:
    """Return each key's first record."""
    found: dict[str, Sent] = {}
    for sent in within(ledger):
        found.setdefault(sent.click.event_id, sent)
    return list(found.values())


def out(records: Sequence[Sent], ledger: Sequence[Sent]) -> Counter[Place]:
    """Return the places of those records whose panes the job's watermark has closed."""
    watermark = max(s.click.at for s in ledger if s.click.fault is None) - LATENESS_MS
    closed = [s for s in records if (s.click.at // HOLD_MS + 1) * HOLD_MS <= watermark]
    return Counter((s.partition, s.offset) for s in closed)


def places(table: Path) -> Counter[Place]:
    found = rows(table, ["partition", "offset"])
    return Counter((row["partition"], row["offset"]) for row in found)
