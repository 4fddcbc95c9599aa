"""States of a log kept in a table: cut, killed, read again; and what the sink refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.changes import folded_as_of
from tidegate.commit import protocol
from tidegate.commit.options import CommitOptions
from tidegate.errors import ArgumentError, ColumnError, ConflictError, TableError
from tidegate.sinks import Folded
from tidegate.sinks._states import StateTable
from tidegate.testing import CrashError, crash_after

from ..changes.events import found, frame, placed
from ..worlds.accounts import (
    Event,
    Sent,
    balances,
    events,
    ordered,
    read_states,
    snapshots,
    states,
)
from .batches import batch, by_another, commits, settings_left

pytestmark = pytest.mark.jobs

EVERY = 4
LOG = placed(events(240, seed=4, accounts=12, broken=0))


def sink(root: Path, **others: object) -> Folded:
    given = {"fold": balances(), "snapshots": str(root / "snapshots"), "every": EVERY, **others}
    return Folded(str(root / "states"), **given)  # type: ignore[arg-type]


def test_a_log_cut_killed_between_the_tables_and_read_again_gives_the_oracle_s_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    parts = [LOG[:90], LOG[60:150], LOG[100:]]
    for number, part in enumerate(parts):
        rows = frame(spark, part)
        if number == 1:
            with crash_after(tmp_path / "snapshots", batch=1), pytest.raises(CrashError):
                sink(tmp_path).write({"rows": rows}, batch(1))
        assert sink(tmp_path).write({"rows": rows}, batch(number)) == "written"
    assert sink(tmp_path).write({"rows": rows}, batch(2)) == "skipped"
    assert read_states(tmp_path / "states") == states(LOG)
    assert read_states(tmp_path / "snapshots") == ordered(snapshots(LOG, EVERY))
    assert settings_left(spark) == []

    tables = [spark.read.format("delta").load(path) for path, _ in sink(tmp_path).tables()]
    before = [sent for sent in LOG if sent.offset < 40]
    ends = {"t": {0: 40, 1: 40}}
    early = folded_as_of(frame(spark, LOG), balances(), offsets=ends, snapshots=tables[0])
    assert found(early) == states(before)
    other = balances(unknown="refuse")
    with pytest.raises(ArgumentError, match="another fold: unknown differ"):
        folded_as_of(frame(spark, LOG), other, offsets=ends, snapshots=tables[0])


def test_what_cannot_be_folded_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    keeper = sink(tmp_path)
    first = Event("a", "opened", 1, "Ann", 0)
    keeper.write({"rows": frame(spark, [Sent(0, 0, first)])}, batch(0))
    moved = frame(spark, [Sent(1, 0, replace(first, kind="closed"))])
    with pytest.raises(ColumnError, match="has events in t/0 and in t/1; nothing was written"):
        keeper.write({"rows": moved}, batch(1))
    other = sink(tmp_path, fold=balances(unknown="refuse"))
    with pytest.raises(TableError, match="another fold: unknown differ"):
        other.write({"rows": frame(spark, [Sent(0, 1, first)])}, batch(1))
    assert len(commits(keeper.path)) == 1


def test_a_state_that_another_writer_changed_meanwhile_is_not_overwritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = sink(tmp_path, snapshots=None)
    keeper.write({"rows": frame(spark, LOG[:20])}, batch(0))
    replace_ = StateTable.replace

    def late(self: StateTable, rows: DataFrame, options: CommitOptions) -> None:
        update = f"UPDATE delta.`{keeper.path}` SET offset = offset + 1000"
        by_another(lambda: spark.sql(update))
        replace_(self, rows, options)

    monkeypatch.setattr(StateTable, "replace", late)
    monkeypatch.setattr(protocol, "ATTEMPTS", 1)
    with pytest.raises(ConflictError):
        keeper.write({"rows": frame(spark, LOG[20:60])}, batch(1))
