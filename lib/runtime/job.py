"""What a job is: one streaming query from a reading through a transform into a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame

from ..sinks import Rejected, Sink
from ..sources import Reading


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many rows of one batch may be unreadable before the job stops.

    `dead_rows` is a count; `dead_ratio` a share from 0 to 1, which counts only in batches of `min_rows` or more. None
    sets a limit off.
    """

    dead_rows: int | None = 10_000
    dead_ratio: float | None = 0.1
    min_rows: int = 1_000


@dataclass(frozen=True, kw_only=True)
class Job:
    """One query: good rows -> `transform` -> `sink`, unreadable rows -> `dead`, late rows -> `late`.

    `closes` gives the instant from which on a row is late, from the reading's columns; without it no row of this job
    can be late. `stateless` says that each good row gives exactly one row out, which is then checked batch by batch.
    `every` is the interval of a job that runs on; None reads what there is, then ends.
    """

    name: str
    reading: Reading
    transform: Callable[[DataFrame], DataFrame]
    sink: Sink
    checkpoint: str
    dead: Rejected
    late: Rejected | None = None
    closes: Column | None = None
    stateless: bool = False
    limits: Limits = field(default_factory=Limits)
    every: str | None = None


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One finished batch in numbers; `latest` is the newest event time in microseconds since 1970."""

    number: int
    rows_in: int
    rows_out: int
    dead: int
    late: int
    latest: int | None
    outcome: str


@dataclass(kw_only=True)
class Summary:
    """What a run has done; `skipped` counts batches that the table had already."""

    job: str
    batches: int = 0
    skipped: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead: int = 0
    late: int = 0
    seconds: float = 0.0
    stopped: bool = False
    latest: int | None = None

    def add(self, batch: Counted) -> None:
        """Count one more batch."""
        self.batches += 1
        self.skipped += batch.outcome == "skipped"
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out
        self.dead += batch.dead
        self.late += batch.late
        self.latest = max(filter(None, (self.latest, batch.latest)), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers for JSON."""
        return asdict(self)
