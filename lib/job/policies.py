"""Policies of a job: limits for dead letters and late rows, and table maintenance."""

from __future__ import annotations

from dataclasses import dataclass

from . import validation as checks


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits per batch: too many dead letters stop the job, too many late rows raise an alarm.

    `dead_rows` and `late_rows` are counts. `dead_ratio` and `late_ratio` are ratios from 0 to 1
    and apply to batches of at least `min_rows` rows. None disables a limit. An alarm is a warning
    in the log and a metric; it does not stop the job.

    Raises ArgumentError, at construction, for a negative count or a ratio outside 0 to 1.

    >>> Limits(dead_ratio=0.01, late_rows=1_000).dead_rows
    10000
    """

    dead_rows: int | None = 10_000
    dead_ratio: float | None = 0.1
    late_rows: int | None = None
    late_ratio: float | None = 0.1
    min_rows: int = 1_000

    def __post_init__(self) -> None:
        checks.require_count(self.min_rows, "min_rows")
        for field_name in ("dead_rows", "late_rows"):
            if getattr(self, field_name) is not None:
                checks.require_count(getattr(self, field_name), field_name)
        for ratio_name in ("dead_ratio", "late_ratio"):
            if getattr(self, ratio_name) is not None:
                checks.require_ratio(getattr(self, ratio_name), ratio_name)

    def exceeded_by_dead_letters(self, count: int, rows: int) -> tuple[str, str] | None:
        """Return the kind of the limit that a number of dead letters exceeds, and the limit."""
        return self._exceeded(count, rows, self.dead_rows, self.dead_ratio)

    def exceeded_by_late_rows(self, count: int, rows: int) -> tuple[str, str] | None:
        """Return the kind of the limit that a number of late rows exceeds, and the limit."""
        return self._exceeded(count, rows, self.late_rows, self.late_ratio)

    def _exceeded(
        self, count: int, rows: int, max_rows: int | None, max_ratio: float | None
    ) -> tuple[str, str] | None:
        if max_rows is not None and count > max_rows:
            return "rows", f"{max_rows:,}"
        if max_ratio is not None and rows >= self.min_rows and count > max_ratio * rows:
            return "ratio", f"{max_ratio:.1%}"
        return None


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """How many batches a job processes between two compactions or vacuums of its tables.

    compact_every: runs Delta's OPTIMIZE on the tables of the sink, the dead letters and the offset
        gaps. It merges files smaller than 96 MB into files of up to 128 MB, and clusters a
        clustered table. A view compacts itself, by its own `compact_every`. Tables of late rows are
        not compacted, because a replay reads them by table version.
    vacuum_every: runs Delta's VACUUM on the same tables and on views. It deletes files that only
        versions older than the table's `delta.deletedFileRetentionDuration` use, a week by default.
        Readers of older versions or of the change data feed must finish within that time.

    Maintenance runs inside a batch after its rows are committed; readers see no difference. If
    another writer commits at the same time, the job logs a warning and retries when maintenance
    is due again. None, the default, disables it.

    Raises ArgumentError, at construction, for a count below 1.

    >>> Maintenance(compact_every=200, vacuum_every=2_000).compact_every
    200
    """

    compact_every: int | None = None
    vacuum_every: int | None = None

    def __post_init__(self) -> None:
        for field_name in ("compact_every", "vacuum_every"):
            if getattr(self, field_name) is not None:
                checks.require_count(getattr(self, field_name), field_name, min_value=1)
