"""Stopping a job: the first signal lets the running batch finish, a second one ends it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNAL_ECHO_SECONDS = 1.0


class ForcedStop(BaseException):
    """A second signal: the job ends without waiting for its batch."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by a second {signal.Signals(signal_number).name}")


class StopRequestedError(Exception):
    """A batch was about to start after a stop request; it has not written anything."""


class Stop:
    """A stop request, and the batch that is running.

    A signal often arrives twice within a moment, once for the process and once for its group or
    through the JVM; only a signal a second or more after the first counts as the second.

    >>> stop = Stop()
    >>> stop.request()
    >>> stop.is_requested
    True
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._requested_at: float | None = None
        self._batch_lock = threading.Lock()
        self.current_batch: int | None = None

    @property
    def is_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requested_at is not None

    def request(self, signal_number: int = signal.SIGTERM) -> None:
        """Request a stop; raise ForcedStop if it is the second request after a second or more."""
        # Runs inside a signal handler: it must take no lock.
        if self._requested_at is None:
            self._requested_at = self._clock()
        elif self._clock() - self._requested_at >= _SIGNAL_ECHO_SECONDS:
            raise ForcedStop(signal_number)

    def request_from_thread(self, signal_number: int) -> None:
        """Request a stop outside of the main thread; a second request ends the process."""
        try:
            self.request(signal_number)
        except ForcedStop:
            exit_now(128 + signal_number)

    @contextmanager
    def track_batch(self, batch: int) -> Iterator[None]:
        """Mark a batch as running.

        Raises StopRequestedError if a stop was requested before the batch.
        """
        if self.is_requested:
            raise StopRequestedError
        with self._batch_lock:
            self.current_batch = batch
            yield

    def wait_for_batch(self, seconds: float) -> bool:
        """Wait up to `seconds` for the running batch; return whether it has ended."""
        acquired = self._batch_lock.acquire(timeout=seconds)
        if acquired:
            self._batch_lock.release()
        return acquired


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into stop requests while the block runs.

    Python delivers signals to the main thread only; in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signal_number: int, _frame: FrameType | None) -> None:
        stop.request(signal_number)

    signals = (signal.SIGTERM, signal.SIGINT)
    previous_handlers = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Raise a Ctrl-C of the block at its end; a second one ends the process at once.

    While PySpark starts a JVM, a KeyboardInterrupt would leave it behind, with a trace of Java.
    Python delivers signals to the main thread only; in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_interrupted = False

    def handle(signal_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            exit_now(128 + signal_number)
        is_interrupted = True

    previous_handler = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        # SparkContext sets a handler of its own.
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, previous_handler)
    if is_interrupted:
        raise KeyboardInterrupt


def exit_on_interrupt() -> None:
    """Let a Ctrl-C end the process at once, with one line, until another handler is set.

    PySpark's handler calls the JVM, perhaps within another call, and prints their traces.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _exit_interrupted)


def _exit_interrupted(signal_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"KeyboardInterrupt: stopped by Ctrl-C\n")
    exit_now(128 + signal_number)


def exit_now(code: int) -> None:
    """End the process immediately; a busy JVM would delay a normal exit."""
    os._exit(code)
