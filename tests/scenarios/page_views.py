"""The world of jobs/page_views.py: what corrected windows must hold by the producer's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.delta_tables import rows
from tests.support.expected_views import expected_views
from tests.support.window_oracle import Event, session
from tidegate.jobs.sample_clicks import SentRecord

SIZE_MS, GAP_MS, LATENESS_MS = 60_000, 5_000, 10_000
Row = tuple[int, int, str, int]
"""Start and end in ms, page, views."""


def answers(table: Iterable[dict[str, Any]]) -> Counter[Row]:
    ends = (
        (row, [round(row["window"][edge].timestamp() * 1000) for edge in ("start", "end")])
        for row in table
    )
    return Counter((start, end, row["page"], row["views"]) for row, (start, end) in ends)


def tumbled(ledger: Iterable[SentRecord]) -> Counter[Row]:
    found = expected_views(ledger, SIZE_MS, include_late=True).items()
    return Counter((start, start + SIZE_MS, page, views.views) for (start, page), views in found)


def visited(ledger: Iterable[SentRecord]) -> Counter[Row]:
    good = [
        Event(sent.click.event_time_ms * 1000, sent.click.page, 1)
        for sent in ledger
        if sent.click.fault is None
    ]
    return Counter(
        (row[0] // 1000, row[1] // 1000, row[2] or "", row[3])
        for row in session(good, GAP_MS * 1000)
    )


def closed(found: Counter[Row], ledger: Iterable[SentRecord]) -> Counter[Row]:
    """Return the rows whose windows the watermark of a drained topic has passed."""
    end = max(sent.click.event_time_ms for sent in ledger if sent.click.fault is None) - LATENESS_MS
    return Counter({row: number for row, number in found.items() if row[1] <= end})


def late_positions(root: Path) -> set[tuple[int, int]]:
    """Return the partitions and offsets of the rows in the late table."""
    late = root / "late_rows"
    return {(row["partition"], row["offset"]) for row in rows(late)}


def accepted(ledger: Iterable[SentRecord], root: Path) -> list[SentRecord]:
    """Return the records that are not in the late table."""
    late = late_positions(root)
    return [sent for sent in ledger if (sent.partition, sent.offset) not in late]
