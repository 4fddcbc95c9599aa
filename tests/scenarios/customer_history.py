"""The scenario of jobs/customer_history.py: customers whose changes Debezium writes to a topic.

Generated from a seed, with realistic faults; and the expected and actual rows of the tables.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Literal

from tests.support import changelog_oracle as oracle
from tests.support.changelog_oracle import Change
from tests.support.delta_tables import rows
from tidegate.errors import ArgumentError
from tidegate.kafka.producer import Record, deliver

SCHEMA = (
    "id BIGINT NOT NULL, name STRING NOT NULL, email STRING, city STRING, credit DECIMAL(10, 2)"
)
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
COLUMNS = ("id", "name", "email", "city", "credit")
OPTIONS = {"changes.schema": SCHEMA, "changes.key": "id"}
Valid = tuple[str, str | None, int, int | None]
"""One version: the key, the row as text, and the milliseconds from when to when it was valid."""

Op = Literal["create", "update", "delete", "snapshot", "truncate", "tombstone"]
_CODES = {"create": "c", "update": "u", "delete": "d", "snapshot": "r", "truncate": "t"}
_NAMES = ("Ann", "Bo", "Cem", "Dörte", "Eve", "Femi", "Gül", "Hana", "Ivo", "Jun")
_CITIES = ("Berlin", "Lagos", "Lima", "Oslo", "Pune", "Quito", "Seoul", "Tunis")
FAULTS = (
    "cut off",
    "empty",
    "wrong type",
    "no key",
    "unknown op",
    "large value left out",
    "no record",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One record of the topic: what happened to whom, where in the database's log, and when.

    `at` and `sent` are milliseconds since 1970, by the database and by Kafka. A tombstone has no
    `lsn`; `row` is what the change left. A record with a fault has no change."""

    op: Op
    id: int | None
    row: dict[str, Any] | None
    lsn: int | None
    at: int
    sent: int
    fault: str | None = None
    again: bool = False

    def key(self) -> bytes | None:
        """Return the record's key."""
        return (
            None
            if self.id is None or self.fault == "no record"
            else json.dumps({"id": self.id}).encode()
        )

    def value(self) -> bytes | None:
        """Return the record's value: JSON without a schema part, damaged where the record has a
        fault."""
        if self.op == "tombstone" or self.fault == "no record":
            return None
        before = (
            {"id": self.id, **dict.fromkeys(("name", "email", "city", "credit"))}
            if self.op == "delete"
            else None
        )
        source = {
            "connector": "postgresql",
            "ts_ms": self.at,
            "ts_us": self.at * 1000,
            "table": "customers",
        }
        record = {
            "before": before,
            "after": self.row,
            "source": source | {"lsn": self.lsn},
            "op": _CODES[self.op],
            "ts_ms": self.sent,
        }
        return _damaged(record, self.fault) if self.fault else json.dumps(record).encode()


def _damaged(record: dict[str, Any], fault: str) -> bytes:
    text = json.dumps(record)
    if fault == "cut off":
        return text[: len(text) // 2].encode()
    if fault == "empty":
        return b""
    if fault == "wrong type":
        return json.dumps(record | {"after": record["after"] | {"credit": {"euros": 5}}}).encode()
    if fault == "no key":
        return json.dumps(
            record | {"before": None, "after": record["after"] | {"id": None}}
        ).encode()
    if fault == "unknown op":
        return json.dumps(record | {"op": "?"}).encode()
    return json.dumps(
        record | {"after": record["after"] | {"email": "__debezium_unavailable_value"}}
    ).encode()


def customers(count: int, *, seed: int = 5, people: int = 200, broken: int = 12) -> list[Event]:
    """Return the records of a topic in the order of their arrival.

    The same arguments return the same records on every machine. A snapshot of half of the customers
    comes first; then customers are created, move, get credit, change several times in one
    millisecond, are deleted (each with its tombstone), are created again, and change their ids.
    After three fifths the table is truncated. Some changes are delayed; the connector restarts at
    times and sends up to sixty records again. `broken` records cannot be read.

    >>> len(customers(1_000))
    1000
    """
    if count < 4 * (people + broken):
        raise ArgumentError(
            f"count is {count}.", f"at least {4 * (people + broken)} for {people} people."
        )
    table = _Table(Random(seed), people)
    chance = table.chance
    places = sorted(int(chance.random() * count) for _ in range(broken))
    made: list[Event] = []
    for event in table.changes(count - broken):
        while places and places[0] <= len(made):
            places.pop(0)
            fault = FAULTS[len(places) % len(FAULTS)]
            made.append(replace(_sound(table, event), fault=fault))
        made.append(event)
    return made + [replace(_sound(table, made[-1]), fault="empty")] * (count - len(made))


def _sound(table: _Table, event: Event) -> Event:
    return Event(
        "update",
        table.next_id + 1,
        table.person(table.next_id + 1),
        event.lsn,
        event.at,
        event.sent,
    )


@dataclass
class _Table:
    chance: Random
    people: int
    alive: dict[int, dict[str, Any]] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)
    delayed: list[tuple[int, Event]] = field(default_factory=list)
    next_id: int = 1000
    lsn: int = 24_000_000
    at: int = int(START.timestamp() * 1000)

    def changes(self, count: int) -> Iterator[Event]:
        """Return this number of records."""
        sent: list[Event] = []
        plain = self._lives(count)
        while len(sent) < count:
            due = [event for after, event in self.delayed if after <= len(sent)]
            self.delayed = [(after, event) for after, event in self.delayed if after > len(sent)]
            fresh = [replace(event, sent=self.at + 40) for event in due] or next(plain)
            if (
                len(fresh) == 1
                and fresh[0].op == "update"
                and not due
                and self.chance.random() < 0.08
            ):
                self.delayed.append((len(sent) + 20 + int(self.chance.random() * 200), fresh[0]))
                continue
            if self.chance.random() < 0.004:
                fresh = [
                    replace(event, again=True, sent=self.at + 90) for event in sent[-60:]
                ] + fresh
            fresh = fresh[: count - len(sent)]
            sent += fresh
            yield from fresh

    def _lives(self, count: int) -> Iterator[list[Event]]:
        yield [self._change("snapshot", self._new()) for _ in range(self.people // 2)]
        steps = 0
        while True:
            self.at += int(-math.log1p(-self.chance.random()) * 300)
            self.lsn += 8 * (1 + int(self.chance.random() * 30))
            steps += 1
            yield (
                [self._truncate()] if steps == count * 2 // 5 else self._step(self.chance.random())
            )

    def _step(self, kind: float) -> list[Event]:
        if kind < 0.2 or len(self.alive) < 5:
            return [self._change("create", self._new())]
        which = self._one()
        if kind < 0.68:
            return [self._update(which)]
        if kind < 0.76:
            return [self._update(which) for _ in range(3)]
        if kind < 0.88:
            return self._delete(which)
        if kind < 0.96 and self.deleted:
            return [
                self._change(
                    "create", self.deleted.pop(int(self.chance.random() * len(self.deleted)))
                )
            ]
        row = dict(self.alive[which])
        return [
            *self._delete(which),
            self._change("create", self._new(), {**row, "id": self.next_id}),
        ]

    def _new(self) -> int:
        self.next_id += 1
        return self.next_id

    def _one(self) -> int:
        return list(self.alive)[int(self.chance.random() * len(self.alive))]

    def person(self, which: int) -> dict[str, Any]:
        """Make up a customer."""
        name, city = (
            choices[int(self.chance.random() * len(choices))] for choices in (_NAMES, _CITIES)
        )
        return {
            "id": which,
            "name": name,
            "email": f"{name.lower()}{which}@example.org",
            "city": city,
            "credit": None,
        }

    def _update(self, which: int) -> Event:
        credit = f"{int(self.chance.random() * 90_000) / 100:.2f}"
        change = (
            {"credit": credit}
            if self.chance.random() < 0.6
            else {"city": self.person(which)["city"]}
        )
        self.lsn += 8
        return self._change("update", which, {**self.alive[which], **change})

    def _change(self, op: Op, which: int, row: dict[str, Any] | None = None) -> Event:
        self.alive[which] = row or self.person(which)
        return Event(op, which, dict(self.alive[which]), self.lsn, self.at, self.at + 40)

    def _delete(self, which: int) -> list[Event]:
        del self.alive[which]
        self.deleted.append(which)
        deleted = Event("delete", which, None, self.lsn, self.at, self.at + 40)
        return [deleted, replace(deleted, op="tombstone", lsn=None)]

    def _truncate(self) -> Event:
        self.deleted += self.alive
        self.alive = {}
        return Event("truncate", None, None, self.lsn, self.at, self.at + 40)


@dataclass(frozen=True, slots=True)
class Sent:
    """One acknowledged record, and where the broker put it."""

    partition: int
    offset: int
    event: Event


def produce(
    servers: str, topic: str, events: Sequence[Event], *, partitions: int = 3
) -> list[Sent]:
    """Send the records in their order, and return the ledger in the same order.

    A key's records always go to one partition. The record's timestamp is `sent`: create the topic
    with `retention_ms=-1`. Raises SourceError for a record that the broker did not acknowledge."""
    records = (
        Record(topic, event.value(), event.sent, event.key(), (event.id or 0) % partitions)
        for event in events
    )
    return [
        Sent(*place, event) for place, event in zip(deliver(servers, records), events, strict=True)
    ]


def log(ledger: Iterable[Sent]) -> list[Change]:
    """Return the changes in the topic, in the order of each partition."""
    return [
        Change(
            sent.event.op,
            None if sent.event.id is None else str(sent.event.id),
            None if sent.event.row is None else _row_text(sent.event.row),
            None if sent.event.lsn is None else (sent.event.lsn,),
            sent.event.sent if sent.event.op == "tombstone" else sent.event.at,
        )
        for sent in ledger
        if sent.event.fault is None
    ]


def expected_customers(ledger: Iterable[Sent]) -> Counter[str]:
    """Return the customers that there are after all changes."""
    return Counter(str(value) for value in oracle.current(log(ledger)).values())


def expected_history(ledger: Iterable[Sent]) -> Counter[Valid]:
    """Return every version of every customer."""
    return Counter((v.key, v.value, v.start, v.end) for v in oracle.history(log(ledger)))


def dead(ledger: Iterable[Sent]) -> Counter[tuple[int, int]]:
    """Return the positions of the records that cannot be read."""
    return Counter((sent.partition, sent.offset) for sent in ledger if sent.event.fault)


def read_customers(table: Path) -> Counter[str]:
    """Read the current table."""
    return Counter(_row_text(row) for row in rows(table) if not row["deleted"])


def read_history(table: Path) -> Counter[Valid]:
    """Read the versions that were valid for any time."""
    found = rows(table)
    assert all(row["is_current"] == (row["valid_to"] is None) for row in found)
    return Counter(
        (str(row["id"]), _row_text(row), _millis(row["valid_from"]), _millis(row["valid_to"]))
        for row in found
        if row["valid_to"] is None or row["valid_from"] < row["valid_to"]
    )


def read_dead(table: Path) -> Counter[tuple[int, int]]:
    """Read the positions of the dead letters; that of a change that the tables reject is in it."""
    places = (
        row if row["topic"] is not None else json.loads(row["value"])["position"]
        for row in rows(table)
    )
    return Counter((place["partition"], place["offset"]) for place in places)


def _row_text(row: dict[str, Any]) -> str:
    return json.dumps({name: None if row[name] is None else str(row[name]) for name in COLUMNS})


def _millis(at: Any) -> Any:
    return None if at is None else round(at.timestamp() * 1000)
