"""Drivers and a broker whose clocks are more than a year wrong: the tables do not depend on them.

libfaketime shifts the clock of a process by a constant. With another clock that jumps during a run,
the JVM would wait by its monotonic clock, which libfaketime shifts too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.killed_steps import AFTER_TARGET, kill_at
from tests.support.record_rounds import Rounds
from tidegate import run
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
SECONDS_PER_DAY = 86_400
pytestmark = [
    pytest.mark.broker,
    pytest.mark.crash,
    pytest.mark.timeout(900),
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed"),
]

PROGRAM = """
import sys, time
from pathlib import Path

from tests.support.record_rounds import windows_job
from tidegate import run, spark_session
from tidegate.process.exit_codes import run_with_exit_code

servers, topic, root = sys.argv[1:]
spark = spark_session("local[2]", conf={"spark.sql.shuffle.partitions": "2"})
millis = spark._jvm.java.lang.System.currentTimeMillis()
Path(root, "clock").write_text(f"{time.time()} {millis / 1000}")
job = windows_job(servers, topic, Path(root))
sys.exit(run_with_exit_code(lambda: run(job, spark)))
"""
"""A driver that writes what time it is for Python and for Java, and runs the job once."""


def clock(days: int) -> dict[str, str]:
    """Return the environment of a process whose clock is shifted."""
    return {"LD_PRELOAD": str(LIBRARY), "FAKETIME": f"{days:+d}d", "NO_FAKE_STAT": "1"}


def require_clock(rounds: Rounds, days: int) -> None:
    """Require that the last driver had the shifted clock."""
    for seconds in (rounds.root / "clock").read_text().split():
        assert abs(float(seconds) - time.time() - days * SECONDS_PER_DAY) < 3_600


def test_drivers_with_other_clocks_finish_the_batch_of_a_killed_one(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    arguments = [broker.bootstrap_servers, topic, str(tmp_path)]
    log = tmp_path / "drivers.log"
    # Each driver finishes the batch that the one before it, whose clock is another, has written.
    for days in (400, -400, 12_000):
        rounds.add()
        kill_at(AFTER_TARGET, *arguments, log=log, program=PROGRAM, env=clock(days))
        require_clock(rounds, days)
    # Delta writes a checkpoint of each table and removes old log files on the way.
    rounds.add()
    driver = GuardedProcess(
        [sys.executable, "-c", PROGRAM, *arguments],
        log,
        name="the last driver",
        env=submit_environment({"PYTHONPATH": str(project_root()), **clock(800)}),
    )
    try:
        wait_until(lambda: not driver.is_alive, timeout=240, event="the end of the driver")
    finally:
        driver.kill()
    assert driver.exit_code == 0, driver.tail(40)
    require_clock(rounds, 800)
    rounds.add()
    run(rounds.job, spark)
    rounds.require_each_once()


@pytest.mark.parametrize("days", [400, -400])
def test_a_broker_whose_clock_jumps_loses_no_records(
    days: int, spark: SparkSession, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker.start() as broker:
        rounds = Rounds(spark, broker, topic, tmp_path)
        rounds.add()
        broker.kill()
        with monkeypatch.context() as environment:
            for name, value in clock(days).items():
                environment.setenv(name, value)
            broker.restart()
        run(rounds.job, spark)
        broker.kill()
        broker.restart()
        rounds.add()
        run(rounds.job, spark)
        rounds.require_each_once()
