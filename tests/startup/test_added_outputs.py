"""A new output of an existing checkpoint starts only if it is in `recreate`."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import WINDOWS, JobFiles
from tests.support.delta_tables import rows
from tidegate import run
from tidegate.errors import ArgumentError, CheckpointError
from tidegate.sinks import Append, FanOut
from tidegate.startup.preflight import Preflight

pytestmark = pytest.mark.broker


def with_log(job_files: JobFiles) -> FanOut:
    log = Append(str(job_files.root / "log"), output="log")
    return FanOut(Append(str(job_files.root / "views")), other_sinks=[log])


def logged_windows(job_files: JobFiles) -> dict[int, int]:
    log_rows = rows(job_files.root / "log")
    return {int(row["window"]["start"].timestamp()) % 3600: row["n"] for row in log_rows}


@pytest.mark.jobs
def test_a_new_output_is_refused_and_starts_with_the_next_batch_if_recreated(
    job_files: JobFiles, spark: SparkSession
) -> None:
    batch = job_files.lineage.last_batch
    with pytest.raises(CheckpointError, match=r"output 'log' is new: .*/log would lack") as error:
        run(job_files.job(sink=with_log(job_files)), spark)
    assert f"the batches up to {batch}\n" in str(error.value)
    assert "--recreate log" in str(error.value)
    with pytest.raises(CheckpointError, match="output 'log' is new"):
        run(job_files.job(sink=with_log(job_files)), spark, recreate=["all"])
    with pytest.raises(ArgumentError, match=r"^invalid recreate: 'append', whose"):
        run(job_files.job(sink=with_log(job_files)), spark, recreate=["log", "append"])
    assert job_files.lineage.last_batch == batch
    run(job_files.job(sink=with_log(job_files)), spark, recreate=["log"])
    run(job_files.job(sink=with_log(job_files)), spark)
    assert job_files.window_counts() == WINDOWS
    assert logged_windows(job_files) == {start: n for start, n in WINDOWS.items() if start >= 70}


def test_a_lost_checkpoint_does_not_resume_with_a_new_output(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.checkpoint)
    job = job_files.job(sink=with_log(job_files))
    with pytest.raises(CheckpointError, match="output 'log' is new"):
        Preflight(job, spark, resume_from_table=True).require_all()
    lineage = Preflight(job, spark, resume_from_table=True, recreate=["log"]).require_all()
    assert lineage.outputs == ("log", "append")
