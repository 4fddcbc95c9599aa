"""A checkpoint of before there were identity files: what its tables' stamps say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...commit.epochs import EpochFiles
from ...commit.identity import NEVER, Identity, TableMark
from ...commit.logs import Logs, digest
from ...commit.stamp import app_id
from ...commit.table_log import TableLog
from ...errors import CheckpointError, ReplayMismatchError
from .same_job import renamed

_COPY = "restore the checkpoint as a whole from a copy. Nothing was written."


def adopted(
    job: str,
    files: EpochFiles,
    logs: Logs,
    tables: Mapping[str, TableLog],
    wanted: Sequence[str],
) -> Identity:
    """Return the identity of a checkpoint that has none, held against its tables' stamps.

    wanted: the steps of the job's sink, of which a checkpoint with batches has written one.

    Raises:
        CheckpointError: where the stamps tell of identity files, of another name of the job, or of
            other offsets.
        ReplayMismatchError: where the tables are gone.
    """
    marks = {}
    for step, log in tables.items():
        if log.id is None:
            continue
        _require_of_before(job, files, logs, step, log)
        commit = log.digest(log.version)
        if commit is not None:
            marks[step] = TableMark(path=log.path, id=log.id, version=log.version, commit=commit)
    if logs.last > NEVER and all(tables[step].id is None for step in wanted):
        raise ReplayMismatchError(
            f"{logs.path} has {logs.last + 1} batches, and none of the tables that they were "
            f"written to is there: {', '.join(tables[step].path for step in wanted)}.",
            "the tables that the checkpoint has written.",
            "put them back; or start with a new checkpoint. Nothing was written.",
        )
    whole = range(max(logs.last - 1, 0), logs.last + 1)
    return Identity(
        job=job,
        query=logs.query,
        batch=logs.last,
        offsets={at: digest(logs.offsets[at]) for at in whole if at in logs.offsets},
        commits={at: digest(logs.commits[at]) for at in whole if at in logs.commits},
        tables=marks,
    )


def _require_of_before(job: str, files: EpochFiles, logs: Logs, step: str, log: TableLog) -> None:
    """Refuse a table that knows of an identity file, or of other offsets than the logs."""
    query = _query(logs)
    own = app_id(job, query, step)
    last = log.done(own)
    if last is None:
        named = [each for each in log.writers() if each.endswith(f"/{query}/{step}")]
        if named:
            raise renamed(named[0].split("/")[0], job, logs.path)
        return
    stamp = log.stamp(own, last)
    if stamp is None:
        return
    if stamp.epoch is not None:
        raise CheckpointError(
            f"{files.file(stamp.epoch)} is missing, and so is every identity file of this "
            f"checkpoint; {log.path} was written in epoch {stamp.epoch}.",
            "all files that the last batch left.",
            "restore the checkpoint as a whole from a copy; or, with a new checkpoint, "
            "--resume-from-table. Nothing was written.",
        )
    found = logs.offsets.get(last)
    if found is not None and last <= logs.last and digest(found) != stamp.offsets:
        raise CheckpointError(
            f"{logs.path}/offsets/{last} was changed: its SHA-256 is {digest(found)[:16]}..., and "
            f"{log.path} was written with {stamp.offsets[:16]}...",
            "the file as Spark wrote it.",
            _COPY,
        )


def _query(logs: Logs) -> str:
    """Return the query's id; a checkpoint with batches has one."""
    if logs.query is None:
        raise CheckpointError(
            f"{logs.path}/metadata is missing.",
            "the query's id, as Spark wrote it at the first start.",
            _COPY,
        )
    return logs.query
