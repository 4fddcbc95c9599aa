"""What a start before this one has begun and not finished: a batch, or a backlog."""

from __future__ import annotations

from collections.abc import Mapping

from ...commit.identity import NEVER, Identity
from ...commit.kept import require_alone
from ...commit.stamp import app_id
from ...commit.table_log import TableLog


def next_batch(noted: Identity, tables: Mapping[str, TableLog], target: str) -> int:
    """Return the batch after the last whole one, by its number in the tables.

    A backlog is batch 0, and whole once the target has it.
    """
    backlog = noted.backlog
    if backlog is not None and last_of(tables[target], noted.job, backlog.query, target) == NEVER:
        return 0
    return noted.finished.stop


def require_none_beside(
    noted: Identity, tables: Mapping[str, TableLog], target: str, step: str
) -> None:
    """Refuse a table that has got another batch than the next one since it was noted.

    Raises ReplayMismatchError.
    """
    own = app_id(noted.job, noted.written_as(noted.query or ""), step)
    found = tables[step].stamps(own, noted.tables[step].version)
    require_alone(tables[step].path, found, batch=next_batch(noted, tables, target))


def is_unwritten(noted: Identity, tables: Mapping[str, TableLog]) -> bool:
    """Return whether a backlog was noted of which no table has anything yet."""
    backlog = noted.backlog
    if backlog is None:
        return False
    found = [last_of(log, noted.job, backlog.query, step) for step, log in tables.items()]
    return set(found) == {NEVER}


def having(tables: Mapping[str, TableLog], job: str, query: str | None, number: int) -> list[str]:
    """Return the steps that have a batch of a query; none before its first start."""
    if query is None:
        return []
    return [step for step, log in tables.items() if last_of(log, job, query, step) >= number]


def last_of(log: TableLog, job: str, query: str, step: str) -> int:
    """Return the last batch that a table has of a query's step; -1 for none."""
    last = log.done(app_id(job, query, step))
    return NEVER if last is None else last
