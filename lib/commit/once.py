"""One batch into one Delta table, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from .batch import Batch
from .delta_log import DeltaCommitLog
from .options import CommitOptions
from .outcome import Outcome
from .protocol import current, once
from .stamp import Stamp
from .table_log import TableLog


def commit_once(
    spark: SparkSession,
    path: str,
    batch: Batch,
    step: str,
    write: Callable[[CommitOptions], None],
    rows: Mapping[str, int],
    *,
    adds: int | None = None,
) -> Outcome:
    """Run `write` so that the table gets this step of this batch exactly once.

    `write` must make exactly one Delta commit on `path`, with the options that it is given. It is
    called again after a conflict with another writer, up to six times and 3 seconds in all.

    Before the write: where the table's log has the step's application id (job/query/step) at this
    number or a later one, the stamp of that commit must bear the hash of the offsets that are
    planned now. After the write: the log must show this number under this stamp, so that a write
    which Delta skipped never passes for one that happened. The stamp is looked for in the JSON
    commits of the log, which Delta keeps for 30 days (delta.logRetentionDuration).

    Args:
        spark: the session of the streaming query.
        path: the table's.
        batch: the micro-batch, as `planned` gives it. One that is `pending` is committed once it
            may be, under the stamp that it has by then.
        step: the name of what is written, of which a batch may have several.
        write: makes the commit.
        rows: counts of the batch's rows, by name, for the stamp.
        adds: how many rows the commit must add, for a write that only appends; None for any.

    Returns:
        "written", or "skipped" where the table had the batch already.

    Raises:
        AccountingError: for a commit that would add other than `adds` rows.
        ReplayMismatchError: where the table has another batch of this number, or its stamp is gone;
            for a table that is gone, replaced or older than the checkpoint.
        LostCheckpointError: for a table that another checkpoint of the job has filled.
        FencedError: where a later driver has claimed the checkpoint.
        ConflictError: where another writer came first each time.
    """
    if batch.pending is None:
        log = DeltaCommitLog(spark, path, write, adds)
        return once(log, Stamp.of(batch, step, rows), claim=batch.claim, ahead=batch.ahead)
    under_way = batch.pending

    def known() -> Stamp:
        return Stamp.of(under_way.batch, step, {**rows, **under_way.counts})

    def written(found: int) -> Stamp:
        under_way.wait(found)
        return known()

    log = DeltaCommitLog(spark, path, write, adds, written)
    return once(log, known(), claim=batch.claim, known=known)


def last_batch(spark: SparkSession, path: str, batch: Batch, step: str) -> int | None:
    """Return the number of the last batch that the table has of a query's step; None for none."""
    return TableLog(spark, path).done(Stamp.of(batch, step, {}).app_id)


def require_current(spark: SparkSession, path: str, batch: Batch, step: str) -> None:
    """Refuse a checkpoint that is older than the table, before the first batch of a run.

    A batch that writes nothing leaves no number in the table. So a checkpoint that was restored
    from an old copy could pass the table's last number by batches without rows, and write again
    what the table has, which `commit_once` would not notice.

    Raises:
        ReplayMismatchError: for such a checkpoint.
    """
    current(TableLog(spark, path), Stamp.of(batch, step, {}))


def untouched(spark: SparkSession, path: str) -> TableLog:
    """Return the log of a table that is looked at alone."""
    return TableLog(spark, path).looked()
