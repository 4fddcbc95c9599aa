"""Signals that the JVM gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .session import java_class


class SignalHandler:
    """A sun.misc.SignalHandler that calls Python with the signal's number."""

    def __init__(self, action: Callable[[int], None]) -> None:
        self._action = action

    def handle(self, number: Any) -> None:
        """Called by the JVM."""
        self._action(int(number.getNumber()))

    class Java:
        """What py4j asks for."""

        implements = ("sun.misc.SignalHandler",)


@contextmanager
def jvm_signals(
    spark: SparkSession, names: tuple[str, ...], action: Callable[[int], None]
) -> Iterator[None]:
    """Let Python decide on signals that the JVM gets, such as ("TERM", "INT"), in the block.

    Under spark-submit the JVM is the parent, and a signal to the whole process group reaches it as
    well: by itself it would stop Spark in the middle of a batch. `action` runs in a thread of its
    own.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    signals = java_class(spark, "sun.misc.Signal")
    handler = SignalHandler(action)
    before = [(signals(name), signals.handle(signals(name), handler)) for name in names]
    try:
        yield
    finally:
        for name, old in before:
            signals.handle(name, old)
