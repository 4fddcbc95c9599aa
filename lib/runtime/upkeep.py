"""How often the files of a job's tables are put in order."""

from __future__ import annotations

from dataclasses import dataclass

from . import _checks as checks


@dataclass(frozen=True, kw_only=True)
class Upkeep:
    """After how many batches a job puts the files of its tables together, and deletes old ones.

    compact_every: Delta's OPTIMIZE over the target and its sink's other tables, and over the dead
        letters. Files below 96 MB become files of up to 128 MB; a clustered table is clustered. A
        view does it in its own way, by its own `compact_every`. The late rows stay as they are: a
        replay reads them by the versions of their table.
    vacuum_every: Delta's VACUUM over the same tables, views too: files that no version needs which
        is younger than the table's `delta.deletedFileRetentionDuration`, a week unless it is set.
        Who reads older versions of the tables, or their change data, must be faster than that.

    It is done within a batch, once its rows are committed, and readers see no difference. Where
    another writer's commit comes between, a warning says so, and it is left to the next time. None,
    the default, leaves it to others.

    Raises ArgumentError, at construction, for a count below 1.
    """

    compact_every: int | None = None
    vacuum_every: int | None = None

    def __post_init__(self) -> None:
        for count in ("compact_every", "vacuum_every"):
            if getattr(self, count) is not None:
                checks.require_count(getattr(self, count), count, least=1)
