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

from tests.support.delta_tables import rows
from tidegate.kafka.producer import Record, deliver

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TAKEN, NOBODY = "the seat is taken", "nobody asks"
FREE, ANOTHER = "the seat is free", "another guest has the seat"
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SeatCommand:
    """A command: its seat, its type and its guest."""

    seat: str | None
    kind: str
    guest: str | None
    broken: bool = False

    def value(self, number: int) -> bytes:
        """Return the command as JSON; truncated if it is broken."""
        at = (START + timedelta(seconds=number)).isoformat()
        record = {"seat": self.seat, "type": self.kind, "guest": self.guest, "event_time": at}
        text = json.dumps(record).encode()
        return text[: len(text) // 2] if self.broken else text


@dataclass(frozen=True, slots=True)
class Sent:
    """A command, and where the broker put it."""

    partition: int
    offset: int
    command: SeatCommand

    @property
    def place(self) -> Place:
        """Its partition and offset."""
        return self.partition, self.offset

    @property
    def decided(self) -> bool:
        """Whether it can be read, and is one that the rules know."""
        command = self.command
        return not command.broken and command.kind != "upgrade" and command.seat is not None


def commands(count: int, *, seed: int, seats: int = 30) -> list[SeatCommand]:
    """Make commands, the same for the same arguments: some of a type that the rules do not know,
    some without a seat or a guest, and some that cannot be read."""
    chance = Random(seed)
    made = []
    for _ in range(count):
        kind = chance.choices(("reserve", "release", "upgrade"), (6, 4, 1))[0]
        seat = None if chance.random() < 0.01 else f"s{chance.randrange(seats)}"
        guest = None if chance.random() < 0.1 else chance.choice(("Ann", "Bo", "Cem"))
        made.append(SeatCommand(seat, kind, guest, chance.random() < 0.01))
    return made


def produce(
    servers: str, topic: str, made: Sequence[SeatCommand], *, partitions: int = 2
) -> list[Sent]:
    """Send the commands in their order, those of a seat to one partition; return the ledger."""
    records = (
        Record(
            topic,
            command.value(number),
            int(START.timestamp() * 1000) + number * 1000,
            None if command.seat is None else command.seat.encode(),
            0 if command.seat is None else sum(command.seat.encode()) % partitions,
        )
        for number, command in enumerate(made)
    )
    places = deliver(servers, records)
    return [Sent(*place, command) for place, command in zip(places, made, strict=True)]


def decisions(ledger: Iterable[Sent]) -> tuple[dict[Place, str | None], dict[str, str | None]]:
    """Return the reason of each refused command, None for the others; and the guest of each
    seat."""
    holders: dict[str, str | None] = {}
    reasons: dict[Place, str | None] = {}
    for sent in sorted(ledger, key=lambda each: each.place):
        if not sent.decided:
            continue
        seat, guest = str(sent.command.seat), sent.command.guest
        holder = holders.setdefault(seat, None)
        reason: str | None = None
        if sent.command.kind == "reserve":
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
    readable = [sent for sent in ledger if not sent.command.broken]
    assert places(root / "commands") == Counter(sent.place for sent in readable)
    strange = Counter(sent.place for sent in readable if not sent.decided)
    assert places(root / "unknown_commands") == strange
    broken = Counter(sent.place for sent in ledger if sent.command.broken)
    assert places(root / "dead_letters") == broken


def places(table: Path) -> Counter[Place]:
    """Read the positions of the rows of a table."""
    return Counter((row["partition"], row["offset"]) for row in rows(table))
