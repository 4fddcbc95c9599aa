"""Commands decided batch by batch: cut anywhere, killed between the tables, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.sinks import Decided
from tidegate.testing import CrashError, crash_after

from ..changes.accounts_commands import asked, decisions, rules
from ..changes.events import placed
from ..tables import rows
from ..worlds.accounts import State, events, ordered, states, told
from .batches import batch

pytestmark = pytest.mark.jobs

LOG = placed(events(240, seed=11, accounts=12, broken=0))


def test_each_command_is_decided_once_though_the_job_dies_between_its_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(number: int) -> str:
        states, happened, refused = (
            str(tmp_path / name) for name in ("states", "events", "refusals")
        )
        sink = Decided(states, commands=rules(), events=happened, refusals=refused)
        part = (LOG[:90], LOG[60:150], LOG[100:])[number]
        return sink.write({"rows": asked(spark, part)}, batch(number))

    write(0)
    with crash_after(tmp_path / "events", batch=1), pytest.raises(CrashError):
        write(1)
    assert [write(1), write(2), write(2)] == ["written", "written", "skipped"]

    wanted, accepted = decisions(LOG)
    happened = [(row["partition"], row["offset"], None) for row in rows(tmp_path / "events")]
    refused = [
        (row["partition"], row["offset"], row["reason"]) for row in rows(tmp_path / "refusals")
    ]
    assert sorted(happened + refused, key=lambda row: row[:2]) == wanted
    # A state has the place of the last command, which may have been refused.
    table = [told(row) for row in rows(tmp_path / "states") if row["events"]]
    assert [_without_place(state) for state in ordered(table)] == [
        _without_place(state) for state in states(accepted)
    ]


def _without_place(state: State) -> tuple[object, ...]:
    return (*state[:6], *state[7:])
