"""Whether a table is ahead of its checkpoint."""

from __future__ import annotations

from ...commit.logs import Logs, digest
from ...commit.protocol import current
from ...commit.stamp import Stamp
from ...commit.table_log import TableLog


def require_not_ahead(
    job: str, query: str, base: int, logs: Logs, step: str, log: TableLog
) -> None:
    """Refuse a table that is ahead of the checkpoint, or has other offsets of its next batch.

    base: what is added to a batch's number in the checkpoint, for its number in the tables.

    Raises:
        ReplayMismatchError: which names the batch.
    """
    number = logs.last + 1
    planned = logs.offsets.get(number)
    stamp = Stamp(
        job=job,
        query=query,
        run="",
        batch=base + number,
        step=step,
        offsets="(not planned yet)" if planned is None else digest(planned),
        end={},
        rows={},
    )
    current(log, stamp)
