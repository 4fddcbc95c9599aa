"""The exactly-once protocol for any commit log: check before a write, verify after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from ..errors import AccountingError, ConflictError, TableMismatchError
from .batch import Lease, Stamp


def require_counted_rows(
    to_write: int, *, counted: int, output: str, batch: int, path: str
) -> None:
    """Refuse to write another number of rows than was counted."""
    if to_write != counted:
        raise AccountingError(
            f"batch {batch} counted {counted:,} rows of {output}, but {to_write:,} were to be "
            f"written to {path}",
            "the transform does not return the same rows each time, or the topic was changed.",
            "start the job again, which runs the batch again. None of the rows was written.",
        )


Outcome: TypeAlias = Literal["written", "skipped"]
"""Whether the commit was made, or skipped because the table had it already."""
ATTEMPTS = 6
CommitHook = Callable[[], None]


class BatchLog(Protocol):
    """The batches of a table: Delta's, or a model of it."""

    def last_batch(self, app_id: str) -> int | None:
        """Return the last batch of an application id; None without one."""

    def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
        """Return the stamp of the commit with this application id and number."""


class CommitLog(BatchLog, Protocol):
    """A table as the exactly-once protocol needs it."""

    def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
        """Write the rows with the stamp, or nothing if the table has the number already.

        before_commit: called after the write and before the commit; an error in it prevents the
            commit. A commit of the same application id after the call is a conflict.

        Raises:
            ConflictError: after a conflict with another writer.
        """


def commit_exactly_once(
    log: CommitLog,
    stamp: Stamp,
    *,
    lease: Lease | None = None,
    wait_for_prior_commits: CommitHook = lambda: None,
    current_stamp: Callable[[], Stamp] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Commit the batch of the stamp, unless the table has it.

    This is the core of `commit_once`, for any CommitLog. With a lease, each check of the table also
    verifies that the driver may still write and that the table is the recorded one.

    wait_for_prior_commits: wait for the commits that must precede this one; an error in it prevents
        the commit. The rows are written meanwhile.
    current_stamp: return the current stamp, if more of it is known after the write.
    """

    def before_commit() -> None:
        wait_for_prior_commits()
        if lease is not None:
            lease.require_newest_epoch()

    get_stamp = current_stamp or (lambda: stamp)
    outcome: Outcome = "written"
    for attempt in range(ATTEMPTS):
        if _check_before_write(log, get_stamp(), lease):
            outcome = "skipped" if attempt == 0 else "written"
            break
        try:
            log.commit(get_stamp(), before_commit)
        except ConflictError:
            # The conflict can be this very commit, if its answer was lost: check the log again.
            if attempt == ATTEMPTS - 1 and not _is_committed(log, get_stamp()):
                raise
            sleep(min(0.1 * 2**attempt, 2.0))
            continue
        written = get_stamp()
        if not _is_committed(log, written):
            raise TableMismatchError(
                f"batch {written.batch} was written, but its number is not in the log of "
                f"{written.app_id}",
                "another writer has restored or replaced the table meanwhile.",
                "find that writer, and start the job again.",
            )
        break
    if lease is not None:
        lease.record_table(log, get_stamp())
    return outcome


def _check_before_write(log: CommitLog, stamp: Stamp, lease: Lease | None) -> bool:
    """Return whether the table has the batch already; refuse a driver that may not write."""
    if lease is None:
        return _is_committed(log, stamp)
    lease.require_newest_epoch()
    is_committed = _is_committed(log, stamp)
    lease.require_unchanged(log, stamp)
    return is_committed


def _is_committed(log: BatchLog, stamp: Stamp) -> bool:
    """Return whether the table has the batch; refuse another batch of the same number."""
    last_batch = log.last_batch(stamp.app_id)
    if last_batch is None or last_batch < stamp.batch:
        _require_numbered(log, stamp)
        return False
    recorded = log.find_stamp(stamp.app_id, stamp.batch)
    if recorded is not None and (recorded.offsets_hash, recorded.output) == (
        stamp.offsets_hash,
        stamp.output,
    ):
        _require_same_fingerprint(log, stamp, recorded)
        return True
    if recorded is None:
        raise TableMismatchError(
            f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id}, but "
            "its log does not have the metadata of that commit",
            "a RESTORE has undone the commit, or it is older than the retention of the log "
            "(delta.logRetentionDuration), or another program has written it. Without the "
            "metadata, the offsets of the batch cannot be compared with the checkpoint.",
            "after a RESTORE, restore the table to a version that has the batch; otherwise use a "
            "new checkpoint and a new table, and set delta.logRetentionDuration to more than the "
            "longest time for which the job can be stopped. Nothing was written.",
        )
    actual = f"offsets {recorded.offsets_hash} (run {recorded.run})"
    raise TableMismatchError(
        f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id} with "
        f"{actual}, but the checkpoint plans offsets {stamp.offsets_hash}",
        "the checkpoint and the table do not belong together.",
        "restore the checkpoint that wrote this table; or use a new checkpoint and a new table. "
        "Nothing was written.",
    )


def _require_numbered(log: BatchLog, stamp: Stamp) -> None:
    """Refuse a table with a commit that has the stamp of the batch, but not its number."""
    if log.find_stamp(stamp.app_id, stamp.batch) is not None:
        raise TableMismatchError(
            f"{getattr(log, 'path', 'the table')} has rows of batch {stamp.batch} of "
            f"{stamp.app_id}, but not its number",
            "a driver has committed the batch without the checks of a commit, for example with "
            "PYSPARK_PIN_THREAD=false.",
            "undo its commits, which DESCRIBE HISTORY lists with this batch: RESTORE the table to "
            "the version before the first of them; then start the job again.",
        )


def _require_same_fingerprint(log: BatchLog, stamp: Stamp, recorded: Stamp) -> None:
    """Refuse a batch that was written with another fingerprint; stamps outside a job have none."""
    if (
        None in (stamp.fingerprint_hash, recorded.fingerprint_hash)
        or stamp.fingerprint_hash == recorded.fingerprint_hash
    ):
        return
    raise TableMismatchError(
        f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id} with the "
        f"fingerprint {recorded.fingerprint_hash} (run {recorded.run}); this run has "
        f"{stamp.fingerprint_hash}",
        "the schema, the input, the transform or a sink has changed within the batch.",
        "finish the batch with the configuration that started it, then change it. Nothing was "
        "written.",
    )


def require_table_not_ahead(log: BatchLog, stamp: Stamp) -> None:
    """Refuse a table that is ahead of the first batch of a run.

    This is the core of `require_current`, for any BatchLog.
    """
    last_batch = log.last_batch(stamp.app_id)
    if last_batch is not None and last_batch > stamp.batch:
        raise TableMismatchError(
            f"{getattr(log, 'path', 'the table')} has batch {last_batch} of {stamp.app_id}, but "
            f"the checkpoint continues with batch {stamp.batch}",
            "the checkpoint is older than its tables.",
            "restore its newest copy; or use a new checkpoint and new tables. Nothing was written.",
        )
    _is_committed(log, stamp)
