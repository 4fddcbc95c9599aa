"""Several writes at once, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark import InheritableThread
from pyspark.sql import SparkSession


class _Aside(InheritableThread):
    """A write in another thread, with its failure."""

    def __init__(self, write: Callable[[], object], spark: SparkSession) -> None:
        super().__init__(self._run_write, session=spark)
        self._write = write
        self.failure: BaseException | None = None

    def _run_write(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.failure = error


def side_by_side(spark: SparkSession, writes: Sequence[Callable[[], object]]) -> None:
    """Do all writes at once, the first in this thread; return when all have ended.

    Each must be to a table of its own, and right wherever the others fail. Their Spark jobs are
    those of this thread's query, so that what stops it stops them. What a write raised is raised
    here, of several the first.
    """
    if not writes:
        return
    first, *others = writes
    threads = [_Aside(write, spark) for write in others]
    for thread in threads:
        thread.start()
    try:
        first()
    finally:
        for thread in threads:
            thread.join()
    for thread in threads:
        if thread.failure is not None:
            raise thread.failure
