"""The totals of a run."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..commit.batch import BatchStats, sum_counts

_COUNTS = (
    *("rows_in", "rows_out", "dead_letters", "late_rows"),
    *("corrected_rows", "clamped_rows", "filtered_rows", "discarded_rows"),
    *("overflows", "lost_offsets"),
)
"""The counts of a batch that the summary adds up."""


@dataclass(kw_only=True)
class Summary:
    """The totals of a run.

    Attributes:
        skipped_batches: batches that the table already contained.
        discarded_rows, rule_violations, overflows, watermarks: as in `BatchStats`.
        batches_over_late_limit: batches with more late rows than the limits allow.

    >>> Summary(job="page_views", rows_in=10).as_dict()["rows_in"]
    10
    """

    job: str
    batches: int = 0
    skipped_batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    late_rows: int = 0
    corrected_rows: int = 0
    clamped_rows: int = 0
    filtered_rows: int = 0
    discarded_rows: int = 0
    rule_violations: dict[str, int] = field(default_factory=dict)
    overflows: int = 0
    lost_offsets: int = 0
    batches_over_late_limit: int = 0
    seconds: float = 0.0
    stopped: bool = False
    watermarks: dict[str, int | None] = field(default_factory=dict)

    def add_batch(self, batch: BatchStats) -> None:
        """Add the counts of a batch."""
        self.batches += 1
        self.skipped_batches += batch.outcome == "skipped"
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        self.rule_violations = sum_counts([self.rule_violations, batch.rule_violations])
        self.batches_over_late_limit += batch.is_over_late_limit
        for name, watermark in batch.watermarks.items():
            known = filter(None, (self.watermarks.get(name), watermark))
            self.watermarks[name] = max(known, default=None)

    @property
    def slowest_stream(self) -> str | None:
        """The input with the smallest watermark, which delays the others; None for a single input.

        An input without a row since the start of the run counts as the slowest, although an earlier
        run may have advanced its watermark.
        """
        if len(self.watermarks) < 2:
            return None
        return min(self.watermarks, key=lambda name: self.watermarks[name] or float("-inf"))

    def as_dict(self) -> dict[str, Any]:
        """Return the totals for JSON; the keys are the names of the attributes."""
        return asdict(self)


def write_summary(summary: Summary, path: Path) -> None:
    """Write the summary as JSON, atomically."""
    write_atomically(json.dumps(summary.as_dict(), indent=2) + "\n", path)


def write_atomically(text: str, path: Path) -> None:
    """Replace a file atomically, so that readers see the old text or the new text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary_path = path.with_name(f"{path.name}.part")
    try:
        temporary_path.write_text(text, encoding="utf-8")
        temporary_path.replace(path)
    except OSError:
        # On a full disk, the first part of the text would take the space that is left.
        with suppress(OSError):
            temporary_path.unlink()
        raise
