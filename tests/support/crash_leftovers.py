"""The progress of a job: its checkpoint and the logs of its tables, read as files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Point = Literal[
    "planned",
    "state written",
    "dead letters written",
    "late rows written",
    "target written",
    "committed",
]
"""The steps of the protocol, in their order. Where a batch is committed, the next is not planned
yet."""

TABLES: dict[Point, str] = {
    "dead letters written": "dead_letters",
    "late rows written": "late_rows",
    "target written": "views",
}
_NUMBER = re.compile(r"\d+")
_COMMIT = re.compile(r"\d+\.json")
_STATE = re.compile(r"\d+(_[^.]*)?\.changelog")


def checkpoint(root: Path) -> Path:
    """Return the job's checkpoint."""
    return root / "_checkpoints" / "page_views"


def traces(root: Path, point: Point) -> set[str]:
    """Return what shows that a batch has reached a point: one more name with each batch."""
    if point in TABLES:
        return written(root / TABLES[point] / "_delta_log")
    if point == "state written":
        return set().union(*_states(root))
    return _names(checkpoint(root) / {"planned": "offsets", "committed": "commits"}[point], _NUMBER)


@dataclass(frozen=True)
class Left:
    """The files of the newest planned batch; its number is -1 before the first."""

    batch: int
    states: int
    dead: bool
    late: bool
    target: bool
    committed: bool

    @property
    def point(self) -> Point:
        """The last point that the batch has reached."""
        if self.committed:
            return "committed"
        if self.target:
            return "target written"
        if self.late:
            return "late rows written"
        if self.dead:
            return "dead letters written"
        return "state written" if self.states else "planned"

    def __str__(self) -> str:
        """Return the existing files."""
        marks = {
            "dead": self.dead,
            "late": self.late,
            "target": self.target,
            f"commits/{self.batch}": self.committed,
        }
        there = [
            f"offsets/{self.batch}",
            f"state {self.states}/2",
            *(name for name, yes in marks.items() if yes),
        ]
        return f"{self.point} ({', '.join(there)})"


def left(root: Path) -> Left:
    """Return the files that a job has left; call it when no process writes."""
    batch = max(map(int, traces(root, "planned")), default=-1)
    states = sum(str(batch + 1) in versions for versions in _states(root))
    there = {table: batch in batches(root, table) for table in TABLES.values()}
    return Left(
        batch=batch,
        states=states,
        dead=there["dead_letters"],
        late=there["late_rows"],
        target=there["views"],
        committed=batch == -1 or str(batch) in traces(root, "committed"),
    )


def batches(root: Path, table: str) -> list[int]:
    """Return the batch number of each commit of a table, in the order of its log, by Delta's own
    transaction entries."""
    log = root / table / "_delta_log"
    return [
        entry["txn"]["version"]
        for name in sorted(written(log))
        for entry in map(json.loads, (log / name).read_text(encoding="utf-8").splitlines())
        if "txn" in entry
    ]


def written(log: Path) -> set[str]:
    """Return the names of a table's commits, without those by which a start fences others off."""
    return {name for name in _names(log, _COMMIT) if not _fences(log / name)}


@cache
def _fences(commit: Path) -> bool:
    return r'"{\"tidegate\": \"fence\"' in commit.read_text(encoding="utf-8")


def planned_watermark(root: Path) -> int:
    """Return the watermark in ms of the newest batch."""
    newest = max(map(int, traces(root, "planned")))
    lines = (checkpoint(root) / "offsets" / str(newest)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["batchWatermarkMs"])


def _states(root: Path) -> list[set[str]]:
    """Return the versions that each of the two state stores has written; batch N writes version N +
    1."""
    folder = checkpoint(root) / "state" / "0"
    return [
        {re.split("[_.]", name)[0] for name in _names(folder / part, _STATE)} for part in ("0", "1")
    ]


def _names(folder: Path, pattern: re.Pattern[str]) -> set[str]:
    return {name for name in _listed(folder) if pattern.fullmatch(name)}


def _listed(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except FileNotFoundError:
        return
