"""Commands for accounts, the rules by which they are decided, and an oracle in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.changes import Command, Commands

from ..worlds.accounts import Sent, amount, balances
from .events import frame

ASKED = {
    "opened": "open",
    "deposited": "deposit",
    "withdrawn": "withdraw",
    "closed": "close",
    "audited": "audit",
}
"""Which command asks for which event; the last is unknown to the rules."""
OPEN = "the account is open"
NOT_OPEN = "the account isn't open"
BELOW = "the balance would be below zero"
LEFT = "money is left"
Decision = tuple[int, int, str | None]
"""partition, offset, the reason of a refusal."""


def rules() -> Commands:
    closed = {NOT_OPEN: "NOT state.open"}
    return Commands(
        fold=balances(unknown="refuse"),
        events="amount DECIMAL(10, 2), owner STRING",
        on={
            "open": Command(
                emits="opened", values={"owner": "command.owner"}, refuse={OPEN: "state.open"}
            ),
            "deposit": Command(
                emits="deposited", values={"amount": "command.amount"}, refuse=closed
            ),
            "withdraw": Command(
                emits="withdrawn",
                values={"amount": "command.amount"},
                refuse={**closed, BELOW: "state.balance < command.amount -- nobody lends"},
            ),
            "close": Command(emits="closed", refuse={**closed, LEFT: "state.balance > 0"}),
        },
        unknown="ignore",
    )


def asked(spark: SparkSession, log: Iterable[Sent]) -> DataFrame:
    """Return commands that ask for these events."""
    kinds = F.create_map(*[F.lit(each) for pair in ASKED.items() for each in pair])
    asked_for = F.coalesce(kinds[F.col("type")], F.col("type"))
    return frame(spark, log).withColumn("type", asked_for)


def decisions(log: Iterable[Sent]) -> tuple[list[Decision], list[Sent]]:
    """Return what becomes of each command, and the events of those that are accepted."""
    found: dict[str, tuple[bool, Decimal]] = {}
    told: list[Decision] = []
    accepted = []
    for sent in sorted(log, key=lambda each: (each.partition, each.offset)):
        event = sent.event
        if event.kind == "audited" or event.account is None:
            continue
        is_open, balance = found.get(event.account, (False, Decimal(0)))
        value = amount(event.cents)
        if event.kind == "opened":
            reason = OPEN if is_open else None
            is_open = True
        elif not is_open:
            reason = NOT_OPEN
        elif event.kind == "deposited":
            reason = None
            balance += value
        elif event.kind == "withdrawn":
            reason = BELOW if balance < value else None
            balance -= value if reason is None else 0
        else:
            reason = LEFT if balance > 0 else None
            is_open = reason is not None
        found[event.account] = (is_open, balance)
        told.append((sent.partition, sent.offset, reason))
        if reason is None:
            accepted.append(sent)
    return sorted(told, key=lambda each: each[:2]), accepted
