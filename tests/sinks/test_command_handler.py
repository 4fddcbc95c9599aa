"""CommandHandler: any batches, crashes between tables, and commands that are read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.accounts import State, events, ordered, state_of_row, states
from tests.support.account_commands import account_decider, commands, expected_outcomes
from tests.support.changelog_events import with_log_positions
from tests.support.delta_tables import rows
from tests.support.sink_batches import batch
from tidegate.sinks import CommandHandler
from tidegate.testing import CrashError, crash_after

pytestmark = pytest.mark.jobs

LOG = with_log_positions(events(240, seed=11, accounts=12, broken=0))


def test_each_command_is_decided_once_across_crashes_between_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(number: int) -> str:
        states, happened, refused = (
            str(tmp_path / name) for name in ("states", "events", "refusals")
        )
        sink = CommandHandler(states, decider=account_decider(), events=happened, refusals=refused)
        part = (LOG[:90], LOG[60:150], LOG[100:])[number]
        return sink.write({"rows": commands(spark, part)}, batch(number))

    write(0)
    with crash_after(tmp_path / "events", batch=1), pytest.raises(CrashError):
        write(1)
    assert [write(1), write(2), write(2)] == ["written", "written", "skipped"]

    expected, accepted = expected_outcomes(LOG)
    happened = [(row["partition"], row["offset"], None) for row in rows(tmp_path / "events")]
    refused = [
        (row["partition"], row["offset"], row["reason"]) for row in rows(tmp_path / "refusals")
    ]
    assert sorted(happened + refused, key=lambda row: row[:2]) == expected
    # A state has the offset of the last command, which may have been refused.
    table = [state_of_row(row) for row in rows(tmp_path / "states") if row["events"]]
    assert [_without_offset(state) for state in ordered(table)] == [
        _without_offset(state) for state in states(accepted)
    ]


def _without_offset(state: State) -> tuple[object, ...]:
    return (*state[:6], *state[7:])
