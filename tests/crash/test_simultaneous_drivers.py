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
from tests.support.kafka_topics import pages_input, send_records
from tests.support.pair_jobs import (
    IDS,
    Build,
    create_topics,
    expected,
    join_job,
    pairs,
    send,
    view_job,
)
from tidegate import Job
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.errors import FencedError
from tidegate.process.exit_codes import EXIT_CODES, SUCCESS
from tidegate.sinks import Append
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash]

DRIVER = """
import sys, time
from pathlib import Path
from threading import Thread

from tests.crash.test_simultaneous_drivers import JOBS
from tidegate import run, spark_session
from tidegate.engine import runner
from tidegate.process.exit_codes import run_with_exit_code

job_name, servers, topic, root, name = sys.argv[1:]
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
job = JOBS[job_name](servers, topic, root)
sys.exit(run_with_exit_code(lambda: run(job, spark)))
"""


def pages_job(servers: str, topic: str, root: Path) -> Job:
    """Return a job that appends page views, two records a batch."""
    inputs = {"pages": pages_input(servers, topic, max_records=2)}
    return Job(name="pages", inputs=inputs, sink=Append(str(root / "pages")))


JOBS: dict[str, Build] = {"pages": pages_job, "join": join_job, "view": view_job}


def test_the_later_of_two_drivers_continues_after_the_earlier_one_has_planned_its_batch(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    with Broker.start() as broker:
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, topic, [1, 2, 3, 4, 5])
        run_in_two_drivers("pages", spark, broker, topic, tmp_path)
    assert sorted(row["event_time"].second for row in rows(tmp_path / "pages")) == [1, 2, 3, 4, 5]
    assert batches(tmp_path, "pages") == [0, 1, 2]


@pytest.mark.parametrize("kind", ["join", "view"])
def test_the_later_driver_of_a_join_and_of_a_view_writes_each_pair_once(
    kind: str, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    with Broker.start() as broker:
        create_topics(broker, topic)
        send(broker.bootstrap_servers, topic, IDS)
        job = run_in_two_drivers(kind, spark, broker, topic, tmp_path)
    assert pairs(tmp_path) == expected(IDS)
    for path, _ in job.sink.tables():
        written = batches(tmp_path, Path(path).name)
        assert written == sorted(set(written)), f"{path} has a batch twice: {written}"


def run_in_two_drivers(
    kind: str, spark: SparkSession, broker: Broker, topic: str, root: Path
) -> Job:
    """Run a job in two drivers, and stop the later one until the earlier one has planned its batch;
    require that only the later one ends without an error."""
    job = JOBS[kind](broker.bootstrap_servers, topic, root)
    checkpoint = Path(job.locations.checkpoint)

    def start(name: str) -> GuardedProcess:
        arguments = [kind, broker.bootstrap_servers, topic, str(root), name]
        driver = GuardedProcess(
            [sys.executable, "-c", DRIVER, *arguments],
            root / f"{name}.log",
            name=name,
            env=submit_environment({"PYTHONPATH": str(project_root())}),
        )
        wait_for(root / f"{name}.ready", driver)
        return driver

    earlier = start("earlier")
    later = start("later")
    assert LineageFiles(spark, str(checkpoint)).newest_epoch() == 2
    # Both queries wait for the offsets of the stopped broker, after they have read the plans.
    os.kill(broker_pid(broker), signal.SIGSTOP)
    try:
        for driver in (earlier, later):
            (root / f"{driver.name}.go").touch()
            wait_for(root / f"{driver.name}.planning", driver)
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
    return job


def wait_for(file: Path, driver: GuardedProcess) -> None:
    wait_until(file.exists, timeout=120, event=str(file), process=driver)


def broker_pid(broker: Broker) -> int:
    """Return the process id of the broker."""
    assert broker._process is not None
    return broker._process.pid
