"""What a job is: one streaming query from a reading through a transform into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import Column, DataFrame

from ..columns import microseconds
from ..errors import ArgumentError
from ..sinks import SideTable, Sink
from ..sources import Reading


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many rows of one batch may be unreadable before the job stops, and how many late before it raises an alarm.

    `dead_rows` and `late_rows` are counts; `dead_ratio` and `late_ratio` shares from 0 to 1, which
    count only in batches of `min_rows` or more. None sets a limit off. An alarm is a warning and a
    metric, and stops nothing."""

    dead_rows: int | None = 10_000
    dead_ratio: float | None = 0.1
    late_rows: int | None = None
    late_ratio: float | None = 0.1
    min_rows: int = 1_000


@dataclass(frozen=True, kw_only=True)
class Input:
    """One stream that a job reads, and what becomes of its late rows.

    closes: the instant from which on a row is late, from the reading's columns; without it no row
        of this input can be late. Late rows are kept in `late`, under a step of its own.
    watermarks: into how many shares the partitions are divided, each with a watermark of its own,
        or one for each "partition". The smallest counts: where partitions are read at different
        speeds, rows of a slow one are not late because a fast one ran ahead. A checkpoint is bound
        to the number.
    idle: when no row came for so long and none waits in the topic, the watermark goes on with the
        clock, and so the last windows come out; of several streams a quiet one then follows the
        others. What comes afterwards may be late. None, the default, waits for ever. Only for a job
        that runs on: a replay has no clock.

    Raises ArgumentError, at construction, for a number of watermarks below 1, or several with a
    pattern of topics."""

    reading: Reading
    closes: Column | None = None
    late: SideTable | None = None
    watermarks: int | Literal["partition"] = 1
    idle: str | timedelta | None = None

    def __post_init__(self) -> None:
        if self.idle is not None:
            microseconds(self.idle, "idle", least=1_000_000)
        if self.watermarks != "partition" and self.watermarks < 1:
            raise ArgumentError(f"watermarks is {self.watermarks!r}.", "1 or more, or 'partition'.")
        if self.watermarks != 1 and self.reading.source.pattern:
            raise ArgumentError(
                f"watermarks is {self.watermarks!r}, with a pattern of topics.",
                "several watermarks for topics or partitions that are named.",
            )


@dataclass(frozen=True, kw_only=True)
class Corrections:
    """What becomes of a late row: up to `limit` after it was too late, the windows that it changes are issued again.

    `windows` makes windows with unfinished aggregates of a batch of rows; the job's sink is a
    `tidegate.sinks.Corrected`, or one derived from a batch's rows, which merges them into the
    windows that it has. What is later than the limit goes to the late table. Raises ArgumentError,
    at construction, for a limit below 0."""

    limit: str | timedelta
    windows: Callable[[DataFrame], DataFrame]

    def __post_init__(self) -> None:
        microseconds(self.limit, "limit", least=0)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One query: the good rows of its inputs -> `transform` -> `sink`, unreadable rows -> `dead`, late rows aside.

    `transform` is called with one DataFrame for each input, in their order. With several inputs the
    watermark is the smallest of theirs, so that a quiet input holds the results back. `stateless`
    says that each good row gives exactly one row out, which is then checked batch by batch; its
    late rows are taken out before the sink. With `corrections` late rows change windows that have
    closed. `every` is the interval of a job that runs on; None reads what there is, then ends. With
    a `metrics_port` the run's numbers are served there: see `tidegate.runtime.telemetry.metrics`.

    Raises ArgumentError, at construction, for no inputs, for several that may read the same topic,
    for an idle time-out in a job that ends by itself, and for corrections without one input whose
    rows can be late."""

    name: str
    inputs: Sequence[Input]
    transform: Callable[..., DataFrame]
    sink: Sink
    checkpoint: str
    dead: SideTable
    stateless: bool = False
    corrections: Corrections | None = None
    limits: Limits = field(default_factory=Limits)
    every: str | None = None
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        named = [topic for given in self.inputs for topic in given.reading.source.named]
        patterns = [
            given.reading.source.pattern for given in self.inputs if given.reading.source.pattern
        ]
        if not self.inputs or len(set(named)) < len(named) or (patterns and len(self.inputs) > 1):
            raise ArgumentError(
                f"the inputs read {named}.",
                "one input or more; several have topics of their own, named one by one and not by "
                "a pattern.",
                "a topic that is needed twice is one input, whose frame the transform uses twice.",
            )
        if self.corrections is not None and (len(self.inputs) > 1 or self.inputs[0].closes is None):
            raise ArgumentError(
                "corrections are given.", "one input, with closes: which of its rows are late."
            )
        if self.every is None and any(given.idle is not None for given in self.inputs):
            raise ArgumentError(
                "an input has an idle time-out, and the job ends when it has read what there is.",
                "idle for a job that runs on.",
                'every="10 seconds", or no idle.',
            )


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One finished batch in numbers; `reached` is each input's own watermark, by its name, in microseconds.

    `corrected` is the number of late rows that were merged into their windows, and counts in `late`
    too; `clamped` rows had a time too far ahead, which was brought back."""

    number: int
    rows_in: int
    rows_out: int
    dead: int
    late: int
    corrected: int = 0
    clamped: int = 0
    alarm: bool = False
    reached: Mapping[str, int | None]
    outcome: str


@dataclass(kw_only=True)
class Summary:
    """What a run has done; `skipped` counts batches that the table had already, `reached` is as in
    `Counted`."""

    job: str
    batches: int = 0
    skipped: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead: int = 0
    late: int = 0
    corrected: int = 0
    clamped: int = 0
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
        self.alarms += batch.alarm
        for name, mark in batch.reached.items():
            self.reached[name] = max(filter(None, (self.reached.get(name), mark)), default=None)

    @property
    def behind(self) -> str | None:
        """The input that holds the others back, where there are several: the one whose own watermark is the smallest.

        One without a row since the run began is taken for the slowest, though its watermark may be
        known from before."""
        if len(self.reached) < 2:
            return None
        return min(self.reached, key=lambda name: self.reached[name] or float("-inf"))

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return asdict(self)
