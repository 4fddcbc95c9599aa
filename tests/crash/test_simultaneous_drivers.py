"""Two drivers that start at the same instant on one checkpoint: the later one continues."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.errors import FencedError
from tidegate.process.exit_codes import EXIT_CODES, SUCCESS
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash]

DRIVER = """
import sys, time
from pathlib import Path
from threading import Thread

from tests.support.kafka_topics import pages_input
from tidegate import Job, run, spark_session
from tidegate.engine import runner
from tidegate.process.exit_codes import run_with_exit_code
from tidegate.sinks import Append

servers, topic, root, name = sys.argv[1:]
root = Path(root)
spark = spark_session("local[1]")
job_sessions = []
start_query = runner._StreamingJob._start_query

def start_at_signal(streaming_job, *arguments):
    job_sessions.append(streaming_job.spark)
    (root / f"{name}.ready").touch()
    while not (root / f"{name}.go").exists():
        time.sleep(0.01)
    return start_query(streaming_job, *arguments)

def report_planning():
    while not any(
        "offsets" in query.status["message"]
        for session in job_sessions
        for query in session.streams.active
    ):
        time.sleep(0.01)
    (root / f"{name}.planning").touch()

runner._StreamingJob._start_query = start_at_signal
Thread(target=report_planning, daemon=True).start()
job = Job(
    name="pages",
    inputs={"pages": pages_input(servers, topic, max_records=2)},
    sink=Append(str(root / "pages")),
)
sys.exit(run_with_exit_code(lambda: run(job, spark)))
"""


def test_the_later_of_two_drivers_continues_after_the_earlier_one_has_planned_its_batch(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    with Broker.start() as broker:
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, topic, [1, 2, 3, 4, 5])
        checkpoint = tmp_path / "pages.checkpoint"

        def start(name: str) -> GuardedProcess:
            driver = GuardedProcess(
                [
                    sys.executable,
                    "-c",
                    DRIVER,
                    broker.bootstrap_servers,
                    topic,
                    str(tmp_path),
                    name,
                ],
                tmp_path / f"{name}.log",
                name=name,
                env=submit_environment({"PYTHONPATH": str(project_root())}),
            )
            wait_for(tmp_path / f"{name}.ready", driver)
            return driver

        earlier = start("earlier")
        later = start("later")
        assert LineageFiles(spark, str(checkpoint)).newest_epoch() == 2
        # Both queries wait for the offsets of the stopped broker, after they have read the plans.
        os.kill(broker_pid(broker), signal.SIGSTOP)
        try:
            for driver in (earlier, later):
                (tmp_path / f"{driver.name}.go").touch()
                wait_for(tmp_path / f"{driver.name}.planning", driver)
            os.killpg(later.pid, signal.SIGSTOP)
        finally:
            os.kill(broker_pid(broker), signal.SIGCONT)
        wait_for(checkpoint / "offsets" / "0", earlier)
        os.killpg(later.pid, signal.SIGCONT)
        wait_until(
            lambda: not earlier.is_alive and not later.is_alive,
            timeout=180,
            event="the end of both drivers",
        )
    assert earlier.exit_code == EXIT_CODES[FencedError][0], earlier.tail(40)
    assert later.exit_code == SUCCESS, later.tail(40)
    assert sorted(row["event_time"].second for row in rows(tmp_path / "pages")) == [1, 2, 3, 4, 5]
    assert batches(tmp_path, "pages") == [0, 1, 2]


def wait_for(file: Path, driver: GuardedProcess) -> None:
    wait_until(file.exists, timeout=120, event=str(file), process=driver)


def broker_pid(broker: Broker) -> int:
    """Return the process id of the broker."""
    assert broker._process is not None
    return broker._process.pid
