"""Unfinished batches: continued after a change, after a crash, or with another driver running."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.number_job import NumberJob
from tidegate import Job, run
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.batch import app_id
from tidegate.commit.driver_lease import DriverLease
from tidegate.errors import FencedError, TableError, TableMismatchError, TidegateError
from tidegate.sinks import Append
from tidegate.testing.crash_points import crash_after

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


def test_an_unfinished_batch_must_be_finished_before_the_schema_changes(
    numbers: NumberJob, spark: SparkSession
) -> None:
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    with pytest.raises(
        TableMismatchError, match=r"^batch 0 is incomplete.*numbers\.format changed from"
    ) as error:
        run(numbers.job("DOUBLE"), spark)
    assert "finish the batch with the previous configuration" in str(error.value)
    run(numbers.job(), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0], [1])
    numbers.send(4.5)
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0, 4.5], [1])


def test_a_schema_that_does_not_fit_the_target_is_refused_and_new_columns_can_evolve(
    numbers: NumberJob, spark: SparkSession
) -> None:
    def job(type_name: str, *, evolve: bool = False) -> Job:
        sink = Append(f"{numbers.root}/numbers", evolve=evolve)
        return replace(numbers.job(type_name), each_batch=None, sink=sink)

    run(job("INT"), spark)
    lineage = numbers.lineage
    for type_name, change in {"DOUBLE": "n .*int .*double", "INT, m INT": "m is new"}.items():
        with pytest.raises(TableError, match=change) as error:
            run(job(type_name), spark)
        assert "evolve=True" in error.value.remedy
    assert numbers.lineage == lineage
    numbers.send(4)
    run(job("INT, m INT", evolve=True), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0, 4.0], [1])


def test_a_job_without_its_checkpoint_resumes_at_the_last_commit_even_after_another_crash(
    numbers: NumberJob, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    numbers.send(4, 5.5, 6)
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    assert numbers.dead_offsets() == [1, 4]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark, resume_from_table=True)
    run(numbers.job(), spark)
    numbers.send(7)
    run(numbers.job(), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0, 4.0, 6.0, 7.0], [1, 4])


def test_a_table_deleted_while_the_job_runs_is_not_created_again(
    numbers: NumberJob, spark: SparkSession
) -> None:
    table = numbers.root / "numbers"

    def deleting(batch: DataFrame) -> DataFrame:
        if table.exists():
            shutil.rmtree(table)
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(TableMismatchError, match=r"'append'.*numbers does not exist"):
        run(numbers.job(each_batch=deleting, max_records=1), spark)
    assert not (table / "_delta_log").exists()
    with pytest.raises(TableMismatchError, match=r"'append'.*numbers does not exist"):
        run(numbers.job(), spark)


def test_a_driver_is_fenced_once_another_driver_has_claimed_its_checkpoint(
    numbers: NumberJob, spark: SparkSession
) -> None:
    checkpoint = f"{numbers.root}/numbers.checkpoint"

    def with_other_driver(batch: DataFrame) -> DataFrame:
        files = LineageFiles(batch.sparkSession, checkpoint)
        lineage = files.read()
        if lineage is not None and lineage.epoch == 1:
            DriverLease.acquire(files, lineage, {})
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(FencedError, match=r"is in epoch 2.* has epoch 1"):
        run(numbers.job(each_batch=with_other_driver), spark)
    assert rows(numbers.root / "numbers") == []
    run(numbers.job(each_batch=with_other_driver), spark)
    assert (numbers.values(), numbers.dead_offsets()) == ([1.0, 3.0], [1])
    assert len(list(Path(checkpoint, "tidegate").glob("lineage-*.json"))) == 3


def test_a_table_that_a_paused_driver_has_created_is_refused_and_can_be_moved_away(
    numbers: NumberJob, spark: SparkSession
) -> None:
    """The driver was paused in the commit that creates the table, which fencing cannot reach."""
    dead = Path(numbers.dead_letters)

    def with_resumed_driver(batch: DataFrame) -> DataFrame:
        lineage = numbers.lineage
        if lineage.last_batch == 0 and not dead.exists():
            writer = batch.select("n").write.format("delta").option("txnVersion", "0")
            app = app_id("numbers", lineage.query or "", "dead_letters")
            writer.option("txnAppId", app).option("userMetadata", "{}").save(str(dead))
        return batch.select("n")

    run(numbers.job("DOUBLE"), spark)
    # The paused driver has not released the lease.
    numbers.lineage_file.write_text(replace(numbers.lineage, released=False).to_json())
    numbers.send(4, 5)
    message = "dead_letters has batch 0, which was completed without this table"
    with pytest.raises(TableMismatchError, match=message):
        run(numbers.job("DOUBLE", with_resumed_driver, max_records=1), spark)
    with pytest.raises(TableMismatchError, match=message) as error:
        run(numbers.job("DOUBLE"), spark)
    assert "move the folder of the table away" in error.value.remedy
    shutil.move(dead, numbers.root / "away")
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.values(), dead.exists()) == ([1.0, 2.5, 3.0, 4.0, 5.0], False)
