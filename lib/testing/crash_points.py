"""Injected crashes directly after a commit, to test recovery."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..commit.batch import Stamp
from ..commit.delta_commit import DeltaCommitter
from ..commit.protocol import CommitHook


class CrashError(Exception):
    """An injected crash of `crash_after`."""


@contextmanager
def crash_after(
    path: str | Path | None = None, *, batch: int | None = None, nth: int = 1
) -> Iterator[None]:
    """Raise CrashError once, directly after a commit and before its result is known.

    path: count only commits of this Delta table; by default of all tables.
    batch: count only commits of this batch; by default of all batches.
    nth: crash after the nth of these commits; a batch that the table already has does not commit.

    This applies to all sinks of the library in this process, in jobs and in direct calls.

    >>> with crash_after("/tables/views", batch=1), pytest.raises(CrashError):  # doctest: +SKIP
    ...     run(job, spark)
    """
    commit = DeltaCommitter.commit
    remaining = nth

    def commit_and_die(
        log: DeltaCommitter, stamp: Stamp, before_commit: CommitHook | None = None
    ) -> None:
        nonlocal remaining
        commit(log, stamp, before_commit)
        is_counted = path is None or log.path == str(path)
        if is_counted and batch in (None, stamp.batch):
            remaining -= 1
            if remaining == 0:
                raise CrashError(f"after batch {stamp.batch} of {log.path}")

    DeltaCommitter.commit = commit_and_die  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        DeltaCommitter.commit = commit  # type: ignore[method-assign]
