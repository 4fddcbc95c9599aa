"""Commits on a Delta table, each under its batch's number and stamp."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from delta.exceptions.base import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import SparkSession

from ..errors import ConflictError
from ..jvm import Numbered, at_the_commit, message
from .counted import require_counted
from .options import CommitOptions
from .protocol import ATTEMPTS, Look
from .stamp import Stamp
from .table_log import TableLog

CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)


class DeltaCommitLog(TableLog):
    """The log of the Delta table at `path`, and what commits to it.

    `write` makes one commit on the table with the options that it is given.
    adds: how many rows that commit must add; None for any number.
    written: called with how many it adds, once they are written; returns the stamp that it bears.
        None where it bears the one that it is given.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        write: Callable[[CommitOptions], None],
        adds: int | None = None,
        written: Callable[[int], Stamp] | None = None,
    ) -> None:
        super().__init__(spark, path)
        self.write = write
        self.adds = adds
        self.written = written

    def commit(self, stamp: Stamp, look: Look | None = None) -> None:
        """Write the rows in one commit, under the stamp and the batch's number.

        look: called within Delta's transaction, right before its commit.

        Raises:
            ConflictError: where another writer's commit came between.
        """
        seen, number = self._looked_at(), self._numbers.get(stamp.app_id)
        later = ExitStack()
        numbered = Numbered(
            seen.log_path, stamp.app_id, stamp.batch, self._counting(stamp, later.enter_context)
        )
        text = stamp.text() if self.written is None else None

        def still_open() -> None:
            self._require_open(stamp, seen.version, number)
            if look is not None:
                look()

        try:
            with later, at_the_commit(self.spark, still_open) as next_bears:
                self.write(CommitOptions(text, lambda: next_bears(numbered)))
        except CONFLICTS as error:
            raise self._conflict(stamp, message(error)) from error

    def _counting(
        self, stamp: Stamp, until_committed: Callable[[AbstractContextManager[None]], None]
    ) -> Callable[[int], None] | None:
        """Return what the number of rows is told to, right before the commit."""
        if self.adds is not None:
            return partial(
                require_counted,
                counted=self.adds,
                step=stamp.step,
                batch=stamp.batch,
                path=self.path,
            )
        written = self.written
        if written is None:
            return None
        return lambda rows: until_committed(CommitOptions.noted(self.spark, written(rows).text()))

    def _require_open(self, stamp: Stamp, seen: int, number: int | None) -> None:
        """Refuse a commit where the table has got another number since it was asked for that.

        Delta's transaction has begun: what is committed from now on is a conflict of its own.
        """
        if self.looked().version == seen:
            return
        last = self.done(stamp.app_id)
        if last is not None and (last >= stamp.batch or number not in (None, last)):
            raise self._conflict(stamp, f"batch {last} of {stamp.app_id} is there")

    def _conflict(self, stamp: Stamp, what: str) -> ConflictError:
        return ConflictError(
            f"{self.path}: batch {stamp.batch} met another writer's commit, {ATTEMPTS} times: "
            f"{what}",
            hint="let other writers (compaction, deletes) run between batches, or on other "
            "partitions.",
        )
