"""Signals stop a job between its batches."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.process.shutdown import ForcedStop, Stop, StopRequestedError, stop_on_signals
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.transform import Stateless


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_signal_requests_a_stop_and_its_echo_is_ignored() -> None:
    clock = Clock()
    stop = Stop(clock)
    stop.request()
    clock.now = 0.5
    stop.request()
    assert stop.is_requested


def test_a_second_signal_stops_at_once() -> None:
    clock = Clock()
    stop = Stop(clock)
    stop.request(signal.SIGINT)
    clock.now = 2.0
    with pytest.raises(ForcedStop) as raised:
        stop.request(signal.SIGINT)
    assert raised.value.signal_number == signal.SIGINT


def test_no_batch_starts_after_a_stop_request() -> None:
    stop = Stop()
    stop.request()
    with pytest.raises(StopRequestedError), stop.track_batch(3):
        pytest.fail("the batch started")
    assert stop.current_batch is None


def test_waiting_ends_when_the_batch_ends() -> None:
    stop, started, finish = Stop(), threading.Event(), threading.Event()

    def work() -> None:
        with stop.track_batch(7):
            started.set()
            finish.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(10)
    assert not stop.wait_for_batch(0.01)
    finish.set()
    assert stop.wait_for_batch(10)
    assert stop.current_batch == 7
    thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_request_a_stop_and_the_previous_handlers_are_restored(
    number: signal.Signals,
) -> None:
    before, stop = signal.getsignal(number), Stop()
    with stop_on_signals(stop):
        os.kill(os.getpid(), number)
        assert stop.is_requested
    assert signal.getsignal(number) is before


@pytest.mark.broker
def test_a_job_stopped_before_its_query_starts_writes_nothing_and_resumes_later(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2, 3])

    def run_job(stop: Stop, rows: Callable[[DataFrame], DataFrame]) -> tuple[bool, int]:
        job = Job(
            name="stopped",
            inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
            transform=Stateless(rows),
            sink=Append(str(tmp_path / "pages")),
        )
        summary = run(job, spark, stop=stop)
        return summary.stopped, summary.rows_in

    def request_stop(rows: DataFrame) -> DataFrame:
        late.request()
        return rows

    early, late = Stop(), Stop()
    early.request()
    assert run_job(early, unchanged) == (True, 0)
    # The transform runs before the query starts; its first batch sees the stop request.
    assert run_job(late, request_stop) == (True, 0)
    assert not (tmp_path / "pages").exists()
    assert run_job(Stop(), unchanged) == (False, 3)
    assert len(rows(tmp_path / "pages")) == 3


def unchanged(rows: DataFrame) -> DataFrame:
    return rows
