"""Compare a table with the recorded one: identity, version, restores and writers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..checkpoint.lineage import RecordedTable
from ..errors import CheckpointError, LostCheckpointError, TableMismatchError
from .batch import Stamp, is_late_replay


class ObservedTable(Protocol):
    """The current state of a table: Delta's, or a model of it."""

    @property
    def path(self) -> str:
        """The path of the table."""

    @property
    def id(self) -> str | None:
        """The table id; None without a table."""

    @property
    def version(self) -> int:
        """The newest version; -1 without a table."""

    def commit_hash(self, version: int) -> str | None:
        """Return the hash of a version's commit; None if the log no longer has it."""

    def restores_after(self, after_version: int) -> Mapping[int, int | None]:
        """Return the RESTORE commits after a version, and the version that each restored.

        The restored version is None if the log does not have it.
        """

    def writer_app_ids(self) -> Sequence[str]:
        """Return every application id that has written to the table."""


def require_unchanged(
    output: str,
    recorded: RecordedTable,
    observed: ObservedTable,
    restores: Mapping[int, int | None] | None = None,
) -> None:
    """Refuse a table that is missing, replaced or older than the recorded one.

    A folder that was moved is the same table. `restores` are those since the recorded version, if
    they are known already.

    Raises:
        TableMismatchError: for a table that has lost rows.
        CheckpointError: for an output with another table.
    """
    if observed.id != recorded.id and observed.path != recorded.path:
        current_state = "no table exists" if observed.id is None else f"table {observed.id} exists"
        raise CheckpointError(
            f"output {output!r} is to be written to {observed.path}, where {current_state}; this "
            f"checkpoint writes it to {recorded.path}, table {recorded.id}",
            "a checkpoint belongs to its tables; their folders can be moved.",
            f"{recorded.path} again, or move that folder to {observed.path}; or use a new "
            "checkpoint for another table. Nothing was written.",
        )
    expected = f"version {recorded.version} of table {recorded.id}"
    if observed.id is None:
        problem = "does not exist"
    elif observed.id != recorded.id:
        problem = f"is another table, {observed.id}"
    elif observed.version < recorded.version:
        problem = f"is older than its checkpoint: at version {observed.version}"
    elif observed.commit_hash(recorded.version) not in (None, recorded.commit_hash):
        problem = (
            f"has another commit at version {recorded.version}: an older copy of the table was "
            "restored and written to"
        )
        expected += f", commit {recorded.commit_hash[:12]}"
    else:
        later_restores = observed.restores_after(recorded.version) if restores is None else restores
        undoing_version = undoing_restore(recorded.version, observed.version, later_restores)
        if undoing_version is None:
            return
        problem = f"was restored to an older version by commit {undoing_version}"
    raise TableMismatchError(
        f"output {output!r}: {observed.path} {problem}; the checkpoint has recorded {expected}",
        "the table has lost rows, and the checkpoint will not read them again.",
        f"RESTORE TABLE delta.`{recorded.path}` TO VERSION AS OF {recorded.version}, or restore a "
        f"copy; or remove the folder and use --recreate {output}, which creates an empty table. "
        "Nothing was written.",
    )


def undoing_restore(
    recorded_version: int, newest_version: int, restores: Mapping[int, int | None]
) -> int | None:
    """Return the RESTORE that removed the rows of the recorded version; None if all are there.

    `restores` are the later RESTORE commits with the version that each restored. A table that was
    restored to the recorded version, or to one after it, has the rows again.
    """
    has_rows = {recorded_version: True}
    undoing_version: int | None = None
    for version in range(recorded_version + 1, newest_version + 1):
        if version not in restores:
            has_rows[version] = has_rows[version - 1]
            continue
        restored_version = restores[version]
        has_rows[version] = restored_version is not None and has_rows.get(restored_version, False)
        undoing_version = version
    return None if has_rows[max(recorded_version, newest_version)] else undoing_version


def require_own_checkpoint(
    output: str, job: str, query: str | None, observed: ObservedTable
) -> None:
    """Refuse a table that another checkpoint of the same job has written.

    query: the query id of this checkpoint's commits; None before its first start.

    Raises:
        LostCheckpointError: with the other query id.
    """
    writers = [] if observed.id is None else observed.writer_app_ids()
    other_queries = writer_queries(output, job, writers)
    if query in other_queries or not other_queries:
        return
    raise LostCheckpointError(
        f"{observed.path} was written by {job!r}, output {output!r}, with another checkpoint "
        f"(query {', '.join(sorted(other_queries))})",
        "that checkpoint was lost, or two checkpoints are used; this one would read the topic from "
        "its start and write all rows a second time.",
        "restore that checkpoint; or --resume-from-table, which continues where the table ends; or "
        "use a new table for the new checkpoint. Nothing was written.",
    )


def require_unread_topics(output: str, path: str, commit: Stamp, fingerprint_hash: str) -> None:
    """Refuse a table into which another job has read the same topics.

    commit: the last commit of the other job to the table.

    Raises:
        LostCheckpointError: because this job may be the other one under a new name.
    """
    has_same_query = commit.fingerprint_hash == fingerprint_hash
    query = "the same query" if has_same_query else "another query"
    remedies = [
        f"name={commit.job!r} and --resume-from-table, which continues where the table ends"
        + ("" if has_same_query else " and requires the former query; or tidegate replay"),
        "use a new table",
    ]
    if not has_same_query:
        remedies.append(
            "if both jobs write to this table, name the first offsets of this one as `start` for "
            "its first run; -2 is the earliest"
        )
    raise LostCheckpointError(
        f"{path} was written by the job {commit.job!r}, output {output!r}, which has {query} and "
        f"has read the same topics up to the offsets {json.dumps(commit.end)}",
        "the job was renamed, and its checkpoint was lost; a new checkpoint would read the topics "
        "from their start and write all rows a second time.",
        f"{'; or '.join(remedies)}. Nothing was written.",
    )


def require_single_writer(
    path: str,
    stamps: Sequence[Stamp],
    *,
    batch: int,
    offsets_hash: str | None = None,
    run: str | None = None,
) -> None:
    """Refuse a table that another driver of the same query has written to.

    A copy of a checkpoint claims its own epochs. Its batches have the same numbers and other rows;
    if this driver has written nothing with their numbers, no commit has a conflict.

    stamps: the stamps of this query and output since the table was recorded.
    batch: the next batch, which a driver that died can have written.
    offsets_hash: the hash of its offsets, once it is planned. run: the run id of this driver.

    Raises TableMismatchError.
    """
    for stamp in stamps:
        is_next_batch = stamp.batch == batch and offsets_hash in (None, stamp.offsets_hash)
        if not is_next_batch and stamp.run != run:
            raise TableMismatchError(
                f"{path} has batch {stamp.batch} of {stamp.app_id} by another driver (run "
                f"{stamp.run}), while this one is at batch {batch}",
                "a copy of the checkpoint is used as well, or an older one was restored, or "
                "tidegate erase was killed after it had rewritten the log of the table.",
                "run tidegate erase again if it was killed; or continue with that copy only; or "
                "use a new checkpoint and --resume-from-table. Nothing more was written.",
            )


def require_recorded(
    output: str, path: str, last_batch: int | None, committed_batches: range
) -> None:
    """Refuse an unrecorded table with a batch that was finished without it.

    Each batch records the tables that it has written. A start fences the tables that exist. A table
    that does not exist yet cannot be fenced, so an earlier driver that is suspended in the commit
    that creates it can still make this commit.

    last_batch: the last batch of the checkpoint's query in the table.
    committed_batches: the finished batches of the checkpoint, by their numbers in the tables.

    Raises:
        TableMismatchError: with the number of the batch.
    """
    if last_batch is None or last_batch not in committed_batches:
        return
    raise TableMismatchError(
        f"output {output!r}: {path} has batch {last_batch}, which was completed without this table",
        "a driver that had already been replaced created the table.",
        "move the folder of the table away; the driver that finished the batch has written its "
        "rows. Nothing was written.",
    )


def writer_jobs(output: str, writers: Sequence[str]) -> set[str]:
    """Return the jobs of an output among application ids."""
    ids = (writer.rsplit("/", 2) for writer in writers if writer.count("/") > 1)
    return {job for job, query, name in ids if name == output and not is_late_replay(query)}


def writer_queries(output: str, job: str, writers: Sequence[str]) -> set[str]:
    """Return the query ids of a job and an output among application ids."""
    pattern = re.compile(f"{re.escape(job)}/([^/]*)/{re.escape(output)}", re.DOTALL)
    matches = [pattern.fullmatch(each) for each in writers]
    return {match[1] for match in matches if match and not is_late_replay(match[1])}
