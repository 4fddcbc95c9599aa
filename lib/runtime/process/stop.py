"""Stopping a job: one signal lets the running batch finish, a second ends the job at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ECHO_SECONDS = 1.0


class Interrupted(BaseException):
    """A second signal: the job ends without waiting for its batch."""

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"stopped at once by a second {signal.Signals(number).name}")


class StopAskedError(Exception):
    """A batch was about to begin after the stop was asked for; nothing of it has been written."""


class Stop:
    """Whether a stop was asked for, and which batch is under way.

    The same signal often comes twice within a moment, once to the process and once to its group or
    through the JVM; only one that comes a second or more after the first counts as the second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked_at: float | None = None
        self._open = threading.Lock()
        self.batch: int | None = None

    @property
    def asked(self) -> bool:
        """Whether the job is to stop."""
        return self._asked_at is not None

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Ask for the stop; the second time, a second or more later, raises Interrupted."""
        # Runs inside a signal handler: it must take no lock.
        if self._asked_at is None:
            self._asked_at = self._clock()
        elif self._clock() - self._asked_at >= _ECHO_SECONDS:
            raise Interrupted(number)

    def tell(self, number: int) -> None:
        """Ask for the stop from a thread that cannot raise in the main one.

        The second time the process ends.
        """
        try:
            self.ask(number)
        except Interrupted:
            leave(128 + number)

    @contextmanager
    def during(self, batch: int) -> Iterator[None]:
        """Mark a batch as under way.

        Raises StopAskedError if the job is to stop before the batch begins.
        """
        if self.asked:
            raise StopAskedError
        with self._open:
            self.batch = batch
            yield

    def wait(self, seconds: float) -> bool:
        """Wait for the batch that is under way, at most so long; say whether none is."""
        free = self._open.acquire(timeout=seconds)
        if free:
            self._open.release()
        return free


@contextmanager
def on_signals(stop: Stop) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into requests to stop, for as long as the block runs.

    Signals reach Python's main thread only; from any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        stop.ask(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(code: int) -> None:
    """End the process with this code now.

    A JVM that is still busy would hold an ordinary exit back.
    """
    os._exit(code)
