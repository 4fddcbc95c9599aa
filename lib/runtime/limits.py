"""How much of a batch may be unreadable or late."""

from __future__ import annotations

from dataclasses import dataclass

from . import _checks as checks


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many unreadable rows of one batch stop the job, and how many late ones raise an alarm.

    `dead_rows` and `late_rows` are counts. `dead_ratio` and `late_ratio` are shares from 0 to 1,
    and count only in batches of `min_rows` or more. None sets a limit off. An alarm is a warning
    and a metric, and stops nothing.

    Raises ArgumentError, at construction, for a count below 0 or a share outside 0 to 1.
    """

    dead_rows: int | None = 10_000
    dead_ratio: float | None = 0.1
    late_rows: int | None = None
    late_ratio: float | None = 0.1
    min_rows: int = 1_000

    def __post_init__(self) -> None:
        checks.require_count(self.min_rows, "min_rows")
        for count in ("dead_rows", "late_rows"):
            if getattr(self, count) is not None:
                checks.require_count(getattr(self, count), count)
        for share in ("dead_ratio", "late_ratio"):
            if getattr(self, share) is not None:
                checks.require_share(getattr(self, share), share)
