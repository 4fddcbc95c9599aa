"""A write whose rows are counted as they are written, and which waits before its commit.

A batch's rows can be kept, counted, and written from where they are kept. Rows that are read once
alone are not kept: they are written at once, in a thread of their own, and what else there is to
know of the batch is found out while the commit waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from ..errors import AccountingError
from .batch import Batch
from .outcome import Outcome
from .side_by_side import Aside


class _RefusedError(Exception):
    """The batch is not to be committed; why is told elsewhere."""


class Pending:
    """A batch under way to one table, by `pending`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        """The batch, as it is known now."""
        self._written: Future[int | None] = Future()
        self._checked: Future[Batch] = Future()

    # The side of the write.

    def wait(self, rows: int) -> None:
        """Tell how many rows are written, and return once they may be committed.

        Raises AccountingError for another number than a first attempt had, which met a conflict.
        """
        if not self._written.done():
            self._written.set_result(rows)
        elif self._written.result() != rows:
            raise AccountingError(
                f"batch {self.batch.number} was read again after a conflict: {rows:,} rows, where "
                f"there were {self._written.result():,}.",
                "the same rows each time that a range of offsets is read.",
                "start the job again, which runs the batch anew.",
            )
        self.batch = self._checked.result()
        if self.batch.ahead is not None:
            self.batch.ahead()

    @property
    def counts(self) -> dict[str, int]:
        """The stamp's count of written rows, once they are written."""
        rows = self._written.result() if self._written.done() else None
        return {} if rows is None else {"out": rows}

    def ended(self, failure: BaseException | None) -> None:
        """Tell that the write is over, with its rows counted or not."""
        if self._written.done():
            return
        if failure is None:
            self._written.set_result(None)
        else:
            self._written.set_exception(failure)

    # The side of the checks.

    def rows(self) -> int | None:
        """Return how many rows are written; None where the table has the batch already.

        Raises what the write has raised.
        """
        return self._written.result()

    def check(self, batch: Batch) -> None:
        """Let the batch be committed, with all that is known of it now."""
        self._checked.set_result(batch)

    def refuse(self) -> None:
        """Let nothing be committed, where that is still open."""
        if not self._checked.done():
            self._checked.set_exception(_RefusedError())


@contextmanager
def pending(
    write: Callable[[Batch], Outcome], batch: Batch, spark: SparkSession
) -> Iterator[tuple[Pending, Callable[[Batch], Outcome]]]:
    """Begin to write a batch, which is not committed before the block says so.

    write: writes the batch that it is given to one table, by one `commit_once`.

    Yields the batch under way, and what commits it as it is known by then. Nothing is committed
    where the block ends without that.
    """
    under_way = Pending(batch)
    outcomes: list[Outcome] = []

    def whole() -> None:
        failure: BaseException | None = None
        try:
            outcomes.append(write(replace(batch, pending=under_way)))
        except BaseException as error:
            failure = error
            raise
        finally:
            under_way.ended(failure)

    thread = Aside(whole, spark)

    def commit(known: Batch) -> Outcome:
        under_way.check(known)
        thread.join()
        if thread.failure is not None:
            raise thread.failure
        return outcomes[0]

    thread.start()
    try:
        yield under_way, commit
    finally:
        under_way.refuse()
        thread.join()
