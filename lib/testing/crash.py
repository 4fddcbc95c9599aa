"""Injected crashes.

The process dies right after a commit, to see what the next run makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..commit.delta_log import DeltaCommitLog
from ..commit.protocol import Look
from ..commit.stamp import Stamp


class CrashError(Exception):
    """The process dies here."""


@contextmanager
def crash_after(
    path: str | Path | None = None, *, batch: int | None = None, nth: int = 1
) -> Iterator[None]:
    """Raise CrashError right after a commit, before anybody has learnt of it; once.

    path: the Delta table whose commits count; all tables unless it is given.
    batch: the number of the batch whose commits count; all batches unless it is given.
    nth: which of these commits is the last one; a batch that a table has already makes none.

    Whatever writes by the library's sinks in this process is meant, a job that `run` runs as well
    as a sink that is called by hand.

        with crash_after("/tables/views", batch=1), pytest.raises(CrashError):
            sink.write({"rows": second}, batch)
    """
    commit = DeltaCommitLog.commit
    left = nth

    def commit_and_die(log: DeltaCommitLog, stamp: Stamp, look: Look | None = None) -> None:
        nonlocal left
        commit(log, stamp, look)
        if path is not None and log.path != str(path):
            return
        if batch is not None and stamp.batch != batch:
            return
        left -= 1
        if left == 0:
            raise CrashError(f"after batch {stamp.batch} of {log.path}")

    DeltaCommitLog.commit = commit_and_die  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        DeltaCommitLog.commit = commit  # type: ignore[method-assign]
