"""What a run has done, in numbers: of one batch, and of all its batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One finished batch in numbers.

    corrected: late rows that were merged into their windows; they count in `late` too.
    clamped: rows whose time was too far ahead and was brought back.
    filtered: good rows that the `where` of their reading left out.
    lost: offsets that the topic had lost before they were read.
    reached: each stream's own watermark, by its name, in microseconds since 1970.
    reasons: how many rows were unreadable for each stage and reason, where that was asked for.
    """

    number: int
    rows_in: int
    rows_out: int
    dead: int
    late: int
    corrected: int = 0
    clamped: int = 0
    filtered: int = 0
    lost: int = 0
    alarm: bool = False
    reached: Mapping[str, int | None]
    reasons: Mapping[tuple[str, str], int] = field(default_factory=dict)
    outcome: str


@dataclass(kw_only=True)
class Summary:
    """What a run has done; `skipped` counts batches that the table had already.

    `reached` is as in `Counted`.
    """

    job: str
    batches: int = 0
    skipped: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead: int = 0
    late: int = 0
    corrected: int = 0
    clamped: int = 0
    filtered: int = 0
    lost: int = 0
    alarms: int = 0
    seconds: float = 0.0
    stopped: bool = False
    reached: dict[str, int | None] = field(default_factory=dict)

    def add(self, batch: Counted) -> None:
        """Count one more batch."""
        self.batches += 1
        self.skipped += batch.outcome == "skipped"
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out
        self.dead += batch.dead
        self.late += batch.late
        self.corrected += batch.corrected
        self.clamped += batch.clamped
        self.filtered += batch.filtered
        self.lost += batch.lost
        self.alarms += batch.alarm
        for name, mark in batch.reached.items():
            self.reached[name] = max(filter(None, (self.reached.get(name), mark)), default=None)

    @property
    def behind(self) -> str | None:
        """The stream with the smallest watermark of its own, which holds the others back.

        None where there is one stream alone.

        A stream without a row since the run began is taken for the slowest, though its watermark
        may be known from before.
        """
        if len(self.reached) < 2:
            return None
        return min(self.reached, key=lambda name: self.reached[name] or float("-inf"))

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return asdict(self)


def write_summary(summary: Summary, path: Path) -> None:
    """Write the summary as JSON, whole or not at all."""
    write_whole(json.dumps(summary.as_dict(), indent=2) + "\n", path)


def write_whole(text: str, path: Path) -> None:
    """Put a text in the place of a file in one step, so that readers find the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
