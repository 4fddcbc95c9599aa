"""Commands for accounts, their decider, and an oracle in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.scenarios.accounts import Sent, amount, balances
from tests.support.changelog_events import frame
from tidegate.changelogs import Command, Decider

COMMAND_OF_EVENT = {
    "opened": "open",
    "deposited": "deposit",
    "withdrawn": "withdraw",
    "closed": "close",
    "audited": "audit",
}
"""The command type for each event type; the decider has no handler for the last."""
OPEN = "the account is open"
NOT_OPEN = "the account isn't open"
INSUFFICIENT = "the balance would be below zero"
NOT_EMPTY = "the balance is not zero"
Outcome = tuple[int, int, str | None]
"""Partition, offset, and the reason of a refusal."""


def account_decider() -> Decider:
    closed = {NOT_OPEN: "NOT state.open"}
    return Decider(
        fold=balances(unknown="refuse"),
        events="amount DECIMAL(10, 2), owner STRING",
        handlers={
            "open": Command(
                emits="opened", values={"owner": "command.owner"}, refuse={OPEN: "state.open"}
            ),
            "deposit": Command(
                emits="deposited", values={"amount": "command.amount"}, refuse=closed
            ),
            "withdraw": Command(
                emits="withdrawn",
                values={"amount": "command.amount"},
                refuse={**closed, INSUFFICIENT: "state.balance < command.amount -- no credit"},
            ),
            "close": Command(emits="closed", refuse={**closed, NOT_EMPTY: "state.balance > 0"}),
        },
        on_unknown="ignore",
    )


def commands(spark: SparkSession, log: Iterable[Sent]) -> DataFrame:
    """Return the commands that would emit these events."""
    types = F.create_map(*[F.lit(each) for pair in COMMAND_OF_EVENT.items() for each in pair])
    command_type = F.coalesce(types[F.col("type")], F.col("type"))
    return frame(spark, log).withColumn("type", command_type)


def expected_outcomes(log: Iterable[Sent]) -> tuple[list[Outcome], list[Sent]]:
    """Return the outcome of each command, and the accepted events."""
    accounts: dict[str, tuple[bool, Decimal]] = {}
    outcomes: list[Outcome] = []
    accepted = []
    for sent in sorted(log, key=lambda each: (each.partition, each.offset)):
        event = sent.event
        if event.kind == "audited" or event.account is None:
            continue
        is_open, balance = accounts.get(event.account, (False, Decimal(0)))
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
            reason = INSUFFICIENT if balance < value else None
            balance -= value if reason is None else 0
        else:
            reason = NOT_EMPTY if balance > 0 else None
            is_open = reason is not None
        accounts[event.account] = (is_open, balance)
        outcomes.append((sent.partition, sent.offset, reason))
        if reason is None:
            accepted.append(sent)
    return sorted(outcomes, key=lambda each: each[:2]), accepted
