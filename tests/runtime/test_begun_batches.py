"""A batch that was begun, and is gone on with after a change, a crash, or beside another driver."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.commit.epochs import EpochFiles
from tidegate.commit.ledger import Ledger
from tidegate.commit.stamp import app_id
from tidegate.errors import FencedError, ReplayMismatchError, TableError, TidegateError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.testing.crash import crash_after

from ..tables import rows
from .numbers import Numbers

pytestmark = pytest.mark.broker


def test_a_batch_that_was_begun_is_finished_as_it_was_begun_and_then_the_schema_may_change(
    numbers: Numbers, spark: SparkSession
) -> None:
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    with pytest.raises(ReplayMismatchError, match=r"is in dead already.*numbers.format was") as no:
        run(numbers.job("DOUBLE"), spark)
    assert "finish the batch with the configuration that began it" in str(no.value)
    run(numbers.job(), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0], [1])
    numbers.send(4.5)
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.5], [1])


def test_a_schema_that_does_not_fit_the_target_is_refused_and_new_columns_are_let_in(
    numbers: Numbers, spark: SparkSession
) -> None:
    def job(kind: str, *, evolve: bool = False) -> Job:
        sink = Append(f"{numbers.root}/numbers", evolve=evolve)
        return replace(numbers.job(kind), each_batch=None, sink=sink)

    run(job("INT"), spark)
    claimed = numbers.identity
    for kind, found in {"DOUBLE": "n was int and is double", "INT, m INT": "m is new"}.items():
        with pytest.raises(TableError, match=found) as no:
            run(job(kind), spark)
        assert "evolve=True where columns were only added" in no.value.hint
    assert numbers.identity == claimed
    numbers.send(4)
    run(job("INT, m INT", evolve=True), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.0], [1])


def test_a_lost_checkpoint_goes_on_at_the_last_commit_though_it_crashes_once_more(
    numbers: Numbers, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    numbers.send(4, 5.5, 6)
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    assert numbers.dead() == [1, 4]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark, resume_from_table=True)
    run(numbers.job(), spark)
    numbers.send(7)
    run(numbers.job(), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.0, 6.0, 7.0], [1, 4])


def test_a_table_deleted_while_the_job_runs_is_never_made_again(
    numbers: Numbers, spark: SparkSession
) -> None:
    table = numbers.root / "numbers"

    def deleting(batch: DataFrame) -> DataFrame:
        if table.exists():
            shutil.rmtree(table)
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(ReplayMismatchError, match=r"'append'.*numbers is gone"):
        run(numbers.job(each_batch=deleting, max_rows=1), spark)
    assert not (table / "_delta_log").exists()
    with pytest.raises(ReplayMismatchError, match=r"'append'.*numbers is gone"):
        run(numbers.job(), spark)


def test_a_driver_writes_no_more_once_another_has_claimed_its_checkpoint(
    numbers: Numbers, spark: SparkSession
) -> None:
    checkpoint = f"{numbers.root}/numbers.checkpoint"

    def taken_over(batch: DataFrame) -> DataFrame:
        files = EpochFiles(batch.sparkSession, checkpoint)
        noted = files.read()
        if noted is not None and noted.epoch == 1:
            Ledger.claimed(files, noted, {})
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(FencedError, match=r"is in epoch 2.* has epoch 1"):
        run(numbers.job(each_batch=taken_over), spark)
    assert rows(numbers.root / "numbers") == []
    run(numbers.job(each_batch=taken_over), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0], [1])
    assert len(list(Path(checkpoint, "tidegate").glob("identity-*.json"))) == 3


def test_a_table_that_a_sleeping_driver_has_made_is_refused_and_moved_away(
    numbers: Numbers, spark: SparkSession
) -> None:
    """It slept in the commit that makes the table, where there is nothing yet to be fenced."""
    dead = Path(numbers.dead_letters)

    def awoken(batch: DataFrame) -> DataFrame:
        noted = numbers.identity
        if noted.batch == 0 and not dead.exists():
            of_before = batch.select("n").write.format("delta").option("txnVersion", "0")
            app = app_id("numbers", noted.query or "", "dead")
            of_before.option("txnAppId", app).option("userMetadata", "{}").save(str(dead))
        return batch.select("n")

    run(numbers.job("DOUBLE"), spark)
    # Its driver has not said that it ended.
    numbers.newest.write_text(replace(numbers.identity, ended=False).text())
    numbers.send(4, 5)
    says = "dead_letters has batch 0, which was finished without this table"
    with pytest.raises(ReplayMismatchError, match=says):
        run(numbers.job("DOUBLE", awoken, max_rows=1), spark)
    with pytest.raises(ReplayMismatchError, match=says) as no:
        run(numbers.job("DOUBLE"), spark)
    assert "move the table's folder away" in no.value.hint
    shutil.move(dead, numbers.root / "away")
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.found(), dead.exists()) == ([1.0, 2.5, 3.0, 4.0, 5.0], False)
