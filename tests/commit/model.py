"""The sink protocol without Spark: a table that crashes, a driver that starts again, and what may
be broken in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tidegate.commit.protocol import CommitLog, Look, once
from tidegate.commit.stamp import Stamp
from tidegate.errors import ConflictError, ReplayMismatchError
from tidegate.sinks import Outcome

Fault = Literal[
    "none",
    "crash before",  # the process dies before this commit
    "crash after",  # ... after it, before anybody knows
    "lost answer",  # the commit is there, and its writer is told of a conflict
    "conflict",  # another writer came first
    "zombie",  # an older driver, not dead, commits the same batch in between
]
FAULTS: Sequence[Fault] = (
    "none",
    "crash before",
    "crash after",
    "lost answer",
    "conflict",
    "zombie",
)
STEPS = ("dead", "late", "append")


class CrashError(Exception):
    """The process is gone."""


@dataclass
class Table:
    """A Delta table's log: stamps, rows and transaction numbers commit together."""

    commits: list[tuple[Stamp, tuple[str, ...]]] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)

    def rows(self) -> list[str]:
        return sorted(row for _, rows in self.commits for row in rows)


@dataclass
class ModelLog:
    """The table as one writer sees it, with the fault that its next commit meets."""

    table: Table
    rows: tuple[str, ...]
    fault: Fault = "none"
    keeps_transactions: bool = True

    def done(self, app_id: str) -> int | None:
        return self.table.transactions.get(app_id)

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        found = [
            stamp
            for stamp, _ in self.table.commits
            if (stamp.app_id, stamp.batch) == (app_id, number)
        ]
        return found[-1] if found else None

    def commit(self, stamp: Stamp, look: Look | None = None) -> None:
        fault, self.fault = self.fault, "none"
        if fault == "crash before":
            raise CrashError
        if fault == "conflict":
            raise ConflictError("another writer")
        if fault == "zombie":
            self._put(stamp)
        self._put(stamp)
        if fault == "crash after":
            raise CrashError
        if fault == "lost answer":
            raise ConflictError("ourselves")

    def _put(self, stamp: Stamp) -> None:
        if self.keeps_transactions:
            if self.table.transactions.get(stamp.app_id, -1) >= stamp.batch:
                return
            self.table.transactions[stamp.app_id] = stamp.batch
        self.table.commits.append((stamp, self.rows))


Write = Callable[[CommitLog, Stamp], Outcome]


def protocol(log: CommitLog, stamp: Stamp) -> Outcome:
    return once(log, stamp, pause=lambda seconds: None)


@dataclass
class Job:
    """A driver over a topic of numbered records, which plans, writes and commits batches.

    A record belongs to the step (its number modulo the steps), and all steps share one table, as
    the hardest case."""

    table: Table
    write: Write = protocol
    keeps_transactions: bool = True
    query: str = "q"
    number: int = 0
    planned: tuple[int, int] | None = None
    read: int = 0
    acknowledged: list[str] = field(default_factory=list)

    def run(self, faults: Sequence[Fault], size: int) -> None:
        """Run one batch to its end, starting anew after each crash; `faults` are met one a commit,
        in order."""
        waiting = list(faults)
        if self.planned is None:
            self.planned = (self.read, self.read + size)
        while True:
            try:
                for at, step in enumerate(STEPS):
                    self._step(at, step, waiting.pop(0) if waiting else "none")
            except CrashError:
                continue
            break
        self.acknowledged += [f"r{n}" for n in range(*self.planned)]
        self.number, self.read, self.planned = self.number + 1, self.planned[1], None

    def _step(self, at: int, step: str, fault: Fault) -> None:
        first, last = self.planned or (0, 0)
        rows = tuple(f"r{n}" for n in range(first, last) if n % len(STEPS) == at)
        stamp = Stamp(
            job="j", query=self.query, run="r", batch=self.number, step=step,
            offsets=f"{first}-{last}", end={"t": {0: last}}, rows={"out": len(rows)},
        )  # fmt: skip
        self.write(ModelLog(self.table, rows, fault, self.keeps_transactions), stamp)

    def restore_older_plan(self, shift: int) -> None:
        """Put a checkpoint under the job that knows fewer batches and cuts the next ones
        otherwise."""
        self.number = max(0, self.number - 1)
        self.planned = (self.read, self.read + shift)


def holds(job: Job) -> None:
    """What was acknowledged is in the table, exactly once, and nothing else is."""
    found = job.table.rows()
    assert found == sorted(job.acknowledged), f"{found} in place of {sorted(job.acknowledged)}"


__all__ = [
    "FAULTS",
    "CrashError",
    "Fault",
    "Job",
    "ModelLog",
    "ReplayMismatchError",
    "Table",
    "holds",
    "protocol",
]
