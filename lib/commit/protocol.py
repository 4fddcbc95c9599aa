"""Exactly once, for any log of commits: a check before each write, and a look at the log after."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import ConflictError, ReplayMismatchError
from .outcome import Outcome
from .stamp import Stamp

ATTEMPTS = 6
Look = Callable[[], None]


class BatchLog(Protocol):
    """Which batches a table has: Delta's, or a model of it."""

    def done(self, app_id: str) -> int | None:
        """Return the last number that the table has of an application id."""

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        """Return the stamp of the commit that bears this application id and number."""


class CommitLog(BatchLog, Protocol):
    """What exactly-once needs of a table."""

    def commit(self, stamp: Stamp, look: Look | None = None) -> None:
        """Write the rows under the stamp, or nothing where the number is already done.

        look: called once the rows are written and before they are committed; nothing is committed
            where it raises. A commit of the same application id after that is a conflict.

        Raises:
            ConflictError: where another writer came between.
        """


class Claim(Protocol):
    """What a driver has claimed: its epoch, and the tables as its last batch left them.

    Its methods are called with the log that the commit is for, looked at just before.
    """

    def require_newest(self) -> None:
        """Refuse to go on where a later driver has claimed the checkpoint."""

    def require_kept(self, log: Any, stamp: Stamp) -> None:
        """Refuse a table that is not the one which the checkpoint knows."""

    def note(self, log: Any, stamp: Stamp) -> None:
        """Note the table as it is with the commit."""


def once(
    log: CommitLog,
    stamp: Stamp,
    *,
    claim: Claim | None = None,
    ahead: Look | None = None,
    known: Callable[[], Stamp] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Commit what the stamp stands for, unless the table has it.

    The heart of `commit_once`, for any CommitLog. With a claim, each look at the table asks
    besides whether the driver may still write, and whether the table is the one that it knows.

    ahead: returns once what must be committed before this is; what it raises stops the commit. The
        rows are written meanwhile.
    known: gives the stamp as it is now, where more of it is known once the rows are written.
    """

    def look() -> None:
        if ahead is not None:
            ahead()
        if claim is not None:
            claim.require_newest()

    now = known or (lambda: stamp)
    outcome = _committed(log, now, claim, look, pause)
    if claim is not None:
        claim.note(log, now())
    return outcome


def _committed(
    log: CommitLog,
    known: Callable[[], Stamp],
    claim: Claim | None,
    look: Look,
    pause: Callable[[float], None],
) -> Outcome:
    for attempt in range(ATTEMPTS):
        if _may(log, known(), claim):
            return "skipped" if attempt == 0 else "written"
        try:
            log.commit(known(), look)
        except ConflictError:
            # The answer to our own commit may have been lost: the next look at the log tells.
            if attempt == ATTEMPTS - 1 and not _has(log, known()):
                raise
            pause(min(0.1 * 2**attempt, 2.0))
            continue
        stamp = known()
        if _has(log, stamp):
            return "written"
        raise ReplayMismatchError(
            f"batch {stamp.batch} was written and its number is not in the log of {stamp.app_id}.",
            "a table that keeps transaction numbers.",
            "look for a writer that restored or replaced the table meanwhile.",
        )
    return "written"


def _may(log: CommitLog, stamp: Stamp, claim: Claim | None) -> bool:
    """Return whether the table has the batch already, and refuse a writer that may not go on."""
    if claim is None:
        return _has(log, stamp)
    claim.require_newest()
    has = _has(log, stamp)
    claim.require_kept(log, stamp)
    return has


def _has(log: BatchLog, stamp: Stamp) -> bool:
    """Return whether the table has the batch, and refuse another batch of the same number."""
    last = log.done(stamp.app_id)
    if last is None or last < stamp.batch:
        return False
    found = log.stamp(stamp.app_id, stamp.batch)
    if found is not None and (found.offsets, found.step) == (stamp.offsets, stamp.step):
        _require_same_plan(log, stamp, found)
        return True
    theirs = "no stamp of ours" if found is None else f"offsets {found.offsets} (run {found.run})"
    raise ReplayMismatchError(
        f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id} with "
        f"{theirs}; "
        f"planned now are offsets {stamp.offsets}.",
        "the same offsets for the same batch: a checkpoint and a table that belong together.",
        "restore the checkpoint that wrote this table, or start with a new one and a new table; "
        "nothing was written.",
    )


def _require_same_plan(log: BatchLog, stamp: Stamp, found: Stamp) -> None:
    """Refuse a batch that was written under another plan; stamps of before bear none."""
    if None in (stamp.plan, found.plan) or stamp.plan == found.plan:
        return
    raise ReplayMismatchError(
        f"{getattr(log, 'path', 'the table')} has batch {stamp.batch} of {stamp.app_id} under the "
        f"plan {found.plan} (run {found.run}); this run has the plan {stamp.plan}.",
        "one plan for all tables of a batch: schema, reading, transform and sinks.",
        "finish the batch with the configuration that began it, then change it; nothing was "
        "written.",
    )


def current(log: BatchLog, stamp: Stamp) -> None:
    """Refuse a table that is ahead of the batch that a run begins with.

    The heart of `require_current`, for any BatchLog.
    """
    last = log.done(stamp.app_id)
    if last is not None and last > stamp.batch:
        raise ReplayMismatchError(
            f"{getattr(log, 'path', 'the table')} has batch {last} of {stamp.app_id}; "
            f"the checkpoint goes on with batch {stamp.batch}.",
            "a checkpoint as new as its tables.",
            "restore its newest copy, or start with a new one and new tables; nothing was written.",
        )
    _has(log, stamp)
