"""The click-through job's tables, and what must be in them by the producer's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tidegate.testing.searches import SCHEMAS, TOPICS, Event, Ledger, Topic, matched

BEFORE_MS, AFTER_MS, WINDOW_MS = 10_000, 300_000, 600_000
OPTIONS = {
    **{f"{topic}.schema": SCHEMAS[topic] for topic in TOPICS},
    **{f"{topic}.lateness": "30 seconds" for topic in TOPICS},
    "join.before": f"{BEFORE_MS} milliseconds",
    "join.after": f"{AFTER_MS} milliseconds",
    "window.size": f"{WINDOW_MS} milliseconds",
}
Rate = tuple[int, int, str, int, int, int]
"""Window start and end in ms, page, searches, clicked, clicks."""


def rates(ledger: Ledger) -> Counter[Rate]:
    """Count the searches and clicks in plain Python; what comes twice counts once."""
    found: dict[tuple[int, str], dict[str, set[str]]] = {}
    for search, clicks in matched(ledger.values(), BEFORE_MS, AFTER_MS):
        window = found.setdefault((search.at // WINDOW_MS * WINDOW_MS, search.place), {})
        window.setdefault(search.id, set()).update(click.id for click in clicks)
    return Counter(
        (
            start,
            start + WINDOW_MS,
            page,
            len(own),
            sum(map(bool, own.values())),
            sum(map(len, own.values())),
        )
        for (start, page), own in found.items()
    )


def pairs(ledger: Ledger) -> Counter[tuple[str, str | None]]:
    """Join the searches with their clicks in plain Python, with all that comes twice."""
    found = matched(ledger.values(), BEFORE_MS, AFTER_MS)
    ids = [(search.id, [click.id for click in clicks]) for search, clicks in found]
    return Counter((search, click) for search, clicks in ids for click in clicks or (None,))


def read_rates(table: Path) -> Counter[Rate]:
    """Read the table of rates."""
    return Counter(
        (
            round(row["window"]["start"].timestamp() * 1000),
            round(row["window"]["end"].timestamp() * 1000),
            row["page"],
            row["searches"],
            row["clicked"],
            row["clicks"],
        )
        for row in rows(table)
    )


def read_pairs(table: Path) -> Counter[tuple[str, str | None]]:
    """Read the table of joined rows."""
    return Counter((row["search_id"], row["click_id"]) for row in rows(table))


def rows(table: Path) -> list[dict[str, Any]]:
    """Read a table without Spark; none if it was never written."""
    found: list[dict[str, Any]] = (
        DeltaTable(table).to_pyarrow_table().to_pylist() if table.exists() else []
    )
    return found


def places(table: Path) -> Counter[tuple[str, int, int]]:
    """Read the places of rejected rows."""
    return Counter((row["topic"], row["partition"], row["offset"]) for row in rows(table))


def rejected(
    ledger: Ledger, named: dict[Topic, str], wanted: Iterable[Event]
) -> Counter[tuple[str, int, int]]:
    """Return the places of some events."""
    chosen = set(map(id, wanted))
    return Counter(
        (named[topic], partition, offset)
        for (topic, partition, offset), event in ledger.items()
        if id(event) in chosen
    )


def require_all_rows(root: Path, ledger: Ledger, named: dict[Topic, str]) -> None:
    """Check that each record is in the result, or in the one table of rejected rows that it belongs
    to."""
    dead = [event for event in ledger.values() if event.broken]
    assert places(root / "dead_letters") == rejected(ledger, named, dead)
    for topic in TOPICS:
        late = [
            event
            for event in ledger.values()
            if event.topic == topic and event.straggler and not event.broken
        ]
        assert late
        assert places(root / f"late_{topic}") == rejected(ledger, named, late)
