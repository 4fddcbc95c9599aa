"""Several writes at once, each in a thread of its own, beside what goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ..jvm import close_connection
from .batch import Batch


class Aside(InheritableThread):
    """A write in another thread, with its failure."""

    def __init__(self, write: Callable[[], object], spark: SparkSession) -> None:
        super().__init__(self._run_write, session=spark)
        self._write = write
        self._spark = spark
        self.failure: BaseException | None = None

    def _run_write(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.failure = error
        finally:
            close_connection(self._spark)


@contextmanager
def committed_before(
    batch: Batch, spark: SparkSession, writes: Sequence[Callable[[], object]]
) -> Iterator[Batch]:
    """Do all writes while the block runs, as `under_way` does.

    Yields the batch by which the block makes its commits, each of them after those of the writes.
    """
    if not writes:
        yield batch
        return
    with under_way(spark, writes) as ended:
        yield replace(batch, ahead=ended)


@contextmanager
def under_way(
    spark: SparkSession, writes: Sequence[Callable[[], object]]
) -> Iterator[Callable[[], None]]:
    """Do all writes while the block runs, whose end waits for them.

    Yields what returns once all of them have ended, and raises what one of them raised, of several
    the first. The end of the block raises it too.

    Each must be to a table of its own, and right wherever the others fail. Their Spark jobs are
    those of this thread's query, so that what stops it stops them.
    """
    threads = [Aside(write, spark) for write in writes]

    def ended() -> None:
        for thread in threads:
            thread.join()
        for thread in threads:
            if thread.failure is not None:
                raise thread.failure

    for thread in threads:
        thread.start()
    try:
        yield ended
    finally:
        for thread in threads:
            thread.join()
    ended()
