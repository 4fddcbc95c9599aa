"""The current table and the history of a changelog: batch by batch, cut anywhere, written again
after crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.changes import revised
from tidegate.commit import protocol
from tidegate.errors import ColumnError, ConflictError, ReplayMismatchError, TableError
from tidegate.sinks import Current, FanOut, History, history
from tidegate.testing import CrashError, crash_after

from ..changes import oracle
from ..changes.frames import changes, living, valid
from ..changes.oracle import Change
from ..changes.strategies import batches
from ..drawing import few
from .batches import batch, by_another, commits, rows, settings_left

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


def sinks(root: Path) -> tuple[History, Current]:
    return History(str(root / "history")), Current(str(root / "current"))


def both(root: Path) -> FanOut:
    past, now = sinks(root)
    return FanOut(now, also=[past])


def require(spark: SparkSession, root: Path, log: list[Change]) -> None:
    past, now = sinks(root)
    assert living(now.rows(spark).collect()) == oracle.current(log)
    assert valid(past.rows(spark)) == oracle.history(log)


def files(path: str) -> int:
    """Return the files that the last commit has written."""
    return int(commits(path)[-1]["operationMetrics"].get("numTargetFilesAdded", 0))


@pytest.mark.crash
@pytest.mark.draws("examples", short=[1], long=[20])
def test_any_log_however_cut_gives_the_oracle_s_tables_though_each_batch_is_written_twice(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @few(examples)
    @given(drawn=batches(3))
    def agree(drawn: tuple[list[Change], list[list[Change]]]) -> None:
        log, cut = drawn
        root, done = tmp_path_factory.mktemp("tables"), 0
        for number, part in enumerate(cut):
            tables = both(root)
            frame = changes(spark, part, done).persist()
            assert [tables.write({"rows": frame}, batch(number)) for _ in range(2)] == [
                "written",
                "skipped",
            ]
            frame.unpersist()
            done += len(part)
        require(spark, root, log)
        assert settings_left(spark) == []

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
def test_a_crash_between_the_two_tables_and_after_both_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    deaths = {1: "history", 2: "current"}
    for number, part in enumerate(LOG):
        frame = changes(spark, part, 10 * number)
        if number in deaths:
            table = tmp_path / deaths[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                both(tmp_path).write({"rows": frame}, batch(number))
        both(tmp_path).write({"rows": frame}, batch(number))
    require(spark, tmp_path, [change for part in LOG for change in part])
    assert [len(commits(sink.path)) for sink in sinks(tmp_path)] == [3, 3]
    with pytest.raises(ReplayMismatchError):
        both(tmp_path).write({"rows": changes(spark, LOG[0])}, batch(2, plan="another"))


def test_what_is_sent_again_changes_nothing_and_wakes_no_deleted_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, part in enumerate(LOG):
        both(tmp_path).write({"rows": changes(spark, part)}, batch(number))
    again = [
        change for part in LOG for change in part if change.op != "tombstone" and change.key != "c"
    ]
    paths = [str(tmp_path / name) for name in ("history", "current")]
    before = [sorted(map(str, rows(spark, path))) for path in paths]
    both(tmp_path).write({"rows": changes(spark, again, 100)}, batch(3))
    assert [sorted(map(str, rows(spark, path))) for path in paths] == before
    assert files(paths[0]) == 0
    assert {(row.id, row.deleted, row.v) for row in rows(spark, paths[1])} == {
        ("a", False, "late"), ("b", True, None), ("c", True, None), ("d", False, "x"),
    }  # fmt: skip


def test_a_truncate_empties_the_table_and_older_changes_of_unknown_keys_stay_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = [
        [Change("create", "a", "x", (1,), 10), Change("create", "b", "x", (4,), 30)],
        [Change("truncate", None, None, (3,), 20)],
        [Change("create", "c", "older", (2,), 15), Change("update", "a", "older", (2,), 15)],
        [Change("create", "a", "new", (5,), 40), Change("tombstone", "e", None, None, 50)],
    ]
    for number, part in enumerate(log):
        both(tmp_path).write({"rows": changes(spark, part)}, batch(number))
    require(spark, tmp_path, [change for part in log for change in part])
    assert living(sinks(tmp_path)[1].rows(spark).collect()) == {"a": "new", "b": "x"}


def test_versions_that_another_writer_changed_meanwhile_are_not_overwritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past, _ = sinks(tmp_path)
    past.write({"rows": changes(spark, LOG[0])}, batch(0))
    left = [1]

    def while_another_writes(table: DataFrame, changes: DataFrame, *, truncated: bool) -> DataFrame:
        plan = revised(table, changes, truncated=truncated)
        read = spark.createDataFrame(plan.collect(), plan.schema)
        if left[0]:
            left[0] -= 1
            taken = table.withColumn(
                "position", F.transform("position", lambda number: number + left[0] + 1)
            )
            by_another(lambda: taken.write.format("delta").mode("overwrite").save(past.path))
        return read

    monkeypatch.setattr(protocol, "ATTEMPTS", 2)
    monkeypatch.setattr(history, "revised", while_another_writes)
    assert past.write({"rows": changes(spark, LOG[1])}, batch(1)) == "written"
    assert {row.position[0] for row in rows(spark, past.path) if row.op == "create"} == {2, 3, 4}
    left[0] = 100
    with pytest.raises(ConflictError, match="another writer"):
        past.write({"rows": changes(spark, LOG[2])}, batch(2))


def test_rows_that_are_no_changes_and_tables_of_other_columns_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    past, now = sinks(tmp_path)
    for sink in (past, now):
        with pytest.raises(ColumnError, match="changes"):
            sink.write({"rows": spark.range(1)}, batch(0))
        spark.range(1).write.format("delta").save(sink.path)
        with pytest.raises(TableError, match="do not fit"):
            sink.write({"rows": changes(spark, LOG[0])}, batch(0))


def test_a_batch_is_known_to_both_tables(spark: SparkSession, tmp_path: Path) -> None:
    both(tmp_path).write({"rows": changes(spark, [])}, batch(0))
    for sink in sinks(tmp_path):
        assert [info["operation"] for info in commits(sink.path)] == ["WRITE"]
