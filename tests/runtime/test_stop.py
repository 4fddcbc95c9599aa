"""A job that is asked to stop by signals, between its batches."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.stop import Interrupted, Stop, StopAskedError, on_signals
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.transform import Stateless

from ..tables import rows
from .topics import reading, sent


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_signal_asks_and_its_echo_does_nothing() -> None:
    clock = Clock()
    stop = Stop(clock)
    stop.ask()
    clock.now = 0.5
    stop.ask()
    assert stop.asked


def test_a_second_signal_interrupts() -> None:
    clock = Clock()
    stop = Stop(clock)
    stop.ask(signal.SIGINT)
    clock.now = 2.0
    with pytest.raises(Interrupted) as told:
        stop.ask(signal.SIGINT)
    assert told.value.signal == signal.SIGINT


def test_no_batch_begins_after_the_stop_was_asked_for() -> None:
    stop = Stop()
    stop.ask()
    with pytest.raises(StopAskedError), stop.during(3):
        pytest.fail("the batch began")
    assert stop.batch is None


def test_waiting_ends_when_the_batch_ends() -> None:
    stop, inside, leave = Stop(), threading.Event(), threading.Event()

    def work() -> None:
        with stop.during(7):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    assert not stop.wait(0.01)
    leave.set()
    assert stop.wait(10)
    assert stop.batch == 7
    thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_become_requests_and_the_old_handlers_come_back(number: signal.Signals) -> None:
    before, stop = signal.getsignal(number), Stop()
    with on_signals(stop):
        os.kill(os.getpid(), number)
        assert stop.asked
    assert signal.getsignal(number) is before


@pytest.mark.broker
def test_a_job_that_is_to_stop_before_its_query_has_started_writes_nothing_and_goes_on_later(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 2, 3])

    def ran(stop: Stop, rows: Callable[[DataFrame], DataFrame]) -> tuple[bool, int]:
        job = Job(
            name="stopped",
            inputs={"pages": Input(reading(broker.servers, topic))},
            transform=Stateless(rows),
            sink=Append(str(tmp_path / "pages")),
        )
        done = run(job, spark, stop=stop)
        return done.stopped, done.rows_in

    def asked(rows: DataFrame) -> DataFrame:
        late.ask()
        return rows

    early, late = Stop(), Stop()
    early.ask()
    assert ran(early, same) == (True, 0)
    # The query is made after that, and finds the stop with its first batch.
    assert ran(late, asked) == (True, 0)
    assert not (tmp_path / "pages").exists()
    assert ran(Stop(), same) == (False, 3)
    assert len(rows(tmp_path / "pages")) == 3


def same(rows: DataFrame) -> DataFrame:
    return rows
