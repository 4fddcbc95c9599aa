"""The scenario of jobs/enriched_activity.py: the activity of users, and the changelog of their
profiles.

Generated from a seed, with realistic faults; and the expected and actual rows of the tables.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Protocol

from tests.support.delta_tables import Reader, rows
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

ACTIVITY = "event_id string not null, user_id string, action string, event_time timestamp"
PROFILES = "user_id string not null, country string, plan string, changed_at timestamp"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
LATENESS_MS = 5_000
PATIENCE_MS = 20_000
Enriched = tuple[str, str | None, str | None, int | None]
"""An event's id, and the country, the plan and the beginning in ms of the profile that it met."""

_ACTIONS = ("view", "search", "order", "rate")
_COUNTRIES = ("DE", "FR", "JP", "BR", "KE", "CA")
_PLANS = ("free", "team", "pro")


class Sendable(Protocol):
    """A record of a topic."""

    @property
    def arrived(self) -> int:
        """The record's timestamp in ms since 1970."""

    def key(self) -> bytes | None:
        """Return the record's key."""

    def value(self) -> bytes | None:
        """Return the record's bytes."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One action of a user.

    `at` is the event time and `arrived` the broker's time, both in ms since 1970.
    `user` is None if nobody was signed in.
    """

    event_id: str
    user: str | None
    action: str
    at: int
    arrived: int
    broken: bool = False

    def key(self) -> bytes | None:
        """Return the record's key."""
        return None if self.user is None else self.user.encode()

    def value(self) -> bytes:
        """Return the record's bytes: JSON, truncated if it is broken."""
        fields = {
            "event_id": self.event_id,
            "user_id": self.user,
            "action": self.action,
            "event_time": _moment(self.at),
        }
        text = json.dumps(fields, separators=(",", ":")).encode()
        return text[: len(text) // 2] if self.broken else text


@dataclass(frozen=True, slots=True)
class Profile:
    """One change of a profile: the profile from `at` on, or with no country its end, a record
    without a value."""

    user: str
    country: str | None
    plan: str | None
    at: int
    arrived: int

    def key(self) -> bytes:
        """Return the record's key: all changes of a user are in one partition."""
        return self.user.encode()

    def value(self) -> bytes | None:
        """Return the record's bytes, JSON; None for a tombstone, whose time is that of its
        record."""
        if self.country is None:
            return None
        fields = {
            "user_id": self.user,
            "country": self.country,
            "plan": self.plan,
            "changed_at": _moment(self.at),
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def activity(
    count: int,
    *,
    seed: int = 5,
    users: int = 200,
    rate: float = 20.0,
    disorder: float = 4.0,
    broken: int = 5,
) -> list[Activity]:
    """Make activity in the order of its arrival, the same for the same arguments on every machine.

    `rate` is events a second and `disorder` the most seconds that one is under way. A few users do
    most; one event in a hundred is of nobody, and `broken` records cannot be read.

    >>> len(activity(1_000))
    1000
    """
    random, first = Random(seed), int(START.timestamp() * 1000)
    made = []
    for number in range(count):
        at = first + int(number * 1000 / rate)
        user = None if random.random() < 0.01 else _user(int(random.random() ** 2 * users))
        action = _ACTIONS[int(random.random() * len(_ACTIONS))]
        made.append(
            Activity(
                f"{seed}-{number}", user, action, at, at + int(random.random() * disorder * 1000)
            )
        )
    for _ in range(broken):
        place = int(random.random() * count)
        made[place] = replace(made[place], broken=True)
    return sorted(made, key=lambda event: (event.arrived, event.event_id))


def profiles(
    changes: int, *, seed: int = 6, users: int = 200, seconds: float = 100.0, disorder: float = 4.0
) -> list[Profile]:
    """Return the changelog for `activity`, in the order of its arrival.

    Four users of five have a profile at the start; the others get one by one of the `changes`,
    which are spread over `seconds`, so that their first activity may precede it. One change in
    six closes an account, and some changes of a profile are of the same millisecond; the
    later in the log counts.

    >>> len(profiles(100))
    260
    """
    random, first = Random(seed), int(START.timestamp() * 1000)
    made = [
        _profile(random, _user(number), first - 60_000 + number)
        for number in range(users)
        if number % 5
    ]
    for _ in range(changes):
        at = first + int(random.random() * seconds) * 1000 + (0 if random.random() < 0.5 else 137)
        user = _user(int(random.random() ** 2 * users))
        if random.random() < 1 / 6:
            # The time of a tombstone is that of its arrival.
            made.append(Profile(user, None, None, at, at))
        else:
            change = _profile(random, user, at)
            made.append(replace(change, arrived=at + int(random.random() * disorder * 1000)))
    return sorted(made, key=lambda change: (change.arrived, change.user))


def send(
    servers: str, topic: str, records: Sequence[Sendable], *, partitions: int = 4
) -> list[tuple[int, int]]:
    """Send records in their order, and return the partition and offset of each.

    The records of one key go to one partition. The record's timestamp is its arrival, which is long
    ago: create the topic with `retention_ms=-1`. A record that is not acknowledged raises a
    SourceError."""
    keys = [record.key() for record in records]
    chosen = [zlib.crc32(key or b"%d" % number) % partitions for number, key in enumerate(keys)]
    rows = zip(records, keys, chosen, strict=True)
    return deliver(
        servers,
        (Record(topic, record.value(), record.arrived, key, to) for record, key, to in rows),
    )


def met(event: Activity, changes: Iterable[tuple[Profile, tuple[int, int]]]) -> Profile | None:
    """Return the profile of an event at its time, from the changes and their positions in the
    log."""
    before = [(change.at, place[1], change) for change, place in changes if change.at <= event.at]
    last = max(before, key=lambda found: found[:2])[-1] if before else None
    return None if last is None or last.country is None else last


def _profile(random: Random, user: str, at: int) -> Profile:
    country, plan = (values[int(random.random() * len(values))] for values in (_COUNTRIES, _PLANS))
    return Profile(user, country, plan, at, at)


def _user(number: int) -> str:
    return f"user-{number}"


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class World:
    """What was sent."""

    options: dict[str, object]
    events: list[Activity]
    changes: dict[str, list[tuple[Profile, tuple[int, int]]]]
    reached: int

    def met(self, event: Activity) -> Enriched:
        """Return the profile of an event at its event time."""
        profile = met(event, self.changes.get(event.user or "", []))
        if profile is None:
            return event.event_id, None, None, None
        return event.event_id, profile.country, profile.plan, profile.at

    @property
    def decided(self) -> Counter[Enriched]:
        """Return the rows of the events that the changelog has passed, or whose retry time without
        a profile has ended."""
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
    send(broker.bootstrap_servers, names["did"], events)
    keyed: dict[str, list[tuple[Profile, tuple[int, int]]]] = {}
    newest: dict[int, int] = {}
    for change, place in zip(log, send(broker.bootstrap_servers, names["are"], log), strict=True):
        keyed.setdefault(change.user, []).append((change, place))
        newest[place[0]] = max(newest.get(place[0], change.at), change.at)
    options: dict[str, object] = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "activity.topics": names["did"],
        "activity.schema": ACTIVITY,
        "activity.watermark_delay": "5 seconds",
        "profiles.topics": names["are"],
        "profiles.schema": PROFILES,
        "profiles.time": "changed_at",
        "profiles.watermark_delay": f"{LATENESS_MS} milliseconds",
        "enrich.retry_for": f"{PATIENCE_MS} milliseconds",
    }
    return World(options, events, keyed, min(newest.values()) - LATENESS_MS)


def read_enriched(table: Path, read: Reader = rows) -> Counter[Enriched]:
    """Read the target."""
    return Counter(
        (
            row["event_id"],
            row["country"],
            row["plan"],
            None if row["valid_from"] is None else round(row["valid_from"].timestamp() * 1000),
        )
        for row in read(table)
    )
