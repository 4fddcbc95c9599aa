"""Writes in background threads, and a write that waits for the checks of its batch.

Rows that can be read only once are not cached: a thread writes them at once, and its commit waits
until the batch is counted and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Lock
from typing import Generic, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ..jvm import close_connection
from .batch import CommitContext, PendingWrite
from .protocol import Outcome

_Result = TypeVar("_Result")


class WriterThread(InheritableThread, Generic[_Result]):
    """A write in another thread, which stores its result or its failure."""

    def __init__(self, write: Callable[[], _Result], spark: SparkSession) -> None:
        super().__init__(self._run_write, session=spark)
        self._write = write
        self._spark = spark
        self.result: Future[_Result] = Future()

    def _run_write(self) -> None:
        try:
            self.result.set_result(self._write())
        except BaseException as error:
            self.result.set_exception(error)
        finally:
            close_connection(self._spark)


@contextmanager
def commit_after(
    batch: CommitContext, spark: SparkSession, writes: Sequence[Callable[[], object]]
) -> Iterator[CommitContext]:
    """Run all writes in the background of a block, as `run_in_background` does.

    Yields the batch for the commits of the block, each of which waits for the writes.
    """
    if not writes:
        yield batch
        return
    with run_in_background(spark, writes) as wait_for_writes:
        yield replace(batch, wait_for_prior_commits=wait_for_writes)


@contextmanager
def run_in_background(
    spark: SparkSession, writes: Sequence[Callable[[], object]]
) -> Iterator[Callable[[], None]]:
    """Run all writes in the background of a block, whose end waits for them.

    Yields a function that waits for the writes and raises the first failure among them. The end of
    the block raises it too.

    Each write needs its own table, and must be correct whether or not the others fail. Their Spark
    jobs belong to the query of this thread, so that stopping the query stops them.
    """
    threads = [WriterThread(write, spark) for write in writes]

    def wait_for_writes() -> None:
        for thread in threads:
            thread.join()
        for thread in threads:
            thread.result.result()

    for thread in threads:
        thread.start()
    try:
        yield wait_for_writes
    finally:
        for thread in threads:
            thread.join()
    wait_for_writes()


def run_concurrently(
    spark: SparkSession, calls: Sequence[Callable[[int], _Result]], max_threads: int
) -> list[_Result]:
    """Call functions in several threads, and return their results in order.

    The argument of a call is the number of its thread. After a failure no more calls start, and the
    first failure is raised once all threads have ended.
    """
    results: dict[int, _Result] = {}
    remaining = iter(list(enumerate(calls)))
    lock = Lock()
    failed = Event()

    def run_calls(number: int) -> None:
        while not failed.is_set():
            with lock:
                index, call = next(remaining, (-1, None))
            if call is None:
                return
            try:
                results[index] = call(number)
            except BaseException:
                failed.set()
                raise

    count = min(max_threads, len(calls))
    writes = [partial(run_calls, number) for number in range(count)]
    with run_in_background(spark, writes):
        pass
    return [results[index] for index in range(len(calls))]


@contextmanager
def start_pending_write(
    write: Callable[[CommitContext], Outcome], batch: CommitContext, spark: SparkSession
) -> Iterator[tuple[PendingWrite, Callable[[CommitContext], Outcome]]]:
    """Start to write a batch, which the block commits later.

    write: write a batch to one table, with one `commit_once`.

    Yields the pending write, and a function that commits the checked batch. If the block does not
    call it, nothing is committed.
    """
    pending_write = PendingWrite(batch)

    def run_write() -> Outcome:
        try:
            outcome = write(replace(batch, pending_write=pending_write))
        except BaseException as error:
            pending_write.on_write_end(error)
            raise
        pending_write.on_write_end(None)
        return outcome

    thread = WriterThread(run_write, spark)

    def commit(checked_batch: CommitContext) -> Outcome:
        pending_write.allow_commit(checked_batch)
        thread.join()
        return thread.result.result()

    thread.start()
    try:
        yield pending_write, commit
    finally:
        pending_write.refuse_commit()
        thread.join()
