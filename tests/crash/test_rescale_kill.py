"""`tidegate rescale`, killed while Spark writes the state anew, is finished by its next call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import CheckpointError
from tidegate.runtime.process.submit import environment
from tidegate.runtime.query.run import run
from tidegate.runtime.rescaling.rescale import rescale
from tidegate.runtime.rescaling.state import planned
from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess

from ..runtime.left import THIRD, WINDOWS, Left
from ..runtime.topics import sent
from .submitted import at_once


@pytest.mark.crash
@pytest.mark.broker
def test_a_rescale_that_is_killed_is_finished_and_the_job_goes_on(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    left = Left.made(spark, broker, topic, tmp_path)
    checkpoint = str(left.checkpoint)
    # A snapshot, which a session that has run no query reads otherwise than it reads changes.
    rescale(spark, planned(spark, checkpoint, 3))
    batch = left.identity.batch + 1
    command = [sys.executable, "-m", "tidegate", "rescale", checkpoint, "--to", "8"]
    process = GuardedProcess(command, tmp_path / "log", name="the rescale", env=environment())
    try:
        at_once(
            lambda: Path(checkpoint, "offsets", str(batch)).exists() or not process.alive,
            what="the batch in which Spark writes the state anew",
        )
        assert process.alive, process.tail(40)
    finally:
        process.kill()
    assert not Path(checkpoint, "commits", str(batch)).exists(), "killed too late"
    with pytest.raises(CheckpointError, match="is being rescaled from 3 to 8"):
        run(left.job(), spark)
    again = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (again.returncode, "goes on" in again.stdout) == (0, True), again.stderr
    sent(broker.servers, topic, THIRD)
    run(left.job(), spark)
    assert left.views() == WINDOWS
