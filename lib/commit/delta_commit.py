"""Exactly-once commits to Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from delta.exceptions import base as delta_errors
from pyspark.sql import SparkSession

from ..delta.commit_options import CommitOptions
from ..errors import ConflictError
from ..jvm import CommitTransaction, error_text, run_before_commit
from .batch import CommitContext, Stamp
from .protocol import (
    ATTEMPTS,
    CommitHook,
    Outcome,
    commit_exactly_once,
    require_counted_rows,
    require_table_not_ahead,
)
from .table_log import TableLog

CONFLICTS = (
    delta_errors.ConcurrentAppendException,
    delta_errors.ConcurrentDeleteDeleteException,
    delta_errors.ConcurrentDeleteReadException,
    delta_errors.ConcurrentTransactionException,
    delta_errors.ConcurrentWriteException,
    delta_errors.DeltaConcurrentModificationException,
    delta_errors.MetadataChangedException,
    delta_errors.ProtocolChangedException,
)


class DeltaCommitter(TableLog):
    """The log of a Delta table, and a write that commits to it.

    write: make one commit to the table with the options of its argument.
    expected_rows: the number of rows that the commit must add; None for any number.
    stamp_after_write: return the stamp of the commit for the number of written rows; called after
        the write. None to use the stamp that is passed to `commit`.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        write: Callable[[CommitOptions], None],
        expected_rows: int | None = None,
        stamp_after_write: Callable[[int], Stamp] | None = None,
    ) -> None:
        super().__init__(spark, path)
        self.write = write
        self.expected_rows = expected_rows
        self.stamp_after_write = stamp_after_write

    def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
        """Write the rows in one commit, with the stamp and with the number of its batch.

        before_commit: called within Delta's transaction, right before its commit.

        Raises:
            ConflictError: after a conflict with another writer's commit.
        """
        state, txn_version = self._current_state(), self._txn_versions.get(stamp.app_id)
        exit_stack = ExitStack()
        transaction = CommitTransaction(
            state.log_path,
            stamp.app_id,
            stamp.batch,
            self._row_count_callback(stamp, exit_stack.enter_context),
        )
        metadata = stamp.to_json() if self.stamp_after_write is None else None

        def check_before_commit() -> None:
            self._require_open(stamp, state.version, txn_version)
            if before_commit is not None:
                before_commit()

        try:
            with (
                exit_stack,
                run_before_commit(self.spark, check_before_commit) as set_next_transaction,
            ):
                self.write(CommitOptions(metadata, lambda: set_next_transaction(transaction)))
        except CONFLICTS as error:
            raise self._conflict_error(stamp, error_text(error)) from error

    def _row_count_callback(
        self, stamp: Stamp, until_committed: Callable[[AbstractContextManager[None]], None]
    ) -> Callable[[int], None] | None:
        """Return a callback for the number of written rows, right before the commit."""
        if self.expected_rows is not None:
            return partial(
                require_counted_rows,
                counted=self.expected_rows,
                output=stamp.output,
                batch=stamp.batch,
                path=self.path,
            )
        stamp_after_write = self.stamp_after_write
        if stamp_after_write is None:
            return None
        return lambda rows: until_committed(
            CommitOptions.commit_metadata(self.spark, stamp_after_write(rows).to_json())
        )

    def _require_open(self, stamp: Stamp, seen_version: int, seen_txn_version: int | None) -> None:
        """Refuse a commit if the application id has got another batch since the last check.

        Delta's transaction is open: it detects every later conflict itself.
        """
        if self.refresh().version == seen_version:
            return
        last = self.last_batch(stamp.app_id)
        if last is not None and (last >= stamp.batch or seen_txn_version not in (None, last)):
            raise self._conflict_error(stamp, f"the table has batch {last} of {stamp.app_id}")

    def _conflict_error(self, stamp: Stamp, reason: str) -> ConflictError:
        return ConflictError(
            f"batch {stamp.batch} was not committed to {self.path} in {ATTEMPTS} attempts",
            f"each one had a conflict with another writer's commit: {reason}",
            "run other writers (compaction, deletes) between batches, or on other partitions.",
        )


def commit_once(
    spark: SparkSession,
    path: str,
    batch: CommitContext,
    output: str,
    write: Callable[[CommitOptions], None],
    row_counts: Mapping[str, int],
    *,
    expected_rows: int | None = None,
) -> Outcome:
    """Run `write` so that the table gets this output of this batch exactly once.

    `write` must make exactly one Delta commit to `path`, with the options of its argument. After a
    conflict with another writer it is called again, up to six times and 3 seconds in all.

    Before the write: if the log has the application id (job/query/output) with this batch number or
    a later one, the stamp of that commit must have the hash of the offsets that are planned now.
    After the write: the log must have this number with this stamp, because Delta can skip a write
    without an error. The stamp is in the JSON commits of the log, which Delta retains for 30 days
    (delta.logRetentionDuration).

    Args:
        spark: the session of the streaming query.
        path: the path of the table.
        batch: the batch, as the sink gets it. With a pending write it is committed once that is
            allowed, with the stamp of that moment.
        output: the name of the output; a batch can have several.
        write: make the commit.
        row_counts: counts of the batch's rows, by name, for the stamp.
        expected_rows: the number of rows that an append must add; None for any number.

    Returns:
        "written", or "skipped" if the table had the batch already.

    Raises:
        AccountingError: for a commit of another number of rows than `expected_rows`.
        TableMismatchError: if the table has another batch of this number, or the stamp is missing;
            for a table that is missing, replaced or older than the checkpoint.
        LostCheckpointError: for a table that another checkpoint of the job has written.
        FencedError: if a later driver has claimed the checkpoint.
        ConflictError: if every attempt had a conflict.
    """
    if batch.pending_write is None:
        log = DeltaCommitter(spark, path, write, expected_rows)
        return commit_exactly_once(
            log,
            Stamp.for_batch(batch, output, row_counts),
            lease=batch.lease,
            wait_for_prior_commits=batch.wait_for_prior_commits,
        )
    pending_write = batch.pending_write

    def current_stamp() -> Stamp:
        return Stamp.for_batch(
            pending_write.context, output, {**row_counts, **pending_write.written_counts}
        )

    def stamp_after_write(rows: int) -> Stamp:
        pending_write.wait_for_checks(rows)
        return current_stamp()

    log = DeltaCommitter(spark, path, write, expected_rows, stamp_after_write)
    return commit_exactly_once(log, current_stamp(), lease=batch.lease, current_stamp=current_stamp)


def last_batch(spark: SparkSession, path: str, batch: CommitContext, output: str) -> int | None:
    """Return the last batch of an output of a query in the table; None for none."""
    return TableLog(spark, path).last_batch(batch.plan.app_id(output))


def require_current(spark: SparkSession, path: str, batch: CommitContext, output: str) -> None:
    """Refuse a checkpoint that is older than the table, before the first batch of a run.

    A batch without rows leaves no number in the table. Batches without rows could therefore take a
    checkpoint that was restored from an old copy past the last number of the table, and the next
    batch would write rows again that the table has, which `commit_once` would not detect.

    Raises:
        TableMismatchError: for such a checkpoint.
    """
    require_table_not_ahead(TableLog(spark, path), Stamp.for_batch(batch, output))


def read_table_log(spark: SparkSession, path: str) -> TableLog:
    """Return the current log of a table, to read it."""
    return TableLog(spark, path).refresh()
