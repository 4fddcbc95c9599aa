"""A batch for which the memory does not suffice: Spark repeats its tasks, or the job ends with the
settings to raise, and continues with more memory."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.errors import SetupError
from tidegate.process.exit_codes import EXIT_CODES
from tidegate.sinks import Append
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.crash, pytest.mark.timeout(600)]

SECONDS = range(40)
TOO_MANY = 900_000_000
PROGRAM = """
import sys
from pathlib import Path

from tests.crash.test_out_of_memory import copying_job
from tidegate import run, spark_session
from tidegate.process.exit_codes import run_with_exit_code

servers, topic, root, master, copies, attempts = sys.argv[1:]
conf = {"spark.executor.memory": "512m", "spark.task.maxFailures": attempts}
spark = spark_session("copies", master=master, conf=conf)
job = copying_job(servers, topic, Path(root), int(copies))
sys.exit(run_with_exit_code(lambda: run(job, spark)))
"""


def copying_job(servers: str, topic: str, root: Path, copies: int) -> Job:
    """Return a job that copies a topic, ten records a batch; from second 20 on, the first attempt
    of a task repeats each name as often."""
    return Job(
        name="copies",
        inputs={"pages": pages_input(servers, topic, max_records=10)},
        sink=Append(str(root / "copies")),
        each_batch=partial(_with_repeated_names, copies=copies),
    )


def _with_repeated_names(frame: DataFrame, *, copies: int) -> DataFrame:
    @F.udf(returnType="int", useArrow=False)
    def times_of_attempt(second: int) -> int:
        task = TaskContext.get()
        return copies if second >= 20 and task is not None and task.attemptNumber() == 0 else 1

    times = times_of_attempt(F.second("event_time"))
    return frame.withColumn("page", F.substring(F.repeat("page", times), 1, 2))


def ended_process(
    broker: Broker, topic: str, root: Path, master: str, attempts: int
) -> GuardedProcess:
    """Run the job in a process until it ends.

    attempts: how often Spark tries a task.
    """
    arguments = [broker.bootstrap_servers, topic, root, master, TOO_MANY, attempts]
    process = GuardedProcess(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        root / "log",
        name="the job",
        env=submit_environment({"PYTHONPATH": str(project_root())}),
    )
    try:
        wait_until(lambda: not process.is_alive, timeout=400, event="the end of the job")
    finally:
        process.kill()
    return process


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_a_job_out_of_memory_names_the_settings_to_raise_and_continues_with_more(
    master: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, SECONDS)
    process = ended_process(broker, topic, tmp_path, master, attempts=1)
    assert process.exit_code == EXIT_CODES[SetupError][0], process.tail(40)
    # The JVM can still write its own log after the error of the job.
    output = process.log.read_text()
    assert "SetupError: Spark ran out of memory" in output, output
    assert "raise spark.executor.memory, or spark.driver.memory" in output
    assert batches(tmp_path, "copies") == [0, 1]
    run(copying_job(broker.bootstrap_servers, topic, tmp_path, 1), spark)
    assert sorted(row["event_time"].second for row in rows(tmp_path / "copies")) == [*SECONDS]
    assert {row["page"] for row in rows(tmp_path / "copies")} == {"p0"}


def test_a_task_that_spark_repeats_after_its_executor_ran_out_of_memory_writes_each_row_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, SECONDS)
    process = ended_process(broker, topic, tmp_path, "local-cluster[1,1,1024]", attempts=4)
    assert process.exit_code == 0, process.tail(40)
    # The exit code of an executor that ran out of memory.
    assert "Lost executor 1" in process.log.read_text()
    assert "exited with code 52" in process.log.read_text()
    assert batches(tmp_path, "copies") == [0, 1, 2, 3]
    assert sorted(row["event_time"].second for row in rows(tmp_path / "copies")) == [*SECONDS]
    assert {row["page"] for row in rows(tmp_path / "copies")} == {"p0"}
