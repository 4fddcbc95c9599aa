"""Conflicts that batch numbers do not show: a restored table without its checkpoint, a backfill
with another configuration, and a copy of a checkpoint."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.number_job import NumberJob
from tidegate import Job, run
from tidegate.commit.batch import UNIX_EPOCH, BatchPlan, CommitContext
from tidegate.commit.delta_commit import commit_once
from tidegate.delta.commit_options import CommitOptions
from tidegate.delta.delta_table import append
from tidegate.errors import CheckpointError, ColumnError, TableMismatchError, TidegateError
from tidegate.sinks import Append, CurrentTable, HistoryTable
from tidegate.testing.crash_points import CrashError, crash_after

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


def test_a_job_without_its_checkpoint_resumes_from_a_restored_table(
    numbers: NumberJob, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    numbers.send(4, 5.5)
    run(numbers.job(), spark)
    table = f"delta.`{numbers.root}/numbers`"
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    assert numbers.values() == [1.0, 3.0]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    run(numbers.job(), spark, resume_from_table=True)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0, 4.0], [1, 4])


def test_resuming_does_not_delete_dead_letters_of_another_job(
    numbers: NumberJob, spark: SparkSession
) -> None:
    shared = numbers.dead_letters
    other = replace(
        numbers.job(), name="other", sink=Append(f"{numbers.root}/other"), dead_letters=shared
    )
    run(numbers.job(), spark)
    numbers.send(4.5)
    run(other, spark)
    with crash_after(shared), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    assert numbers.dead_offsets() == [1, 1, 3, 3]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    with pytest.raises(CheckpointError, match=r"several jobs write to .*dead_letters") as error:
        run(numbers.job(), spark, resume_from_table=True)
    assert "and other may have written them. No row was deleted" in error.value.detail
    own = f"{numbers.root}/letters"
    run(replace(numbers.job(), dead_letters=own), spark, resume_from_table=True)
    assert numbers.dead_offsets() == [1, 1, 3, 3]
    assert [row["offset"] for row in rows(Path(own))] == [3]


@pytest.mark.parametrize("sink", [CurrentTable, HistoryTable])
def test_rows_that_are_not_changes_are_refused_before_a_job_writes(
    sink: type[CurrentTable | HistoryTable], numbers: NumberJob, spark: SparkSession
) -> None:
    changes = sink(f"{numbers.root}/changes")
    with pytest.raises(ColumnError, match="its rows are not changes"):
        replace(numbers.job(), sink=changes, each_batch=None)
    with pytest.raises(ColumnError, match="changes"):
        run(replace(numbers.job(), sink=changes), spark)
    assert not list(Path(numbers.root).glob("**/_delta_log"))


def backfill_job(numbers: NumberJob, type_name: str) -> Job:
    return replace(numbers.job(type_name), backfill_threshold=0)


def test_an_unfinished_backfill_is_finished_with_its_configuration(
    numbers: NumberJob, spark: SparkSession
) -> None:
    with crash_after(numbers.dead_letters), pytest.raises(CrashError):
        run(backfill_job(numbers, "INT"), spark)
    with pytest.raises(TableMismatchError, match=r"batch 0 is incomplete.*format changed from"):
        run(backfill_job(numbers, "DOUBLE"), spark)
    run(backfill_job(numbers, "INT"), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0], [1])
    numbers.send(4.5)
    run(backfill_job(numbers, "DOUBLE"), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0, 4.5], [1])


def test_an_unwritten_backfill_is_planned_again_with_a_changed_configuration(
    numbers: NumberJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as dying:
        dying.setattr("tidegate.engine.micro_batch.write_side_outputs", die)
        with pytest.raises(CrashError):
            run(backfill_job(numbers, "INT"), spark)
    planned = numbers.lineage.backfill
    assert planned is not None
    run(backfill_job(numbers, "DOUBLE"), spark)
    done = numbers.lineage.backfill
    assert done is not None
    assert done.query != planned.query
    assert (numbers.values(), (numbers.root / "numbers.dead_letters").exists()) == (
        [1.0, 2.5, 3.0],
        False,
    )


def test_a_copy_of_a_checkpoint_that_writes_to_the_same_table_is_detected(
    numbers: NumberJob, spark: SparkSession
) -> None:
    """The batch of the copy has the number of a batch without rows."""
    path = f"{numbers.root}/numbers"

    def copy(rows: DataFrame, number: int) -> None:
        plan = BatchPlan(
            job="numbers", query_id=numbers.lineage.query or "", run_id="a copy's",
            number=number, offsets_hash="others", start={}, end={}, watermark=UNIX_EPOCH,
        )  # fmt: skip

        def write(options: CommitOptions) -> None:
            append(rows, path, options)

        assert commit_once(spark, path, CommitContext(plan=plan), "append", write, {}) == "written"

    def with_second_writer(rows: DataFrame) -> DataFrame:
        good = rows.selectExpr("cast(n AS DOUBLE) AS n")
        if numbers.lineage.last_batch == 1:
            copy(good.sparkSession.createDataFrame([(12.0,)], "n DOUBLE"), 1)
        return good

    run(numbers.job(), spark)
    numbers.send(10.5, 12)
    with pytest.raises(TableMismatchError, match=r"has batch 1 of .*by another driver") as error:
        run(numbers.job(each_batch=with_second_writer, max_records=1), spark)
    assert "a copy of the checkpoint is used as well" in str(error.value)
    assert numbers.values() == [1.0, 3.0, 12.0]
