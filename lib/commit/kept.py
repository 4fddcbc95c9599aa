"""Whether a table is still the one that a batch left: what is noted against what is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import CheckpointError, LostCheckpointError, ReplayMismatchError
from .identity import TableMark
from .stamp import Stamp

REPLAY = "replay"
"""The query by which late rows are replayed; it works on the tables of a job beside its query."""


class Found(Protocol):
    """A table as it is now: Delta's, or a model of it."""

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def id(self) -> str | None:
        """Its id; None where there is no table."""

    @property
    def version(self) -> int:
        """Its newest version; -1 where there is no table."""

    def digest(self, version: int) -> str | None:
        """Return the hash of a version's commit; None where its log has it no longer."""

    def restores(self, since: int) -> Mapping[int, int | None]:
        """Return the commits after a version that put an older one back, and which one.

        None where the log does not say which.
        """

    def writers(self) -> Sequence[str]:
        """Return every application id that has written to it."""


def require_kept(
    step: str,
    mark: TableMark,
    found: Found,
    restores: Mapping[int, int | None] | None = None,
) -> None:
    """Refuse a table that is gone, replaced or older than the batch which noted it.

    A folder that was moved is the same table. `restores` are those since the noted version, where
    they are known already.

    Raises:
        ReplayMismatchError: for a table that lost what it held.
        CheckpointError: for a step that is to be written to another table.
    """
    if found.id != mark.id and found.path != mark.path:
        raise _elsewhere(step, mark, found)
    noted = f"version {mark.version} of table {mark.id}"
    if found.id is None:
        raise _lost(step, mark, f"{found.path} is gone: there is no table", noted)
    if found.id != mark.id:
        told = f"{found.path} is another table, {found.id}, made in place of the one"
        raise _lost(step, mark, told, noted)
    if found.version < mark.version:
        told = f"{found.path} is older than its checkpoint: at version {found.version}"
        raise _lost(step, mark, told, noted)
    if found.digest(mark.version) not in (None, mark.commit):
        told = f"{found.path} has another commit at version {mark.version}: an older copy went on"
        raise _lost(step, mark, told, f"{noted}, commit {mark.commit[:12]}")
    later = found.restores(mark.version) if restores is None else restores
    restored = undone(mark.version, found.version, later)
    if restored is not None:
        told = f"{found.path} was put back to an older version by the commit {restored}"
        raise _lost(step, mark, told, noted)


def undone(noted: int, newest: int, restores: Mapping[int, int | None]) -> int | None:
    """Return the commit that took a noted version's rows back; None where they are all there.

    `restores` are the later commits that put a version back, and which one. A table that was put
    back to the noted version, or to one that came of it, has its rows again.
    """
    whole = {noted: True}
    by: int | None = None
    for version in range(noted + 1, newest + 1):
        if version not in restores:
            whole[version] = whole[version - 1]
            continue
        to = restores[version]
        whole[version] = to is not None and whole.get(to, False)
        by = version
    return None if whole[max(noted, newest)] else by


def require_own(step: str, job: str, query: str | None, found: Found) -> None:
    """Refuse a table that another checkpoint of the same job has filled.

    query: by which this checkpoint's commits are told; None before its first start.

    Raises:
        LostCheckpointError: which names the other query.
    """
    if found.id is None:
        return
    theirs = others(step, job, found.writers())
    if query in theirs or not theirs:
        return
    raise LostCheckpointError(
        f"{found.path} has been written by {job!r}, step {step!r}, with another checkpoint (query "
        f"{', '.join(sorted(theirs))}): that checkpoint was lost, or two are used. A new one reads "
        "the topic anew, and the table would get its rows a second time.",
        "the checkpoint that wrote this table.",
        "restore that checkpoint; or --resume-from-table, which goes on where the table ends; or "
        "a new table for the new checkpoint. Nothing was written.",
    )


def require_alone(
    path: str,
    since: Sequence[Stamp],
    *,
    batch: int,
    offsets: str | None = None,
    run: str | None = None,
) -> None:
    """Refuse a table that another driver of the same query has written to.

    A copy of a checkpoint claims epochs of its own. Its batches have the numbers of this one's, and
    other rows; where this one has written nothing under their numbers, no commit meets them.

    since: what was written by the query's step since this checkpoint has noted the table.
    batch: the one that comes next, which a driver that died may have written.
    offsets: the hash of its plan, where it is planned. run: this driver's.

    Raises ReplayMismatchError.
    """
    for each in since:
        next_one = each.batch == batch and offsets in (None, each.offsets)
        if not next_one and each.run != run:
            raise ReplayMismatchError(
                f"{path} has got batch {each.batch} of {each.app_id} by another driver (run "
                f"{each.run}), while this one has come to batch {batch}: a copy of the "
                "checkpoint is used as well, or an older one was put back.",
                "one checkpoint for the tables.",
                "go on with the copy that wrote it, and with that alone; or with a new checkpoint "
                "and --resume-from-table. Nothing more was written.",
            )


def require_noted(step: str, path: str, last: int | None, finished: range) -> None:
    """Refuse a table that is not noted, and has a batch that was finished without it.

    Each batch notes the tables that it has written. A table that exists at a start is fenced; one
    that does not cannot be, so that a driver which sleeps in the commit that makes it may still do
    so when it wakes.

    last: the last batch of the checkpoint's own query that the table has.
    finished: the batches that the checkpoint has finished, by their numbers in the tables.

    Raises:
        ReplayMismatchError: which names the batch.
    """
    if last is None or last not in finished:
        return
    raise ReplayMismatchError(
        f"step {step!r}: {path} has batch {last}, which was finished without this table: another "
        "driver, whose place was taken since, has made it.",
        "the tables that the batches have noted.",
        "move the table's folder away: what its rows are made of, the driver that finished the "
        "batch has written. Nothing was written.",
    )


def others(step: str, job: str, writers: Sequence[str]) -> set[str]:
    """Return the queries of a job that have written a step, by their application ids."""
    start = f"{job}/"
    end = f"/{step}"
    own = [each for each in writers if each.startswith(start) and each.endswith(end)]
    queries = {each.removeprefix(start).removesuffix(end) for each in own}
    return {query for query in queries if "/" not in query} - {REPLAY}


def _lost(step: str, mark: TableMark, found: str, noted: str) -> ReplayMismatchError:
    return ReplayMismatchError(
        f"step {step!r}: {found}; the checkpoint noted {noted}.",
        "the table as the last batch left it, or newer: the checkpoint will not read again what "
        "the table has lost.",
        f"put the table back (RESTORE TABLE delta.`{mark.path}` TO VERSION AS OF {mark.version}, "
        f"or a copy); or, with the folder gone, --recreate {step}, which begins an empty table. "
        "Nothing was written.",
    )


def _elsewhere(step: str, mark: TableMark, found: Found) -> CheckpointError:
    there = "there is no table" if found.id is None else f"there is table {found.id}"
    return CheckpointError(
        f"step {step!r} is to be written to {found.path}, where {there}; this checkpoint writes it "
        f"to {mark.path}, table {mark.id}.",
        "the same table for as long as the checkpoint is used; its folder may be moved.",
        f"name {mark.path} again, or move that folder to {found.path}; for another table a new "
        "checkpoint. Nothing was written.",
    )
