"""A job that is asked to stop by signals, between its batches."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tidegate.runtime.process.stop import Interrupted, Stop, StopAskedError, on_signals


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
