"""Parts that do not fit in ways that no number tells: a restored table without its checkpoint, a
backlog under another plan, a checkpoint and a copy of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.commit import Batch, commit_once
from tidegate.commit.batch import EPOCH
from tidegate.commit.options import CommitOptions
from tidegate.commit.table import append
from tidegate.errors import CheckpointError, ReplayMismatchError, TidegateError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.testing.crash import CrashError, crash_after

from ..tables import rows
from .numbers import Numbers

pytestmark = pytest.mark.broker


def test_a_lost_checkpoint_goes_on_from_what_a_restore_has_left(
    numbers: Numbers, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    numbers.send(4, 5.5)
    run(numbers.job(), spark)
    table = f"delta.`{numbers.root}/numbers`"
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    assert numbers.found() == [1.0, 3.0]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    run(numbers.job(), spark, resume_from_table=True)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.0], [1, 4])


def test_a_lost_checkpoint_deletes_no_letters_of_another_job(
    numbers: Numbers, spark: SparkSession
) -> None:
    shared = numbers.dead_letters
    other = replace(numbers.job(), name="other", sink=Append(f"{numbers.root}/other"), dead=shared)
    run(numbers.job(), spark)
    numbers.send(4.5)
    run(other, spark)
    with crash_after(shared), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    assert numbers.dead() == [1, 1, 3, 3]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    with pytest.raises(CheckpointError, match="the jobs other write to it too") as no:
        run(numbers.job(), spark, resume_from_table=True)
    assert "No row was deleted" in no.value.hint
    own = f"{numbers.root}/letters"
    run(replace(numbers.job(), dead=own), spark, resume_from_table=True)
    assert numbers.dead() == [1, 1, 3, 3]
    assert [row["offset"] for row in rows(Path(own))] == [3]


def backlog(numbers: Numbers, kind: str) -> Job:
    return replace(numbers.job(kind), backlog=0)


def test_a_backlog_that_was_begun_is_finished_under_its_own_plan(
    numbers: Numbers, spark: SparkSession
) -> None:
    with crash_after(numbers.dead_letters), pytest.raises(CrashError):
        run(backlog(numbers, "INT"), spark)
    with pytest.raises(ReplayMismatchError, match=r"batch 0 is in dead already.*format was"):
        run(backlog(numbers, "DOUBLE"), spark)
    run(backlog(numbers, "INT"), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0], [1])
    numbers.send(4.5)
    run(backlog(numbers, "DOUBLE"), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.5], [1])


def test_a_backlog_of_which_nothing_is_written_is_planned_anew_under_another_plan(
    numbers: Numbers, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as dying:
        dying.setattr("tidegate.runtime.query.backlog.kept_aside", die)
        with pytest.raises(CrashError):
            run(backlog(numbers, "INT"), spark)
    planned = numbers.identity.backlog
    assert planned is not None
    run(backlog(numbers, "DOUBLE"), spark)
    done = numbers.identity.backlog
    assert done is not None
    assert done.query != planned.query
    assert (numbers.found(), (numbers.root / "numbers.dead_letters").exists()) == (
        [1.0, 2.5, 3.0],
        False,
    )


def test_a_copy_of_a_checkpoint_that_writes_beside_it_is_noticed_though_no_batch_is_there_twice(
    numbers: Numbers, spark: SparkSession
) -> None:
    """Its batch has a number under which this one had no rows."""
    path = f"{numbers.root}/numbers"

    def copy(rows: DataFrame, number: int) -> None:
        batch = Batch(
            job="numbers", query_id=numbers.identity.query or "", run_id="a copy's",
            number=number, offsets_hash="others", start={}, end={}, watermark=EPOCH,
        )  # fmt: skip

        def write(options: CommitOptions) -> None:
            append(rows, path, options)

        assert commit_once(spark, path, batch, "append", write, {}) == "written"

    def beside(rows: DataFrame) -> DataFrame:
        good = rows.selectExpr("cast(n AS DOUBLE) AS n")
        if numbers.identity.batch == 1:
            copy(good.sparkSession.createDataFrame([(12.0,)], "n DOUBLE"), 1)
        return good

    run(numbers.job(), spark)
    numbers.send(10.5, 12)
    with pytest.raises(ReplayMismatchError, match=r"has got batch 1 of .*by another driver") as no:
        run(numbers.job(each_batch=beside, max_rows=1), spark)
    assert "a copy of the checkpoint is used as well" in str(no.value)
    assert numbers.found() == [1.0, 3.0, 12.0]
