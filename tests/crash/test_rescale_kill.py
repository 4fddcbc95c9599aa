"""`tidegate rescale`, killed at any of its steps, is finished by its next call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.support.checkpoint_files import THIRD, WINDOWS, JobFiles
from tests.support.kafka_topics import send_records
from tests.support.killed_steps import Step, kill_at
from tests.support.spark_submit import at_once
from tidegate import run
from tidegate.errors import CheckpointError
from tidegate.operations.rescale import plan_rescale, rescale
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment

CLAIMED = Step("tidegate.checkpoint.lineage_files:LineageFiles.write")
REWRITTEN = Step("tidegate.operations.rescale:repartition_state")
PARTLY_DELETED = Step("tidegate.operations.rescale:delete_folder")
UNRECORDED = Step("tidegate.checkpoint.lineage_files:LineageFiles.write", 2, before=True)
RECORDED = Step("tidegate.checkpoint.lineage_files:LineageFiles.write", 2)


@pytest.mark.crash
@pytest.mark.broker
def test_a_killed_rescale_is_finished_and_the_job_resumes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    checkpoint = str(job_files.checkpoint)
    # A snapshot, which a session that has run no query reads otherwise than it reads changes.
    rescale(spark, plan_rescale(spark, checkpoint, 3))
    batch = job_files.lineage.last_batch + 1
    command = [sys.executable, "-m", "tidegate", "rescale", checkpoint, "--to", "8"]
    process = GuardedProcess(
        command, tmp_path / "log", name="the rescale", env=submit_environment()
    )
    try:
        at_once(
            lambda: Path(checkpoint, "offsets", str(batch)).exists() or not process.is_alive,
            what="the batch in which Spark rewrites the state",
        )
        assert process.is_alive, process.tail(40)
    finally:
        process.kill()
    assert not Path(checkpoint, "commits", str(batch)).exists(), "killed too late"
    with pytest.raises(CheckpointError, match="is being rescaled from 3 to 8"):
        run(job_files.job(), spark)
    again = subprocess.run(command, capture_output=True, text=True, env=submit_environment())
    assert (again.returncode, "resume rescaling" in again.stdout) == (0, True), again.stderr
    send_records(broker.bootstrap_servers, topic, THIRD)
    run(job_files.job(), spark)
    assert job_files.window_counts() == WINDOWS


@pytest.mark.crash
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.draws(
    "steps",
    short=[(REWRITTEN, UNRECORDED)],
    long=[(CLAIMED, REWRITTEN, PARTLY_DELETED, UNRECORDED, RECORDED)],
    ids=lambda steps: f"{len(steps)} kills",
)
def test_a_rescale_to_fewer_partitions_is_finished_after_a_kill_at_each_step(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    checkpoint = str(job_files.checkpoint)
    rescale(spark, plan_rescale(spark, checkpoint, 5))
    command = ("rescale", checkpoint, "--to", "2")
    for step in steps:
        kill_at(step, *command, log=tmp_path / "log")
        if step != RECORDED:
            with pytest.raises(CheckpointError, match="is being rescaled from 5 to 2"):
                run(job_files.job(), spark)
    code, output = invoke(*command)
    is_finished = steps[-1] == RECORDED
    assert (code, "nothing to do" in output) == (0, is_finished), output
    assert sorted(each.name for each in Path(checkpoint, "state", "0").iterdir()
                  if each.name.isdecimal()) == ["0", "1"]  # fmt: skip
    send_records(broker.bootstrap_servers, topic, THIRD)
    run(job_files.job(), spark)
    assert job_files.window_counts() == WINDOWS
