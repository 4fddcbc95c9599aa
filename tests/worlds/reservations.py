"""The world of jobs/reservations.py: guests who ask for seats, and what becomes of each command.

The oracle is plain Python over the ledger: each partition's commands in the order of their offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from tidegate.testing.delivery import Record, deliver

from ..tables import rows

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TAKEN, NOBODY = "the seat is taken", "nobody asks"
FREE, ANOTHER = "the seat is free", "another guest has the seat"
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A command: of which type, for which seat, and by whom."""

    seat: str | None
    kind: str
    guest: str | None
    broken: bool = False

    def value(self, number: int) -> bytes:
        """Return the command as JSON; cut off where it is broken."""
        at = (START + timedelta(seconds=number)).isoformat()
        told = {"seat": self.seat, "type": self.kind, "guest": self.guest, "event_time": at}
        text = json.dumps(told).encode()
        return text[: len(text) // 2] if self.broken else text


@dataclass(frozen=True, slots=True)
class Sent:
    """A command, and where the broker put it."""

    partition: int
    offset: int
    asked: Asked

    @property
    def place(self) -> Place:
        """Its partition and offset."""
        return self.partition, self.offset

    @property
    def decided(self) -> bool:
        """Whether it can be read, and is one that the rules know."""
        asked = self.asked
        return not asked.broken and asked.kind != "upgrade" and asked.seat is not None


def commands(count: int, *, seed: int, seats: int = 30) -> list[Asked]:
    """Make commands, the same for the same arguments: some of a type that the rules do not know,
    some without a seat or a guest, and some that cannot be read."""
    chance = Random(seed)
    made = []
    for _ in range(count):
        kind = chance.choices(("reserve", "release", "upgrade"), (6, 4, 1))[0]
        seat = None if chance.random() < 0.01 else f"s{chance.randrange(seats)}"
        guest = None if chance.random() < 0.1 else chance.choice(("Ann", "Bo", "Cem"))
        made.append(Asked(seat, kind, guest, chance.random() < 0.01))
    return made


def produce(servers: str, topic: str, made: Sequence[Asked], *, partitions: int = 2) -> list[Sent]:
    """Send the commands in their order, those of a seat to one partition; return the ledger."""
    records = (
        Record(
            topic,
            asked.value(number),
            int(START.timestamp() * 1000) + number * 1000,
            None if asked.seat is None else asked.seat.encode(),
            0 if asked.seat is None else sum(asked.seat.encode()) % partitions,
        )
        for number, asked in enumerate(made)
    )
    places = deliver(servers, records)
    return [Sent(*place, asked) for place, asked in zip(places, made, strict=True)]


def decisions(ledger: Iterable[Sent]) -> tuple[dict[Place, str | None], dict[str, str | None]]:
    """Return the reason of each command that is refused, None of the others; and who has a seat."""
    holders: dict[str, str | None] = {}
    reasons: dict[Place, str | None] = {}
    for sent in sorted(ledger, key=lambda each: each.place):
        if not sent.decided:
            continue
        seat, guest = str(sent.asked.seat), sent.asked.guest
        holder = holders.setdefault(seat, None)
        reason: str | None = None
        if sent.asked.kind == "reserve":
            if holder is not None:
                reason = TAKEN
            elif guest is None:
                reason = NOBODY
            else:
                holders[seat] = guest
        elif holder is None:
            reason = FREE
        elif holder != guest:
            # A condition that is null refuses too.
            reason = ANOTHER
        else:
            holders[seat] = None
        reasons[sent.place] = reason
    return reasons, holders


def require_tables(root: Path, ledger: Sequence[Sent]) -> None:
    """Refuse tables that are not those of the ledger."""
    reasons, holders = decisions(ledger)
    accepted = Counter(place for place, reason in reasons.items() if reason is None)
    assert places(root / "seat_events") == accepted
    refused = {place: reason for place, reason in reasons.items() if reason is not None}
    found = rows(root / "refusals")
    assert {(row["partition"], row["offset"]): row["reason"] for row in found} == refused
    assert len(found) == len(refused)
    seats = rows(root / "seats")
    assert Counter((row["seat"], row["holder"]) for row in seats) == Counter(holders.items())
    readable = [sent for sent in ledger if not sent.asked.broken]
    assert places(root / "commands") == Counter(sent.place for sent in readable)
    strange = Counter(sent.place for sent in readable if not sent.decided)
    assert places(root / "unknown_commands") == strange
    broken = Counter(sent.place for sent in ledger if sent.asked.broken)
    assert places(root / "dead_letters") == broken


def places(table: Path) -> Counter[Place]:
    """Read the places of the rows of a table."""
    return Counter((row["partition"], row["offset"]) for row in rows(table))
