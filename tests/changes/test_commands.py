"""Commands decided in the order of the log, beside an oracle in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.changes import Command, Commands, Fold, decided, folded
from tidegate.errors import TidegateError

from ..worlds.accounts import Event, balances, events, states
from .accounts_commands import BELOW, NOT_OPEN, asked, decisions, rules
from .events import found, placed


@pytest.mark.slow
def test_commands_are_decided_one_by_one_and_their_events_are_a_log_of_the_same_fold(
    spark: SparkSession,
) -> None:
    log = placed(events(400, seed=9, accounts=15, broken=0))
    wanted, accepted = decisions(log)
    told = decided(asked(spark, log).repartition(3), rules()).localCheckpoint()
    rows = told.select("partition", "offset", "reason").collect()
    assert sorted((tuple(row) for row in rows), key=lambda row: row[:2]) == wanted
    assert len({reason for *_, reason in wanted}) == 5
    happened = told.where("reason IS NULL").select("event.*")
    assert found(folded(happened, rules().fold)) == states(accepted)


def test_of_two_that_want_the_last_seat_the_first_in_the_log_gets_it(spark: SparkSession) -> None:
    seats = Commands(
        fold=Fold(
            key="account",
            kind="type",
            initial={"holder": (None, "STRING")},
            on={"reserved": {"holder": "event.owner"}},
        ),
        events="owner STRING",
        on={
            "reserve": Command(
                emits="reserved",
                values={"owner": "command.owner"},
                refuse={"taken": "state.holder IS NOT NULL", "for nobody": "command.owner = ''"},
            )
        },
    )
    names = [None, "Ann", "Bo", "Ann"]
    log = placed(Event("seat 1", "reserve", 1, name, 0) for name in names)
    rows = decided(asked(spark, log), seats).sort("offset").collect()
    assert [(row.reason, row.event and row.event.owner) for row in rows] == [
        ("for nobody", None),
        (None, "Ann"),
        ("taken", None),
        ("taken", None),
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown event": ({"emits": "audited"}, r"on\['open'\] emits 'audited'"),
    "a column that no event has": ({"values": {"limit": "1"}}, r"on\['open'\] gives limit"),
    "a clock": ({"values": {"owner": "current_user()"}}, "another time"),
    "no condition": ({"refuse": {"why": "state.balance"}}, r"refuse\['why'\].*decimal"),
    "the event's name": ({"refuse": {"why": "event.amount > 0"}}, r"command.<name> of account"),
    "a value of another type": ({"values": {"amount": "command.owner"}}, r"values\['amount'\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_command_that_cannot_be_decided_is_refused_at_the_call_with_its_place(
    spark: SparkSession, case: str
) -> None:
    given, match = REFUSED[case]
    with pytest.raises(TidegateError, match=match):
        decided(
            asked(spark, []),
            Commands(
                fold=balances(),
                events="amount DECIMAL(10, 2), owner STRING",
                on={"open": Command(**{"emits": "opened", **given})},
            ),
        )


def test_the_first_reason_that_holds_is_told(spark: SparkSession) -> None:
    log = placed([Event("a", "withdrawn", 1, None, 0), Event("a", "opened", 1, "Ann", 1)])
    log += [placed([Event("a", "x", 2, None, 2)] * 3 + [Event("a", "withdrawn", 1, None, 3)])[-1]]
    rows = decided(asked(spark, log), rules()).sort("offset").collect()
    assert [row.reason for row in rows] == [NOT_OPEN, None, BELOW]
