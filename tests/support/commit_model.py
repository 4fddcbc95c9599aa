"""A model of the commit protocol: a table that fails, and a driver that restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tidegate.commit.batch import Stamp
from tidegate.commit.protocol import CommitHook, CommitLog, Outcome, commit_exactly_once
from tidegate.errors import ConflictError

Fault = Literal[
    "none",
    "crash before",  # the process dies before this commit
    "crash after",  # ... right after it
    "lost answer",  # the commit succeeds, and its writer gets a conflict
    "conflict",  # another writer came first
    "zombie",  # an older driver commits the same batch first
]
FAULTS: Sequence[Fault] = (
    "none",
    "crash before",
    "crash after",
    "lost answer",
    "conflict",
    "zombie",
)
OUTPUTS = ("dead", "late", "append")


class CrashError(Exception):
    """The process has died."""


@dataclass
class Table:
    """A Delta table's log: stamps, rows and transaction numbers commit together."""

    commits: list[tuple[Stamp, tuple[str, ...]]] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)

    def rows(self) -> list[str]:
        return sorted(row for _, rows in self.commits for row in rows)


@dataclass
class ModelLog:
    """The log of a table for one writer, with the fault of its next commit."""

    table: Table
    rows: tuple[str, ...]
    fault: Fault = "none"
    keeps_transactions: bool = True

    def last_batch(self, app_id: str) -> int | None:
        return self.table.transactions.get(app_id)

    def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
        stamps = [
            stamp
            for stamp, _ in self.table.commits
            if (stamp.app_id, stamp.batch) == (app_id, batch)
        ]
        return stamps[-1] if stamps else None

    def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
        fault, self.fault = self.fault, "none"
        if fault == "crash before":
            raise CrashError
        if fault == "conflict":
            raise ConflictError("another writer")
        if fault == "zombie":
            self._append(stamp)
        self._append(stamp)
        if fault == "crash after":
            raise CrashError
        if fault == "lost answer":
            raise ConflictError("lost answer")

    def _append(self, stamp: Stamp) -> None:
        if self.keeps_transactions:
            if self.table.transactions.get(stamp.app_id, -1) >= stamp.batch:
                return
            self.table.transactions[stamp.app_id] = stamp.batch
        self.table.commits.append((stamp, self.rows))


Write = Callable[[CommitLog, Stamp], Outcome]


def protocol(log: CommitLog, stamp: Stamp) -> Outcome:
    return commit_exactly_once(log, stamp, sleep=lambda seconds: None)


@dataclass
class Job:
    """A driver that plans, writes and commits batches of numbered records.

    The output of a record is its number modulo the number of outputs. All outputs share one table,
    as the hardest case.
    """

    table: Table
    write: Write = protocol
    keeps_transactions: bool = True
    query: str = "q"
    number: int = 0
    planned: tuple[int, int] | None = None
    read: int = 0
    acknowledged: list[str] = field(default_factory=list)

    def run(self, faults: Sequence[Fault], size: int) -> None:
        """Run one batch to its end, with a restart after each crash and one fault per commit."""
        remaining_faults = list(faults)
        if self.planned is None:
            self.planned = (self.read, self.read + size)
        while True:
            try:
                for index, output in enumerate(OUTPUTS):
                    fault = remaining_faults.pop(0) if remaining_faults else "none"
                    self._write_output(index, output, fault)
            except CrashError:
                continue
            break
        self.acknowledged += [f"r{n}" for n in range(*self.planned)]
        self.number, self.read, self.planned = self.number + 1, self.planned[1], None

    def _write_output(self, index: int, output: str, fault: Fault) -> None:
        start, end = self.planned or (0, 0)
        rows = tuple(f"r{n}" for n in range(start, end) if n % len(OUTPUTS) == index)
        stamp = Stamp(
            job="j", query=self.query, run="r", batch=self.number, output=output,
            offsets_hash=f"{start}-{end}", end={"t": {0: end}}, row_counts={"out": len(rows)},
        )  # fmt: skip
        self.write(ModelLog(self.table, rows, fault, self.keeps_transactions), stamp)

    def restore_older_plan(self, shift: int) -> None:
        """Restore an older checkpoint, which plans other offsets for the last batch."""
        self.number = max(0, self.number - 1)
        self.planned = (self.read, self.read + shift)


def require_exactly_once(job: Job) -> None:
    """Require each acknowledged row once in the table, and no other row."""
    rows, expected = job.table.rows(), sorted(job.acknowledged)
    assert rows == expected, f"{rows} instead of {expected}"
