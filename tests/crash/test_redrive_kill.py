"""A redrive killed with SIGKILL, and one that sleeps while another runs: each dead letter goes back
once."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.runtime import run
from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess, until

from ..command.test_command import called
from ..command.test_redrive import views
from ..sources.raw import produce
from .left import written

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 3_000
AT = '"event_time": "2026-01-02T03:04:05Z"'


class Redrive:
    """Dead letters of a job, all of which a repair makes good, and the command that sends them."""

    def __init__(self, broker: Broker, topic: str, root: Path, spark: SparkSession) -> None:
        broker.create_topic(topic, partitions=2, retention_ms=-1)
        produce(
            broker.servers, topic, [f'#{{"page": "q{n}", {AT}}}'.encode() for n in range(COUNT)]
        )
        self.path = str(root / "views")
        self.log = root / "redrive.log"
        self.job = views(broker, topic, self.path)
        self.spark = spark
        run(self.job, spark)
        self.command = [
            *("redrive", f"{self.path}.dead_letters", "--servers", broker.servers),
            *("--repair", "substring(value, 2)"),
        ]

    @contextmanager
    def sending(self) -> Iterator[GuardedProcess]:
        """Start the command in a process of its own, which is killed at the end, and return it once
        it has noted what it is about to send."""
        command = [sys.executable, "-m", "tidegate", *self.command]
        process = GuardedProcess(command, self.log, name="redrive")
        try:
            until(self.intends, within=120, what="the intent", process=process)
            process.require_alive()
            yield process
        finally:
            process.kill()

    def intends(self) -> bool:
        """Return whether the command has noted what it is about to send."""
        return bool(written(Path(f"{self.path}.dead_letters.redriven") / "_delta_log"))

    def require_each_once(self) -> None:
        """Let the job read what went back, and look for each letter."""
        run(self.job, self.spark)
        pages = Counter(
            row.page for row in self.spark.read.format("delta").load(self.path).collect()
        )
        assert pages == Counter(f"q{n}" for n in range(COUNT))


@pytest.mark.timeout(300)
def test_a_redrive_that_is_killed_while_it_sends_sends_each_letter_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    redrive = Redrive(broker, topic, tmp_path, spark)
    with redrive.sending():
        pass
    code, said = called(*redrive.command)
    assert (code, "0 are left" in said) == (0, True), said
    redrive.require_each_once()


@pytest.mark.timeout(300)
def test_a_redrive_that_slept_while_another_ran_sends_nothing_more(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    redrive = Redrive(broker, topic, tmp_path, spark)
    with redrive.sending() as process:
        os.killpg(process.pid, signal.SIGSTOP)
        code, said = called(*redrive.command)
        assert (code, "0 are left" in said) == (0, True), said
        os.killpg(process.pid, signal.SIGCONT)
        until(lambda: not process.alive, within=120, what="the end of the first one")
    redrive.require_each_once()
