"""The world of jobs/accounts.py: accounts whose events are in a topic, and what their states are.

The oracle is plain Python over the ledger: each partition's events in the order of their offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from tests.support.delta_tables import rows
from tidegate.changelogs import Fold
from tidegate.kafka.producer import Record, deliver

SCHEMA = "account STRING, type STRING, amount DECIMAL(10, 2), owner STRING, event_time TIMESTAMP"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
KINDS = ("opened", "deposited", "withdrawn", "closed", "audited")
"""The last is a type that the fold does not name."""
State = tuple[str, str, bool, str | None, str, int, int, int, int]
"""account, balance, open, owner, lowest, partition, offset, events, latest (milliseconds)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: what happened to which account, and when, in milliseconds after START."""

    account: str | None
    kind: str
    cents: int
    owner: str | None
    at: int
    broken: bool = False

    def value(self) -> bytes:
        """Return the event as JSON; truncated if it is broken."""
        record = {
            "account": self.account,
            "type": self.kind,
            "amount": str(amount(self.cents)),
            "owner": self.owner,
            "event_time": (START + timedelta(milliseconds=self.at)).isoformat(),
        }
        text = json.dumps(record).encode()
        return text[: len(text) // 2] if self.broken else text


@dataclass(frozen=True, slots=True)
class Sent:
    """One event, and where the broker put it."""

    partition: int
    offset: int
    event: Event


def amount(cents: int) -> Decimal:
    """Return an amount of cents as a decimal."""
    return Decimal(cents).scaleb(-2)


def balances(*, unknown: Any = "ignore") -> Fold:
    """Return the fold of the job, as its configuration has it."""
    return Fold(
        key="account",
        type_column="type",
        initial={
            "balance": (0, "DECIMAL(12, 2)"),
            "open": (False, "BOOLEAN"),
            "owner": (None, "STRING"),
            "lowest": (0, "DECIMAL(12, 2)"),
        },
        handlers={
            "opened": {"open": "true", "owner": "event.owner"},
            "deposited": {"balance": "state.balance + event.amount"},
            "withdrawn": {
                "balance": "state.balance - event.amount",
                "lowest": "least(state.lowest, state.balance - event.amount) -- so far",
            },
            "closed": {"open": "false", "owner": "NULL"},
        },
        on_unknown=unknown,
    )


def events(count: int, *, seed: int, accounts: int = 40, broken: int = 5) -> list[Event]:
    """Make events in the order in which they are sent; their times are out of order.

    Some are of a type that the fold does not know, some have no account, and some cannot be read.
    The same arguments make the same events on every machine.
    """
    chance = Random(seed)
    bad = set(chance.sample(range(count), broken))
    made = []
    for number in range(count):
        account = f"a{int(accounts * chance.random() ** 2)}"
        kind = chance.choices(KINDS, (2, 8, 6, 1, 1))[0]
        owner = chance.choice(("Ann", "Bo", "Cem")) if kind == "opened" else None
        late = chance.randrange(60_000) if chance.random() < 0.2 else 0
        nobody = chance.random() < 0.01
        made.append(
            Event(
                None if nobody else account,
                kind,
                1 + chance.randrange(50_000),
                owner,
                number * 250 - late,
                number in bad,
            )
        )
    return made


def partition_of(event: Event, partitions: int) -> int:
    """Return the partition of an event: all events of an account are in one."""
    return 0 if event.account is None else sum(event.account.encode()) % partitions


def produce(servers: str, topic: str, made: Sequence[Event], *, partitions: int = 2) -> list[Sent]:
    """Send the events in their order, and return the ledger."""
    records = (
        Record(
            topic,
            event.value(),
            int(START.timestamp() * 1000) + max(0, event.at) + 60_000,
            None if event.account is None else event.account.encode(),
            partition_of(event, partitions),
        )
        for event in made
    )
    return [
        Sent(*place, event) for place, event in zip(deliver(servers, records), made, strict=True)
    ]


def _step(state: dict[str, Any], event: Event) -> None:
    value = amount(event.cents)
    if event.kind == "opened":
        state |= {"open": True, "owner": event.owner}
    elif event.kind == "deposited":
        state["balance"] += value
    elif event.kind == "withdrawn":
        state["balance"] -= value
        state["lowest"] = min(state["lowest"], state["balance"])
    else:
        state |= {"open": False, "owner": None}


def _is_known(sent: Sent) -> bool:
    event = sent.event
    return not event.broken and event.kind in KINDS[:4] and event.account is not None


def snapshots(ledger: Iterable[Sent], every: int) -> list[State]:
    """Return the states after every `every` events of each account."""
    found: dict[str, dict[str, Any]] = {}
    taken = []
    for sent in sorted(ledger, key=lambda each: (each.partition, each.offset)):
        if not _is_known(sent):
            continue
        account = str(sent.event.account)
        first = {"balance": Decimal(0), "open": False, "owner": None, "lowest": Decimal(0)}
        state = found.setdefault(account, {**first, "events": 0, "latest": sent.event.at})
        _step(state, sent.event)
        state |= {"partition": sent.partition, "offset": sent.offset}
        state["events"] += 1
        state["latest"] = max(state["latest"], sent.event.at)
        if state["events"] % every == 0:
            taken.append(_to_state(account, state))
    return taken


def states(ledger: Iterable[Sent]) -> list[State]:
    """Return the state of each account after all of its events, sorted."""
    newest = {state[0]: state for state in snapshots(ledger, 1)}
    return ordered(newest.values())


def _to_state(account: str, state: dict[str, Any]) -> State:
    return (
        account,
        f"{state['balance']:.2f}",
        state["open"],
        state["owner"],
        f"{state['lowest']:.2f}",
        state["partition"],
        state["offset"],
        state["events"],
        state["latest"],
    )


def state_of_row(row: dict[str, Any]) -> State:
    """Return a row of a table of states in the form of the oracle."""
    millis = round((row["latest"].astimezone(UTC) - START) / timedelta(milliseconds=1))
    return _to_state(row["account"], {**row, "latest": millis})


def read_states(table: Path) -> list[State]:
    """Read a table of states, or of snapshots, sorted."""
    return ordered(state_of_row(row) for row in rows(table))


def ordered(found: Iterable[State]) -> list[State]:
    """Sort states by account and offset."""
    return sorted(found, key=lambda state: (state[0], state[6]))


def strange(ledger: Iterable[Sent]) -> Counter[tuple[int, int]]:
    """Return the positions of the events that can be read and are not folded."""
    return Counter(
        (sent.partition, sent.offset)
        for sent in ledger
        if not sent.event.broken and not _is_known(sent)
    )


def dead(ledger: Iterable[Sent]) -> Counter[tuple[int, int]]:
    """Return the positions of the records that cannot be read."""
    return Counter((sent.partition, sent.offset) for sent in ledger if sent.event.broken)


def read_places(table: Path) -> Counter[tuple[int, int]]:
    """Read the positions of the rows of a table."""
    return Counter((row["partition"], row["offset"]) for row in rows(table))
