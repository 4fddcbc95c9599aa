"""Activity and the changelog of profiles on a broker, and what the job must make of them by the
producer's ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tidegate.testing import Broker
from tidegate.testing.activity import (
    ACTIVITY,
    PROFILES,
    Activity,
    Profile,
    activity,
    met,
    profiles,
    send,
)

LATENESS_MS, PATIENCE_MS = 5_000, 20_000
Enriched = tuple[str, str | None, str | None, int | None]
"""An event's id, and the country, the plan and the beginning in ms of the profile that it met."""


@dataclass(frozen=True)
class World:
    """What was sent."""

    options: dict[str, object]
    events: list[Activity]
    changes: dict[str, list[tuple[Profile, tuple[int, int]]]]
    reached: int

    def met(self, event: Activity) -> Enriched:
        """Return what an event meets by its own time."""
        profile = met(event, self.changes.get(event.user or "", []))
        if profile is None:
            return event.event_id, None, None, None
        return event.event_id, profile.country, profile.plan, profile.at

    @property
    def decided(self) -> Counter[Enriched]:
        """Return the rows of those events that the changelog has passed, and by their patience
        where they met nothing."""
        due = [
            (event, self.met(event))
            for event in self.events
            if not event.broken and event.at < self.reached
        ]
        return Counter(row for event, row in due if row[1] or event.at + PATIENCE_MS < self.reached)

    @property
    def waiting(self) -> Counter[str]:
        """Return the events that must wait in the end."""
        decided = {row[0] for row in self.decided}
        return Counter(
            e.event_id for e in self.events if not e.broken and e.event_id not in decided
        )


def sent(broker: Broker, topic: str, count: int = 1_500, changes: int = 300) -> World:
    """Send activity of some 75 seconds, and changes of the first 60."""
    names = {
        name: broker.create_topic(f"{topic}-{name}", partitions=4, retention_ms=-1)
        for name in ("did", "are")
    }
    events, log = activity(count), profiles(changes, seconds=60)
    send(broker.servers, names["did"], events)
    keyed: dict[str, list[tuple[Profile, tuple[int, int]]]] = {}
    newest: dict[int, int] = {}
    for change, place in zip(log, send(broker.servers, names["are"], log), strict=True):
        keyed.setdefault(change.user, []).append((change, place))
        newest[place[0]] = max(newest.get(place[0], change.at), change.at)
    options: dict[str, object] = {
        "kafka.servers": broker.servers,
        "activity.topics": names["did"],
        "activity.schema": ACTIVITY,
        "activity.lateness": "5 seconds",
        "profiles.topics": names["are"],
        "profiles.schema": PROFILES,
        "profiles.time": "changed_at",
        "profiles.lateness": f"{LATENESS_MS} milliseconds",
        "enrich.patience": f"{PATIENCE_MS} milliseconds",
    }
    return World(options, events, keyed, min(newest.values()) - LATENESS_MS)


def rows(table: Path) -> list[dict[str, Any]]:
    """Read a table with a reader that is not Spark."""
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


def enriched(table: Path) -> Counter[Enriched]:
    """Return the target's rows as a multiset."""
    return Counter(
        (
            row["event_id"],
            row["country"],
            row["plan"],
            None if row["valid_from"] is None else round(row["valid_from"].timestamp() * 1000),
        )
        for row in rows(table)
    )
