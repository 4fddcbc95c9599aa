"""CurrentTable and HistoryTable: any batches, repeated changes and crashes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support import changelog_oracle as oracle
from tests.support.changelog_frames import changes, valid_versions, values_by_key
from tests.support.changelog_oracle import Change
from tests.support.changelog_strategies import batches
from tests.support.hypothesis_profiles import few
from tests.support.sink_batches import as_another_writer, batch, commits, leftover_settings, rows
from tidegate.changelogs import history_updates
from tidegate.commit import protocol
from tidegate.errors import ColumnError, ConflictError, TableError, TableMismatchError
from tidegate.sinks import CurrentTable, FanOut, HistoryTable
from tidegate.sinks.changelog import history_table as history
from tidegate.testing import CrashError, crash_after

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


def sinks(root: Path) -> tuple[HistoryTable, CurrentTable]:
    return HistoryTable(str(root / "history")), CurrentTable(str(root / "current"))


def fan_out(root: Path) -> FanOut:
    past, now = sinks(root)
    return FanOut(now, other_sinks=[past])


def assert_oracle_tables(spark: SparkSession, root: Path, log: list[Change]) -> None:
    past, now = sinks(root)
    assert values_by_key(now.rows(spark).collect()) == oracle.current(log)
    assert valid_versions(past.rows(spark)) == oracle.history(log)


def files_written(path: str) -> int:
    """Return the number of files that the last commit wrote."""
    return int(commits(path)[-1]["operationMetrics"].get("numTargetFilesAdded", 0))


@pytest.mark.crash
@pytest.mark.draws("examples", short=[1], long=[20])
def test_any_log_in_any_batches_written_twice_gives_the_tables_of_the_oracle(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @few(examples)
    @given(drawn=batches(3))
    def agree(drawn: tuple[list[Change], list[list[Change]]]) -> None:
        log, cut = drawn
        root, sent = tmp_path_factory.mktemp("tables"), 0
        for number, part in enumerate(cut):
            tables = fan_out(root)
            frame = changes(spark, part, sent).persist()
            assert [tables.write({"rows": frame}, batch(number)) for _ in range(2)] == [
                "written",
                "skipped",
            ]
            frame.unpersist()
            sent += len(part)
        assert_oracle_tables(spark, root, log)
        assert leftover_settings(spark) == []

    agree()


LOG = [
    [
        Change("create", "a", "x", (1,), 10),
        Change("create", "b", "x", (2,), 10),
        Change("create", "c", "x", (3,), 10),
    ],
    [
        Change("update", "a", "y", (4,), 20),
        Change("delete", "b", None, (5,), 30),
        Change("tombstone", "b", None, None, 31),
        Change("update", "a", "z", (6,), 40),
    ],
    [
        Change("update", "a", "late", (7,), 25),
        Change("tombstone", "c", None, None, 50),
        Change("create", "d", "x", (8,), 60),
    ],
]


@pytest.mark.crash
def test_a_crash_between_or_after_the_tables_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    failures = {1: "history", 2: "current"}
    for number, part in enumerate(LOG):
        frame = changes(spark, part, 10 * number)
        if number in failures:
            table = tmp_path / failures[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                fan_out(tmp_path).write({"rows": frame}, batch(number))
        fan_out(tmp_path).write({"rows": frame}, batch(number))
    assert_oracle_tables(spark, tmp_path, [change for part in LOG for change in part])
    assert [len(commits(sink.path)) for sink in sinks(tmp_path)] == [3, 3]
    with pytest.raises(TableMismatchError):
        fan_out(tmp_path).write({"rows": changes(spark, LOG[0])}, batch(2, plan="another"))


def test_repeated_changes_have_no_effect_and_restore_no_deleted_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, part in enumerate(LOG):
        fan_out(tmp_path).write({"rows": changes(spark, part, 10 * number)}, batch(number))
    repeated = [
        change for part in LOG for change in part if change.op != "tombstone" and change.key != "c"
    ]
    paths = [str(tmp_path / name) for name in ("history", "current")]
    before = [sorted(map(str, rows(spark, path))) for path in paths]
    fan_out(tmp_path).write({"rows": changes(spark, repeated, 100)}, batch(3))
    assert [sorted(map(str, rows(spark, path))) for path in paths] == before
    assert files_written(paths[0]) == 0
    assert {(row.id, row.deleted, row.v) for row in rows(spark, paths[1])} == {
        ("a", False, "late"), ("b", True, None), ("c", True, None), ("d", False, "x"),
    }  # fmt: skip


def test_a_truncate_empties_the_table_and_older_changes_of_new_keys_are_ignored(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = [
        [Change("create", "a", "x", (1,), 10), Change("create", "b", "x", (4,), 30)],
        [Change("truncate", None, None, (3,), 20)],
        [Change("create", "c", "older", (2,), 15), Change("update", "a", "older", (2,), 15)],
        [Change("create", "a", "new", (5,), 40), Change("tombstone", "e", None, None, 50)],
    ]
    for number, part in enumerate(log):
        fan_out(tmp_path).write({"rows": changes(spark, part)}, batch(number))
    assert_oracle_tables(spark, tmp_path, [change for part in log for change in part])
    assert values_by_key(sinks(tmp_path)[1].rows(spark).collect()) == {"a": "new", "b": "x"}


def test_a_snapshot_row_before_a_repeated_change_keeps_the_place_of_the_stored_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sinks(tmp_path)[1]
    log = [
        [Change("create", "a", "x", (5,), 50)],
        [Change("snapshot", "a", "read", None, 60), Change("update", "a", "older", (3,), 30)],
        [Change("update", "a", "older", (4,), 40)],
    ]
    for number, part in enumerate(log):
        sink.write({"rows": changes(spark, part, 10 * number)}, batch(number))
    assert values_by_key(sink.rows(spark).collect()) == {"a": "read"}


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test in a zone whose clocks repeat an hour on 1 November 2026, from 06:00 UTC."""
    with monkeypatch.context() as environment:
        environment.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_a_truncate_is_in_its_place_in_the_hour_that_the_clocks_of_the_process_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = sinks(tmp_path)[1]
    log = [Change("create", "a", "x", None, 10), Change("truncate", None, None, None, 20)]
    for number, (change, minute) in enumerate(zip(log, (10, 30), strict=True)):
        written_at = F.timestamp_micros(
            F.lit(int(datetime(2026, 11, 1, 6, minute, tzinfo=UTC).timestamp() * 1_000_000))
        )
        position = F.col("position").withField("partition", F.lit(number))
        moved = position.withField("written_at", written_at)
        frame = changes(spark, [change]).withColumn("position", moved)
        sink.write({"rows": frame}, batch(number))
    assert sink.rows(spark).isEmpty()


def test_versions_that_another_writer_changed_are_not_overwritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past, _ = sinks(tmp_path)
    past.write({"rows": changes(spark, LOG[0])}, batch(0))
    writes_left = [1]

    def while_another_writes(table: DataFrame, changes: DataFrame, **flags: bool) -> DataFrame:
        plan = history_updates(table, changes, **flags)
        read = spark.createDataFrame(plan.collect(), plan.schema)
        if writes_left[0]:
            writes_left[0] -= 1
            changed = table.withColumn(
                "position",
                F.col("position").withField(
                    "offset", F.col("position.offset") + F.lit(writes_left[0] + 1)
                ),
            )
            as_another_writer(
                lambda: changed.write.format("delta").mode("overwrite").save(past.path)
            )
        return read

    monkeypatch.setattr(protocol, "ATTEMPTS", 2)
    monkeypatch.setattr(history, "history_updates", while_another_writes)
    assert past.write({"rows": changes(spark, LOG[1])}, batch(1)) == "written"
    assert {row.position.offset for row in rows(spark, past.path) if row.op == "create"} == {
        1,
        2,
        3,
    }
    writes_left[0] = 100
    with pytest.raises(ConflictError, match="another writer"):
        past.write({"rows": changes(spark, LOG[2])}, batch(2))


def test_rows_that_are_not_changes_and_tables_with_other_columns_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    past, now = sinks(tmp_path)
    for sink in (past, now):
        with pytest.raises(ColumnError, match="changes"):
            sink.write({"rows": spark.range(1)}, batch(0))
        spark.range(1).write.format("delta").save(sink.path)
        with pytest.raises(TableError, match="schema mismatch"):
            sink.write({"rows": changes(spark, LOG[0])}, batch(0))
        with pytest.raises(TableError, match="schema mismatch"):
            sink.check_schema(lambda: {"rows": changes(spark, LOG[0])})


def test_an_empty_batch_is_committed_to_both_tables(spark: SparkSession, tmp_path: Path) -> None:
    fan_out(tmp_path).write({"rows": changes(spark, [])}, batch(0))
    for sink in sinks(tmp_path):
        assert [info["operation"] for info in commits(sink.path)] == ["WRITE"]
        assert sink.check_schema(lambda: {"rows": changes(spark, [])})
