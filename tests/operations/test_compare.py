"""Comparison of a target with its log: equal, until rows are changed."""

from __future__ import annotations

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.checkpoint_files import JobFiles
from tidegate import compare
from tidegate.errors import CheckpointError, ColumnTypeError, ComparisonError
from tidegate.jobs.job_command import run_compare
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


@pytest.fixture(scope="session")
def job_files(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> JobFiles:
    return JobFiles.create(spark, broker, "compared", tmp_path_factory.mktemp("left"))


def test_a_target_equals_its_log_until_rows_are_changed_or_deleted(
    job_files: JobFiles, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    run_compare(job_files.job(), spark, [])
    assert "6 rows expected, all equal, 1 late rows" in capsys.readouterr().out
    table = DeltaTable.forPath(spark, f"{job_files.root}/views")
    table.update(F.col("n") == 2, {"n": F.lit(7)})
    table.delete(F.col("window.start") == F.lit("2026-03-02T09:00:20Z").cast("timestamp"))
    with pytest.raises(ComparisonError, match="1 missing, 0 extra, 4 different"):
        run_compare(job_files.job(), spark, [])


def test_a_job_whose_target_is_not_a_function_of_its_log_is_an_error(
    job_files: JobFiles, spark: SparkSession
) -> None:
    with pytest.raises(ColumnTypeError, match="each_batch"):
        compare(job_files.job(each_batch=lambda rows: rows), spark)
    with pytest.raises(CheckpointError, match="was written by the job 'left'"):
        compare(job_files.job(checkpoint=f"{job_files.root}/other", name="other"), spark)
