"""Projection: any batches, crashes, events that are read again, and invalid events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.scenarios.accounts import (
    Event,
    Sent,
    balances,
    events,
    ordered,
    read_states,
    snapshots,
    states,
)
from tests.support.changelog_events import collect_states, frame, with_log_positions
from tests.support.sink_batches import as_another_writer, batch, commits, leftover_settings
from tidegate.changelogs import fold_events_as_of
from tidegate.commit import protocol
from tidegate.delta.commit_options import CommitOptions
from tidegate.errors import ArgumentError, ColumnError, ConflictError, TableError
from tidegate.sinks import Projection
from tidegate.sinks.event_sourcing import StateTable
from tidegate.testing import CrashError, crash_after

pytestmark = pytest.mark.jobs

EVERY = 4
LOG = with_log_positions(events(240, seed=4, accounts=12, broken=0))


def sink(root: Path, **others: object) -> Projection:
    arguments = {
        "fold": balances(),
        "snapshots": str(root / "snapshots"),
        "snapshot_every": EVERY,
        **others,
    }
    return Projection(str(root / "states"), **arguments)  # type: ignore[arg-type]


def test_any_batches_crashes_and_repeated_events_give_the_tables_of_the_oracle(
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
    assert leftover_settings(spark) == []

    tables = [spark.read.format("delta").load(path) for path, _ in sink(tmp_path).tables()]
    before = [sent for sent in LOG if sent.offset < 40]
    ends = {"t": {0: 40, 1: 40}}
    early = fold_events_as_of(frame(spark, LOG), balances(), offsets=ends, snapshots=tables[0])
    assert collect_states(early) == states(before)
    other = balances(unknown="refuse")
    with pytest.raises(ArgumentError, match=r"a different fold \(different unknown\)"):
        fold_events_as_of(frame(spark, LOG), other, offsets=ends, snapshots=tables[0])


def test_invalid_events_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    projection = sink(tmp_path)
    first = Event("a", "opened", 1, "Ann", 0)
    projection.write({"rows": frame(spark, [Sent(0, 0, first)])}, batch(0))
    moved = frame(spark, [Sent(1, 0, replace(first, kind="closed"))])
    with pytest.raises(ColumnError, match="has events in t/0 and in t/1; nothing was written"):
        projection.write({"rows": moved}, batch(1))
    other = sink(tmp_path, fold=balances(unknown="refuse"))
    with pytest.raises(TableError, match=r"a different fold.*\n.*changed: unknown"):
        other.write({"rows": frame(spark, [Sent(0, 1, first)])}, batch(1))
    assert len(commits(projection.path)) == 1


def test_a_state_that_another_writer_changed_is_not_overwritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection = sink(tmp_path, snapshots=None)
    projection.write({"rows": frame(spark, LOG[:20])}, batch(0))
    replace_states = StateTable.replace

    def replace_after_another_writer(
        self: StateTable, rows: DataFrame, options: CommitOptions
    ) -> None:
        update = f"UPDATE delta.`{projection.path}` SET offset = offset + 1000"
        as_another_writer(lambda: spark.sql(update))
        replace_states(self, rows, options)

    monkeypatch.setattr(StateTable, "replace", replace_after_another_writer)
    monkeypatch.setattr(protocol, "ATTEMPTS", 1)
    with pytest.raises(ConflictError):
        projection.write({"rows": frame(spark, LOG[20:60])}, batch(1))
