"""The last number of an application id, told from the newest commits, is the one that Delta works
out."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrameWriter, SparkSession

from tidegate.commit import commit_once, delta_log, numbers
from tidegate.commit.layout import Layout
from tidegate.commit.options import CommitOptions
from tidegate.commit.stamp import Stamp
from tidegate.commit.table_log import TableLog
from tidegate.errors import ConflictError, FencedError, ReplayMismatchError, TableError
from tidegate.jvm import delta_state, executions
from tidegate.sinks import Append
from tidegate.testing import CrashError

from ..sinks.batches import batch, by_another, rows

APP = "j/q/append"


def done(spark: SparkSession, path: str) -> int | None:
    """Return the number as the sink finds it, and check it against what Delta works out."""
    found = TableLog(spark, path).done(APP)
    state = delta_state(spark, path)
    worked_out = state._snapshot.transactions().get(APP)
    assert found == (None if worked_out.isEmpty() else worked_out.get())
    assert found == state.transaction(APP)
    return found


@pytest.mark.slow
def test_other_writers_commits_between_ours_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    assert done(spark, path) is None
    spark.range(1).write.format("delta").save(path)
    assert done(spark, path) is None
    Append(path=path).write({"rows": spark.range(1)}, batch(4))
    for other in ("k/q/append", "j/q/append2"):
        spark.range(1).write.format("delta").mode("append").option("txnAppId", other).option(
            "txnVersion", "9"
        ).save(path)
    assert done(spark, path) == 4
    assert done(spark, path) == 4
    assert Append(path=path).write({"rows": spark.range(1)}, batch(4)) == "skipped"
    assert Append(path=path).write({"rows": spark.range(1)}, batch(5)) == "written"
    assert done(spark, path) == 5


def test_a_commit_that_is_made_holds_nothing_of_its_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta's proxy of what looks at a commit stays until old objects of the JVM are collected."""
    frame = spark.range(1)
    held = weakref.ref(frame)
    Append(path=str(tmp_path / "t")).write({"rows": frame}, batch(0))
    del frame
    gc.collect()
    assert held() is None


@pytest.mark.slow
def test_after_many_commits_of_others_or_with_commits_cleaned_away_delta_is_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "_FEW", 2)
    path, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
    Append(path=path).write({"rows": spark.range(1)}, batch(2))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    for _ in range(4):
        spark.range(1).write.format("delta").mode("append").save(path)
    assert done(spark, path) == 2
    spark.range(1).write.format("delta").mode("append").save(path)
    assert (log / f"{5:020d}.checkpoint.parquet").exists()
    for version in range(6):
        (log / f"{version:020d}.json").unlink()
    assert done(spark, path) == 2


@pytest.mark.slow
def test_an_older_copy_of_the_table_is_not_taken_for_the_one_that_was_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    sink = Append(path=str(path))
    sink.write({"rows": spark.range(1)}, batch(0))
    shutil.copytree(path, copy)
    sink.write({"rows": spark.range(1)}, batch(1))
    assert done(spark, str(path)) == 1
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    for _ in range(2):
        spark.range(1).write.format("delta").mode("append").save(str(path))
    assert done(spark, str(path)) == 0
    with pytest.raises(ReplayMismatchError, match="planned now are offsets other-0"):
        sink.write({"rows": spark.range(1)}, batch(0, "other"))
    assert sink.write({"rows": spark.range(1)}, batch(1)) == "written"
    assert len(rows(spark, str(path))) == 4


@pytest.mark.slow
def test_a_batch_that_a_restore_has_undone_is_not_taken_for_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path=path)
    for number in range(3):
        assert sink.write({"rows": spark.range(1)}, batch(number)) == "written"
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert sink.write({"rows": spark.range(1)}, batch(1)) == "skipped"
    with pytest.raises(ReplayMismatchError, match="has batch 2 of j/q/append with no stamp"):
        sink.write({"rows": spark.range(1)}, batch(2))
    assert len(rows(spark, path)) == 2


def fenced_off(spark: SparkSession, path: str, app: str) -> None:
    """Let another driver, which is another thread here, fence a table's writer off."""
    log = TableLog(spark, path)
    by_another(lambda: log.fence(app, "fence"))


@pytest.mark.parametrize("merging", [False, True])
@pytest.mark.slow
def test_a_commit_that_has_looked_meets_a_fence_and_one_whose_look_fails_is_not_made(
    spark: SparkSession, tmp_path: Path, merging: bool
) -> None:
    path = str(tmp_path / "t")
    Append(path=path).write({"rows": spark.range(1)}, batch(0))

    def write(options: CommitOptions) -> None:
        more = spark.range(5, 7)
        if merging:
            merge = DeltaTable.forPath(spark, path).alias("t").merge(more.alias("m"), "t.id = m.id")
            options.merge(spark, path, merge.whenNotMatchedInsertAll())
        else:
            options.on(more.write.format("delta").mode("append")).save(path)

    def refuse() -> None:
        raise FencedError("a later driver is there")

    stamp = Stamp.of(batch(1), "append", {})
    assert stamp.app_id == APP
    log = delta_log.DeltaCommitLog(spark, path, write)
    with pytest.raises(FencedError, match="a later driver is there"):
        log.commit(stamp, refuse)
    with pytest.raises(ConflictError):
        log.commit(stamp, lambda: fenced_off(spark, path, APP))
    assert len(rows(spark, path)) == 1
    assert done(spark, path) == 0
    log.commit(stamp, lambda: fenced_off(spark, path, "k/q/append"))
    assert len(rows(spark, path)) == 3
    assert done(spark, path) == 1


def test_a_commit_asks_delta_for_no_number(spark: SparkSession, tmp_path: Path) -> None:
    """Delta works numbers out by two queries over the table's log, anew for each version."""
    sink = Append(path=str(tmp_path / "t"))
    for number in range(2):
        sink.write({"rows": spark.range(1)}, batch(number), rows_out=1)
    before = executions(spark)
    sink.write({"rows": spark.range(1)}, batch(2), rows_out=1)
    # The save, and the rows' writing within it.
    assert executions(spark) - before == 2


@pytest.mark.slow
def test_a_batch_that_another_has_written_since_the_look_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path=path)
    sink.write({"rows": spark.range(1)}, batch(0))

    def write(options: CommitOptions) -> None:
        by_another(lambda: sink.write({"rows": spark.range(1)}, batch(1)))
        options.on(spark.range(1).write.format("delta").mode("append")).save(path)

    assert commit_once(spark, path, batch(1), "append", write, {}) == "written"
    assert len(rows(spark, path)) == 2
    assert done(spark, path) == 1


def test_a_commit_on_another_table_is_refused_before_it_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, other = str(tmp_path / "t"), tmp_path / "other"

    def write(options: CommitOptions) -> None:
        options.on(spark.range(1).write.format("delta")).save(str(other))

    with pytest.raises(TableError, match=r"other/_delta_log came where batch 0 of j/q/append"):
        commit_once(spark, path, batch(0), "append", write, {})
    assert not list(other.glob("_delta_log/*.json"))


@pytest.mark.slow
def test_the_commit_that_lays_a_table_out_is_not_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object) -> None:
        raise CrashError("before the rows")

    sink = Append(path=str(tmp_path / "t"), layout=Layout(cluster_by=["id"]))
    with monkeypatch.context() as patch:
        patch.setattr(DataFrameWriter, "save", save)
        with pytest.raises(CrashError):
            sink.write({"rows": spark.range(1)}, batch(0))
    assert delta_state(spark, sink.path).version == 0
    assert done(spark, sink.path) is None
    assert sink.write({"rows": spark.range(1)}, batch(0)) == "written"
    assert len(rows(spark, sink.path)) == 1
