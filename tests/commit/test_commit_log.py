"""The last batch of an application id from the newest commits equals that of Delta."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrameWriter, SparkSession

from tests.support.scan_metrics import count_executions
from tests.support.sink_batches import as_another_writer, batch, rows
from tidegate.commit import table_log
from tidegate.commit.batch import Stamp
from tidegate.commit.delta_commit import DeltaCommitter, commit_once
from tidegate.commit.table_log import TableLog
from tidegate.delta.commit_options import CommitOptions
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import ConflictError, FencedError, TableError, TableMismatchError
from tidegate.jvm import checkpoint_table, clear_table_cache, commit_file_name, delta_state
from tidegate.sinks import Append
from tidegate.testing import CrashError

pytestmark = pytest.mark.jobs

APP = "j/q/append"


def last_batch(spark: SparkSession, path: str) -> int | None:
    """Return the last batch in the log, and require that Delta has the same number."""
    number = TableLog(spark, path).last_batch(APP)
    state = delta_state(spark, path)
    delta_number = state._snapshot.transactions().get(APP)
    assert number == (None if delta_number.isEmpty() else delta_number.get())
    assert number == state.txn_version(APP)
    return number


@pytest.mark.slow
def test_commits_of_other_writers_do_not_change_the_last_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    assert last_batch(spark, path) is None
    spark.range(1).write.format("delta").save(path)
    assert last_batch(spark, path) is None
    Append(path=path).write({"rows": spark.range(1)}, batch(4))
    for other in ("k/q/append", "j/q/append2"):
        spark.range(1).write.format("delta").mode("append").option("txnAppId", other).option(
            "txnVersion", "9"
        ).save(path)
    assert last_batch(spark, path) == 4
    assert last_batch(spark, path) == 4
    assert Append(path=path).write({"rows": spark.range(1)}, batch(4)) == "skipped"
    assert Append(path=path).write({"rows": spark.range(1)}, batch(5)) == "written"
    assert last_batch(spark, path) == 5


def test_a_commit_leaves_no_reference_to_its_frame(spark: SparkSession, tmp_path: Path) -> None:
    """The JVM's proxy of the commit hook lives until the JVM collects it."""
    frame = spark.range(1)
    reference = weakref.ref(frame)
    Append(path=str(tmp_path / "t")).write({"rows": frame}, batch(0))
    del frame
    gc.collect()
    assert reference() is None


def test_rows_of_a_batch_without_its_number_are_refused_until_they_are_undone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink, stamp = Append(path=path), Stamp.for_batch(batch(5), "append").to_json()
    sink.write({"rows": spark.range(1)}, batch(4))
    before = delta_state(spark, path).version
    for _ in range(2):
        unnumbered = spark.range(2).write.format("delta").mode("append")
        unnumbered.option("userMetadata", stamp).save(path)
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('other' = 'commit')")
        with pytest.raises(TableMismatchError, match="has rows of batch 5 of j/q/append") as error:
            sink.write({"rows": spark.range(2)}, batch(5))
    assert "RESTORE the table to the version before the first of them" in error.value.remedy
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {before}")
    assert sink.write({"rows": spark.range(2)}, batch(5)) == "written"
    assert sorted(row["id"] for row in rows(spark, path)) == [0, 0, 1]


@pytest.mark.slow
def test_delta_answers_after_many_other_commits_or_with_deleted_commit_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "_MAX_COMMITS_READ", 2)
    path, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
    Append(path=path).write({"rows": spark.range(1)}, batch(2))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    for _ in range(4):
        spark.range(1).write.format("delta").mode("append").save(path)
    assert last_batch(spark, path) == 2
    spark.range(1).write.format("delta").mode("append").save(path)
    assert (log / f"{5:020d}.checkpoint.parquet").exists()
    for version in range(6):
        (log / f"{version:020d}.json").unlink()
    assert last_batch(spark, path) == 2


@pytest.mark.slow
def test_an_older_copy_of_the_table_is_detected(spark: SparkSession, tmp_path: Path) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    sink = Append(path=str(path))
    sink.write({"rows": spark.range(1)}, batch(0))
    shutil.copytree(path, copy)
    sink.write({"rows": spark.range(1)}, batch(1))
    assert last_batch(spark, str(path)) == 1
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    for _ in range(2):
        spark.range(1).write.format("delta").mode("append").save(str(path))
    assert last_batch(spark, str(path)) == 0
    with pytest.raises(TableMismatchError, match="the checkpoint plans offsets other-0"):
        sink.write({"rows": spark.range(1)}, batch(0, "other"))
    assert sink.write({"rows": spark.range(1)}, batch(1)) == "written"
    assert len(rows(spark, str(path))) == 4


@pytest.mark.slow
def test_a_batch_that_a_restore_has_undone_does_not_count_as_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path=path)
    for number in range(3):
        assert sink.write({"rows": spark.range(1)}, batch(number)) == "written"
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert sink.write({"rows": spark.range(1)}, batch(1)) == "skipped"
    with pytest.raises(TableMismatchError, match="has batch 2 of j/q/append, but its log") as error:
        sink.write({"rows": spark.range(1)}, batch(2))
    assert len(rows(spark, path)) == 2
    assert error.value.remedy.startswith("after a RESTORE, restore the table to a version that has")
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 2")
    assert sink.write({"rows": spark.range(1)}, batch(2)) == "skipped"
    assert len(rows(spark, path)) == 3


def test_a_batch_whose_commit_the_log_has_deleted_is_refused_with_the_retention(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path=path)
    for number in range(3):
        sink.write({"rows": spark.range(1)}, batch(number))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('tidegate.test' = 'yes')")
    checkpoint_table(spark, path)
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / commit_file_name(version)).unlink()
    clear_table_cache(spark)
    with pytest.raises(TableMismatchError, match="its log does not have the metadata") as error:
        sink.write({"rows": spark.range(1)}, batch(2))
    assert "delta.logRetentionDuration" in error.value.detail
    assert len(rows(spark, path)) == 3


def fence(spark: SparkSession, path: str, app: str) -> None:
    """Fence the writers of a table as another driver, here another thread."""
    log = TableLog(spark, path)
    as_another_writer(lambda: log.fence(app, "fence"))


@pytest.mark.parametrize("merging", [False, True])
@pytest.mark.slow
def test_a_fence_after_the_checks_is_a_conflict_and_a_failed_check_prevents_the_commit(
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
            options.apply_to(more.write.format("delta").mode("append")).save(path)

    def refuse() -> None:
        raise FencedError("a later driver")

    stamp = Stamp.for_batch(batch(1), "append")
    assert stamp.app_id == APP
    log = DeltaCommitter(spark, path, write)
    with pytest.raises(FencedError, match="a later driver"):
        log.commit(stamp, refuse)
    with pytest.raises(ConflictError):
        log.commit(stamp, lambda: fence(spark, path, APP))
    assert len(rows(spark, path)) == 1
    assert last_batch(spark, path) == 0
    log.commit(stamp, lambda: fence(spark, path, "k/q/append"))
    assert len(rows(spark, path)) == 3
    assert last_batch(spark, path) == 1


def test_a_commit_runs_no_query_for_the_last_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Delta would run two queries over the log of each version."""
    sink = Append(path=str(tmp_path / "t"))
    for number in range(2):
        sink.write({"rows": spark.range(1)}, batch(number), rows_out=1)
    count_before = count_executions(spark)
    sink.write({"rows": spark.range(1)}, batch(2), rows_out=1)
    # The save, and the write of the rows within it.
    assert count_executions(spark) - count_before == 2


@pytest.mark.slow
def test_a_batch_that_another_driver_writes_after_the_checks_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path=path)
    sink.write({"rows": spark.range(1)}, batch(0))

    def write(options: CommitOptions) -> None:
        as_another_writer(lambda: sink.write({"rows": spark.range(1)}, batch(1)))
        options.apply_to(spark.range(1).write.format("delta").mode("append")).save(path)

    assert commit_once(spark, path, batch(1), "append", write, {}) == "written"
    assert len(rows(spark, path)) == 2
    assert last_batch(spark, path) == 1


def test_a_commit_on_another_table_is_refused_before_it_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, other = str(tmp_path / "t"), tmp_path / "other"

    def write(options: CommitOptions) -> None:
        options.apply_to(spark.range(1).write.format("delta")).save(str(other))

    with pytest.raises(
        TableError, match=r"invalid commit to .*other/_delta_log in batch 0 of j/q/append"
    ):
        commit_once(spark, path, batch(0), "append", write, {})
    assert not list(other.glob("_delta_log/*.json"))


@pytest.mark.slow
def test_the_commit_that_creates_a_table_is_not_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object) -> None:
        raise CrashError("before the rows")

    sink = Append(path=str(tmp_path / "t"), layout=TableLayout(cluster_by=["id"]))
    with monkeypatch.context() as patch:
        patch.setattr(DataFrameWriter, "save", save)
        with pytest.raises(CrashError):
            sink.write({"rows": spark.range(1)}, batch(0))
    assert delta_state(spark, sink.path).version == 0
    assert last_batch(spark, sink.path) is None
    assert sink.write({"rows": spark.range(1)}, batch(0)) == "written"
    assert len(rows(spark, sink.path)) == 1
