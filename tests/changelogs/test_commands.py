"""Commands decided in log order, compared with an oracle in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.accounts import Event, balances, events, states
from tests.support.account_commands import (
    INSUFFICIENT,
    NOT_OPEN,
    account_decider,
    commands,
    expected_outcomes,
)
from tests.support.changelog_events import collect_states, with_log_positions
from tidegate.changelogs import Command, Decider, Fold, decide, fold_events
from tidegate.errors import TidegateError


@pytest.mark.slow
def test_outcomes_equal_the_oracle_and_accepted_events_fold_to_its_states(
    spark: SparkSession,
) -> None:
    log = with_log_positions(events(400, seed=9, accounts=15, broken=0))
    expected, accepted = expected_outcomes(log)
    outcomes = decide(commands(spark, log).repartition(3), account_decider()).localCheckpoint()
    rows = outcomes.select("partition", "offset", "reason").collect()
    assert sorted((tuple(row) for row in rows), key=lambda row: row[:2]) == expected
    assert len({reason for *_, reason in expected}) == 5
    emitted = outcomes.where("reason IS NULL").select("event.*")
    assert collect_states(fold_events(emitted, account_decider().fold)) == states(accepted)


def test_of_two_reservations_of_a_seat_the_first_in_the_log_is_accepted(
    spark: SparkSession,
) -> None:
    seats = Decider(
        fold=Fold(
            key="account",
            type_column="type",
            initial={"holder": (None, "STRING")},
            handlers={"reserved": {"holder": "event.owner"}},
        ),
        events="owner STRING",
        handlers={
            "reserve": Command(
                emits="reserved",
                values={"owner": "command.owner"},
                refuse={"taken": "state.holder IS NOT NULL", "no owner": "command.owner = ''"},
            )
        },
    )
    names = [None, "Ann", "Bo", "Ann"]
    log = with_log_positions(Event("seat 1", "reserve", 1, name, 0) for name in names)
    rows = decide(commands(spark, log), seats).sort("offset").collect()
    assert [(row.reason, row.event and row.event.owner) for row in rows] == [
        ("no owner", None),
        (None, "Ann"),
        ("taken", None),
        ("taken", None),
    ]


INVALID_COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown event type": ({"emits": "audited"}, r"handlers\['open'\]\.emits: 'audited'"),
    "an unknown event column": (
        {"values": {"limit": "1"}},
        r"invalid column in handlers\['open'\]\.values: 'limit'",
    ),
    "a clock": ({"values": {"owner": "current_user()"}}, "not deterministic"),
    "a value as condition": ({"refuse": {"why": "state.balance"}}, r"refuse\['why'\]: decimal"),
    "the alias of events": ({"refuse": {"why": "event.amount > 0"}}, r"command.<name> of account"),
    "a value of another type": ({"values": {"amount": "command.owner"}}, r"values\['amount'\]"),
}


@pytest.mark.parametrize("case", INVALID_COMMANDS)
def test_an_invalid_command_raises_at_the_call_with_its_label(
    spark: SparkSession, case: str
) -> None:
    arguments, match = INVALID_COMMANDS[case]
    with pytest.raises(TidegateError, match=match):
        decide(
            commands(spark, []),
            Decider(
                fold=balances(),
                events="amount DECIMAL(10, 2), owner STRING",
                handlers={"open": Command(**{"emits": "opened", **arguments})},
            ),
        )


def test_a_command_is_refused_with_the_first_reason_whose_condition_is_true(
    spark: SparkSession,
) -> None:
    withdrawal = Event("a", "withdrawn", 1, None, 0)
    log = with_log_positions([withdrawal, Event("a", "opened", 1, "Ann", 1)])
    filler = [Event("a", "x", 2, None, 2)] * 3
    log += [with_log_positions([*filler, Event("a", "withdrawn", 1, None, 3)])[-1]]
    rows = decide(commands(spark, log), account_decider()).sort("offset").collect()
    assert [row.reason for row in rows] == [NOT_OPEN, None, INSUFFICIENT]
