"""A driver that pauses at any step, while another driver starts and finishes the batch: the first
one is fenced, and no row is lost or written twice."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, Event

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from tests.support.killed_steps import AFTER_TARGET, kill_at
from tests.support.record_rounds import Rounds
from tidegate import Job, run
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.delta_commit import DeltaCommitter
from tidegate.commit.driver_lease import DriverLease
from tidegate.engine.micro_batch import BatchSteps, MicroBatchProcessor
from tidegate.engine.runner import _StreamingJob
from tidegate.errors import ConflictError, FencedError
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(900)]

SEED = 61
DRIVER = """
import sys, time
from pathlib import Path

from tests.support.record_rounds import windows_job
from tidegate import run, spark_session
from tidegate.process.exit_codes import run_with_exit_code

servers, topic, root, signals = sys.argv[1:]
spark = spark_session("local[2]")
job = windows_job(servers, topic, Path(root))
number = 0
while True:
    if not Path(signals, f"{number}.start").exists():
        time.sleep(0.02)
        continue
    code = run_with_exit_code(lambda: run(job, spark))
    Path(signals, f"{number}.part").write_text(str(code))
    Path(signals, f"{number}.part").rename(Path(signals, f"{number}.end"))
    number += 1
"""
"""A driver that runs the job once for each file `<number>.start`, and writes its exit code."""
ONE_RUN = """
import sys
from pathlib import Path

from tests.support.record_rounds import windows_job
from tidegate import run, spark_session

servers, topic, root = sys.argv[1:]
spark = spark_session("local[2]")
run(windows_job(servers, topic, Path(root)), spark)
"""


@dataclass(frozen=True)
class Pause:
    """The moment before or after a call of a method, by the number of the call.

    is_claimed: whether the driver has claimed its epoch, so that another one fences it.
    """

    owner: type
    method: str
    call: int = 1
    before: bool = False
    is_claimed: bool = True

    def __str__(self) -> str:
        """Return the pause as a text for messages."""
        moment = "before" if self.before else "after"
        return f"{moment} {self.owner.__name__}.{self.method} {self.call}"


PAUSES = [
    Pause(DriverLease, "acquire", before=True, is_claimed=False),
    Pause(DriverLease, "acquire"),
    *(Pause(LineageFiles, "write", call, before) for call in (1, 2) for before in (True, False)),
    Pause(_StreamingJob, "_start_query", before=True),
    Pause(MicroBatchProcessor, "process", before=True),
    Pause(MicroBatchProcessor, "_read_plan"),
    Pause(BatchSteps, "verify"),
    # Each commit verifies the epoch before its write, and again in its open transaction.
    *(Pause(DriverLease, "require_newest_epoch", call) for call in range(1, 8)),
    *(Pause(DeltaCommitter, "commit", call, before=True) for call in (1, 2, 3)),
    *(Pause(DeltaCommitter, "commit", call) for call in (1, 2, 3)),
    Pause(DriverLease, "record_batch", before=True),
    Pause(DriverLease, "record_batch"),
    Pause(MicroBatchProcessor, "process"),
]


class OtherDriver:
    """A driver in another process, which runs the job when it is asked to."""

    def __init__(self, process: GuardedProcess, signals: Path) -> None:
        self._process, self._signals, self._runs = process, signals, 0

    def start(self) -> Callable[[], int]:
        """Start the job; return a function that waits for its end and returns the exit code."""
        end = self._signals / f"{self._runs}.end"
        (self._signals / f"{self._runs}.start").touch()
        self._runs += 1

        def wait() -> int:
            wait_until(end.exists, timeout=240, event="the end", process=self._process)
            return int(end.read_text())

        return wait

    def log(self) -> str:
        """Return the last lines of the output."""
        return self._process.tail(30)


@contextmanager
def other_driver(rounds: Rounds, name: str = "other") -> Iterator[OtherDriver]:
    """Start the process of another driver, which ends with the block."""
    signals = rounds.root / f"{name}.signals"
    signals.mkdir()
    process = GuardedProcess(
        [sys.executable, "-c", DRIVER, rounds.broker.bootstrap_servers, rounds.topic,
         str(rounds.root), str(signals)],
        rounds.root / f"{name}.log",
        name=f"the driver {name}",
        env=submit_environment({"PYTHONPATH": str(project_root())}),
    )  # fmt: skip
    try:
        yield OtherDriver(process, signals)
    finally:
        process.kill()


class Driver:
    """A driver in a thread of this process."""

    def __init__(self, job: Job, spark: SparkSession, barrier: Barrier | None = None) -> None:
        self.error: BaseException | None = None
        self._barrier = barrier
        self._thread = InheritableThread(target=self._run, args=(job, spark), session=spark)
        self._thread.start()

    def _run(self, job: Job, spark: SparkSession) -> None:
        try:
            if self._barrier is not None:
                self._barrier.wait()
            run(job, spark)
        except Exception as error:
            self.error = error

    def wait(self) -> None:
        """Wait for the end of the run."""
        self._thread.join(240)
        assert not self._thread.is_alive()


@contextmanager
def pausing(pause: Pause, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, Event]]:
    """Stop the thread that reaches a moment; return the events of its pause and of its end."""
    is_paused, may_continue = Event(), Event()
    original, calls = getattr(pause.owner, pause.method), 0

    def wait() -> None:
        is_paused.set()
        assert may_continue.wait(240)

    def call_or_pause(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        is_reached = calls == pause.call
        if is_reached and pause.before:
            wait()
        result = original(*arguments, **named)
        if is_reached and not pause.before:
            wait()
        return result

    is_bound = isinstance(vars(pause.owner)[pause.method], classmethod)
    replacement = staticmethod(call_or_pause) if is_bound else call_or_pause
    with monkeypatch.context() as patch:
        patch.setattr(pause.owner, pause.method, replacement)
        try:
            yield is_paused, may_continue
        finally:
            may_continue.set()


PARTS = [PAUSES[start : start + 5] for start in range(0, len(PAUSES), 5)]
"""All pauses, in parts that end within the time limit of a test."""


def pause_then_resume(
    pause: Pause, rounds: Rounds, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]
) -> None:
    """Run the job with a pause during which another driver runs; require that it is fenced."""
    with pausing(pause, monkeypatch) as (is_paused, may_continue):
        driver = Driver(rounds.job, rounds.spark)
        wait_until(
            lambda: is_paused.is_set() or not driver._thread.is_alive(),
            timeout=240,
            event=f"the pause {pause}",
        )
        assert is_paused.is_set(), f"{pause} was not reached: {driver.error}"
        meanwhile()
        # A driver that has not started its query yet plans these records.
        rounds.add()
        may_continue.set()
        driver.wait()
    is_fenced = isinstance(driver.error, FencedError)
    assert is_fenced if pause.is_claimed else driver.error is None, f"{pause}: {driver.error!r}"
    run(rounds.job, rounds.spark)
    rounds.require_each_once()


@pytest.mark.draws(
    "pauses",
    short=[random.Random(SEED).sample(PAUSES, 3)],
    long=PARTS,
    ids=lambda pauses: str(pauses[0]),
)
def test_a_driver_that_pauses_while_another_one_finishes_its_batch_is_fenced(
    pauses: list[Pause],
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    print(f"seed {SEED}: pauses {', '.join(map(str, pauses))}")
    with other_driver(rounds) as other:

        def finish() -> None:
            assert other.start()() == 0, other.log()

        for pause in pauses:
            rounds.add()
            pause_then_resume(pause, rounds, monkeypatch, finish)


@pytest.mark.draws(
    "pauses",
    short=[random.Random(SEED + 1).sample(PAUSES, 1)],
    long=PARTS,
    ids=lambda pauses: str(pauses[0]),
)
def test_a_driver_that_pauses_while_a_second_one_is_killed_and_a_third_one_finishes_is_fenced(
    pauses: list[Pause],
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    arguments = [broker.bootstrap_servers, topic, str(tmp_path)]
    print(f"seed {SEED + 1}: pauses {', '.join(map(str, pauses))}")
    with other_driver(rounds) as third:

        def kill_and_finish() -> None:
            kill_at(AFTER_TARGET, *arguments, log=tmp_path / "second.log", program=ONE_RUN)
            assert third.start()() == 0, third.log()

        for pause in pauses:
            rounds.add()
            pause_then_resume(pause, rounds, monkeypatch, kill_and_finish)


def test_four_processes_that_start_at_the_same_instant_write_each_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    with ExitStack() as processes:
        drivers = [
            processes.enter_context(other_driver(rounds, f"driver {number}")) for number in range(4)
        ]
        for driver in drivers:
            # Without records: the session of each process is ready then.
            assert driver.start()() == 0, driver.log()
        rounds.add()
        ends = [driver.start() for driver in drivers]
        codes = [end() for end in ends]
        assert set(codes) <= {0, 8, 9}, codes
        assert 0 in codes, codes
        rounds.add()
        assert drivers[0].start()() == 0, drivers[0].log()
    rounds.require_each_once()


def test_four_drivers_that_start_at_the_same_instant_write_each_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    with other_driver(rounds) as other:
        assert other.start()() == 0, other.log()
        rounds.add()
        barrier = Barrier(4)
        drivers = [Driver(rounds.job, spark, barrier) for _ in range(3)]
        barrier.wait()
        end_of_other = other.start()
        for driver in drivers:
            driver.wait()
            assert driver.error is None or isinstance(driver.error, FencedError | ConflictError)
        assert end_of_other() in (0, 8, 9), other.log()
        # Spark may not start the query again in the process of the threads.
        rounds.add()
        assert other.start()() == 0, other.log()
    rounds.require_each_once()
