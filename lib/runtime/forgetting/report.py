"""What was asked, found, deleted and is left: for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from .person import Identifier


@dataclass(frozen=True, kw_only=True)
class TableReport:
    """A table: how many rows of the person it had, and in how many files these and others stood.

    rows: those of its newest version. files, log: how many data files, and files of its log, told
    of the person, older ones included. done: what was done, or would be.
    """

    path: str
    rows: int
    files: int
    log: int
    done: str


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is still there: where, how often, why, and what its owner can do.

    counts: whether it tells of the person. What only may have been made of the person's rows, and
    names nobody, does not.
    """

    path: str
    where: str
    count: int
    why: str
    way: str
    counts: bool = True


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A place outside of the folders that rows were sent to: what it is, and what its owner can do.

    noted: the table that notes what was sent; of dead letters, their job's checkpoint.
    """

    kind: Literal["topic", "webhook", "store"]
    name: str
    noted: str
    way: str


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """How much was read: files and their bytes, and how many Parquet files were decoded."""

    files: int
    bytes: int
    decoded: int
    found: int


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """The report of one run; `clean` where nothing below the roots tells of the person any more.

    topics: those that the jobs have read. outside: where the jobs have sent rows to. Neither is
    looked at.
    """

    asked: Sequence[Identifier]
    roots: Sequence[str]
    dry_run: bool
    began: datetime
    seconds: float
    tables: Sequence[TableReport]
    left: Sequence[Left]
    topics: Sequence[str]
    outside: Sequence[Outside]
    before: Scanned
    after: Scanned | None

    @property
    def clean(self) -> bool:
        """Whether the last scan found nothing that tells of the person."""
        return not any(each.counts for each in self.left)

    def as_dict(self) -> Mapping[str, Any]:
        """Return the report, for JSON."""
        told = asdict(self) | {"began": self.began.isoformat(), "clean": self.clean}
        return {"report": "tidegate forget/1", **told}

    def text(self) -> str:
        """Return the report, to be read."""
        lines = [
            f"Asked on {self.began:%Y-%m-%d %H:%M:%S} UTC: forget the person of",
            *(f"  {_asked(each)}" for each in self.asked),
            f"below {', '.join(self.roots)}."
            + (" A dry run: nothing was changed." if self.dry_run else ""),
            "",
            *self._found(),
            "",
            *self._proof(),
            "",
            *self._remains(),
            *self._log(),
            *self._outside(),
            f"It took {self.seconds:.0f} seconds.",
        ]
        return "\n".join(lines)

    def _found(self) -> list[str]:
        if not self.tables:
            return ["No table holds the person, in its rows of now or in older files."]
        lines = []
        for each in self.tables:
            lines.append(
                f"{each.path}: {each.rows:,} rows; the person stands in {each.files:,} data files "
                f"and {each.log:,} files of the table's log."
            )
            lines.append(f"  {each.done}")
        return lines

    def _proof(self) -> list[str]:
        lines = [f"Scanned first: {_scanned(self.before)}"]
        return lines + ([] if self.after is None else [f"Scanned last: {_scanned(self.after)}"])

    def _remains(self) -> list[str]:
        told = [each for each in self.left if each.counts]
        other = [each for each in self.left if not each.counts]
        lines = []
        if self.clean and not self.dry_run:
            lines.append("Nothing below these folders tells of the person.")
        if told:
            lines += ["Still there:" if not self.dry_run else "Would not be deleted:"]
            lines += [line for each in told for line in _left(each)]
        if other:
            lines += ["There besides, and naming nobody:"]
            lines += [line for each in other for line in _left(each)]
        return [*lines, ""]

    def _log(self) -> list[str]:
        if not self.topics:
            return []
        return [
            f"The topics are not touched: {', '.join(self.topics)}.",
            "Their owner lets retention pass, deletes the records (kafka-delete-records), or,",
            "where a topic is compacted, sends a tombstone for each of the person's keys.",
            "Until then a replay reads the person's records again.",
            "",
        ]

    def _outside(self) -> list[str]:
        if not self.outside:
            return []
        lines = ["Rows were sent to these places, which are not looked at, and not touched:"]
        for each in self.outside:
            lines += [f"  {each.kind} {each.name}, as {each.noted} notes", f"    {each.way}"]
        return [*lines, ""]


def _asked(each: Identifier) -> str:
    where = "" if each.table is None else f" in {each.table}"
    short = "" if each.distinct else "; so short a value counts in text behind that name alone"
    return f"{each.column} = {each.value}{where}{short}"


def _scanned(each: Scanned) -> str:
    return (
        f"{each.files:,} files, {each.bytes:,} bytes, {each.decoded:,} Parquet files decoded; the "
        f"person was in {each.found:,} files."
    )


def _left(each: Left) -> list[str]:
    count = f", {each.count:,} times" if each.count else ""
    return [f"  {each.path} ({each.where}{count}): {each.why}", f"    {each.way}"]
