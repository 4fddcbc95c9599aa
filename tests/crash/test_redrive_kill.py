"""A redrive killed with SIGKILL, and one that is paused while another runs: each dead letter is
sent once."""

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

from tests.cli.test_cli import invoke
from tests.cli.test_redrive import views
from tests.support.crash_leftovers import written
from tests.support.killed_steps import Step, kill_at
from tests.support.raw_records import produce
from tidegate import run
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash]
COUNT = 3_000
SENDING = Step("tidegate.kafka.redrive:RedriveLog._produce_letter", 2 * COUNT // 3)
SETTLED = Step("tidegate.kafka.redrive:RedriveLog.append_entries")
SENT_NOT_LOGGED = Step("tidegate.kafka.redrive:RedriveLog._send_in_transaction")
NOT_SETTLED = Step("tidegate.kafka.redrive:RedriveLog.append_entries", before=True)
AT = '"event_time": "2026-01-02T03:04:05Z"'


class Redrive:
    """Dead letters of a job that a repair makes valid, and the command that sends them."""

    def __init__(self, broker: Broker, topic: str, root: Path, spark: SparkSession) -> None:
        broker.create_topic(topic, partitions=2, retention_ms=-1)
        produce(
            broker.bootstrap_servers,
            topic,
            [f'#{{"page": "q{n}", {AT}}}'.encode() for n in range(COUNT)],
        )
        self.path = str(root / "views")
        self.log = root / "redrive.log"
        self.job = views(broker, topic, self.path)
        self.spark = spark
        run(self.job, spark)
        self.command = [
            *("redrive", f"{self.path}.dead_letters", "--servers", broker.bootstrap_servers),
            *("--repair", "substring(value, 2)"),
        ]

    @contextmanager
    def sending(self) -> Iterator[GuardedProcess]:
        """Start the command in a process that is killed at the end; return it once it has recorded
        what it is about to send."""
        command = [sys.executable, "-m", "tidegate", *self.command]
        process = GuardedProcess(command, self.log, name="redrive")
        try:
            wait_until(self.intends, timeout=120, event="the intent", process=process)
            process.require_alive()
            yield process
        finally:
            process.kill()

    def intends(self) -> bool:
        """Return whether the command has recorded what it is about to send."""
        return bool(written(Path(f"{self.path}.dead_letters.redriven") / "_delta_log"))

    def require_each_once(self) -> None:
        """Run the job on the redriven records, and require each letter once."""
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
    code, output = invoke(*redrive.command)
    assert (code, "0 remain in" in output) == (0, True), output
    redrive.require_each_once()


@pytest.mark.timeout(300)
def test_a_redrive_paused_while_another_ran_sends_no_more_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    redrive = Redrive(broker, topic, tmp_path, spark)
    with redrive.sending() as process:
        os.killpg(process.pid, signal.SIGSTOP)
        code, output = invoke(*redrive.command)
        assert (code, "0 remain in" in output) == (0, True), output
        os.killpg(process.pid, signal.SIGCONT)
        wait_until(lambda: not process.is_alive, timeout=120, event="the end of the first one")
    redrive.require_each_once()


@pytest.mark.timeout(600)
@pytest.mark.draws(
    "steps",
    short=[(SENT_NOT_LOGGED,)],
    long=[(SENDING, SETTLED, SENT_NOT_LOGGED, NOT_SETTLED, SETTLED)],
    ids=lambda steps: f"{len(steps)} kills",
)
def test_a_redrive_that_is_killed_at_each_step_sends_each_letter_once(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    redrive = Redrive(broker, topic, tmp_path, spark)
    for step in steps:
        kill_at(step, *redrive.command, log=redrive.log)
    code, output = invoke(*redrive.command)
    assert (code, "0 remain in" in output) == (0, True), output
    redrive.require_each_once()
