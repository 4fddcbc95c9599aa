"""The world of jobs/deduplicated.py: a topic with redelivery, and what must be left of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.support.delta_tables import rows
from tidegate.jobs.sample_clicks import SCHEMA, Click, SentRecord, clicks

HORIZON_MS, HOLD_MS, LATENESS_MS = 8_000, 2_000, 10_000
OPTIONS = {
    "events.schema": SCHEMA,
    "events.watermark_delay": f"{LATENESS_MS} milliseconds",
    "deduplicate.key": "event_id",
    "deduplicate.within": f"{HORIZON_MS} milliseconds",
    "deduplicate.max_delay": f"{HOLD_MS} milliseconds",
}
Place = tuple[int, int]


def redelivered(count: int) -> list[Click]:
    """Return clicks, some of them repeated: within the horizon, just beyond it, and long after
    it."""
    made = clicks(count, seed=9, duplicate_share=0.1)
    sound = [click for click in made if click.fault is None and not click.is_late]
    again = [
        replace(
            click, event_time_ms=click.event_time_ms + later, arrival_ms=click.arrival_ms + later
        )
        for number, click in enumerate(sound[::25])
        for later in ((3_000,), (7_999, 15_000), (8_001,), (20_000,))[number % 4]
    ]
    return sorted(
        [*made, *again],
        key=lambda click: (
            click.arrival_ms,
            click.event_id,
            click.event_time_ms,
            click.is_duplicate,
        ),
    )


def within(ledger: Iterable[SentRecord]) -> list[SentRecord]:
    """Return the records without an earlier record of their key within the interval, in the order
    of time."""
    unique, last = [], defaultdict[str, float](lambda: float("-inf"))
    sound = [sent for sent in ledger if sent.click.fault is None and not sent.click.is_late]
    for sent in sorted(
        sound, key=lambda sent: (sent.click.event_time_ms, sent.partition, sent.offset)
    ):
        if sent.click.event_time_ms - last[sent.click.event_id] > HORIZON_MS:
            unique.append(sent)
        last[sent.click.event_id] = sent.click.event_time_ms
    return unique


def for_ever(ledger: Iterable[SentRecord]) -> list[SentRecord]:
    """Return each key's first record."""
    found: dict[str, SentRecord] = {}
    for sent in within(ledger):
        found.setdefault(sent.click.event_id, sent)
    return list(found.values())


def out(records: Sequence[SentRecord], ledger: Sequence[SentRecord]) -> Counter[Place]:
    """Return the positions of the records whose panes the watermark of the job has closed."""
    watermark = max(s.click.event_time_ms for s in ledger if s.click.fault is None) - LATENESS_MS
    closed = [s for s in records if (s.click.event_time_ms // HOLD_MS + 1) * HOLD_MS <= watermark]
    return Counter((s.partition, s.offset) for s in closed)


def places(table: Path) -> Counter[Place]:
    found = rows(table, ["partition", "offset"])
    return Counter((row["partition"], row["offset"]) for row in found)
