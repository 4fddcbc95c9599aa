"""Capacity planning: the cores, state, commits and files of a job, estimated from measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

from ..durations import microseconds
from ..errors import ArgumentError

JobKind = Literal["tumbling", "hopping", "sliding", "session", "join", "enrich"]

SECONDS_PER_DAY = 86_400
MAX_FILES_PER_DAY = 1_000_000
"""Beyond this, reading the log of a table takes longer than a small batch."""
_MICROSECONDS_PER_SECOND = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements of one kind of job.

    Attributes:
        events_per_core: events per second and core, from Kafka to Delta.
        bytes_per_item: state bytes on disk for each stored window or event.
        state_contents: what the state stores.
    """

    events_per_core: int
    bytes_per_item: int
    state_contents: Literal["windows", "events", "nothing"]


MEASUREMENTS: Mapping[JobKind, Measurements] = {
    "tumbling": Measurements(events_per_core=90_000, bytes_per_item=20, state_contents="windows"),
    "hopping": Measurements(events_per_core=83_000, bytes_per_item=20, state_contents="windows"),
    "sliding": Measurements(events_per_core=25_000, bytes_per_item=70, state_contents="events"),
    "session": Measurements(events_per_core=58_000, bytes_per_item=21, state_contents="events"),
    "join": Measurements(events_per_core=40_000, bytes_per_item=43, state_contents="events"),
    "enrich": Measurements(events_per_core=59_000, bytes_per_item=0, state_contents="nothing"),
}
"""The measurements of docs/project/benchmarks.md; replace them by your own."""

BATCH_SECONDS = 1.5
"""The minimal duration of a batch with a commit."""
ITEMS_SCANNED_PER_SECOND = 1_000_000
"""State items that one core scans per second; each batch scans them for expired ones."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The workload of a job.

    Attributes:
        rate: events per second of all inputs.
        keys: distinct keys at a time; None if each event has its own key.
        size: the window size, the session gap, or the time bound of a join.
        hop: the hop of hopping windows.
        watermark_delay: as in the job's inputs.
        every: the trigger interval.
        spare_capacity: the share of the cores that is reserved for catch-up.

    Raises:
        ArgumentError: at construction, for an invalid number or duration.
    """

    job_kind: JobKind
    rate: float
    keys: int | None = None
    size: str = "1 minute"
    hop: str | None = None
    watermark_delay: str = "10 seconds"
    every: str = "10 seconds"
    spare_capacity: float = 0.5

    def __post_init__(self) -> None:
        kinds = get_args(JobKind)
        share = self.spare_capacity
        for name, is_valid, expected in (
            ("job_kind", self.job_kind in kinds, ", ".join(map(repr, kinds))),
            ("rate", self.rate > 0, "a number above 0"),
            ("keys", self.keys is None or self.keys >= 1, "1 or more, or None"),
            ("spare_capacity", 0 <= share < 1, "at least 0 and below 1"),
        ):
            if not is_valid:
                raise ArgumentError(f"invalid {name}: {getattr(self, name)!r}", expected)
        for field_name in ("size", "hop", "every"):
            if getattr(self, field_name) is not None:
                microseconds(getattr(self, field_name), field_name)
        microseconds(self.watermark_delay, "watermark_delay", min_value=0)

    def seconds(self, field_name: Literal["size", "hop", "watermark_delay", "every"]) -> float:
        """Return one of the durations in seconds; `hop` defaults to `size`."""
        value = getattr(self, field_name) or self.size
        return microseconds(value, field_name, min_value=0) / _MICROSECONDS_PER_SECOND


@dataclass(frozen=True, kw_only=True)
class ResourceNeeds:
    """The estimated resources of a job.

    Attributes:
        cores: including the spare capacity.
        state_items: windows or events in the state.
        state_bytes: the size of the state on disk.
        commits_per_day, files_per_day: of the target, at most.
        limit_usage: the used share of each limit: "commits" and "state" are the shares of the
            trigger interval that committing and scanning the state take, "files" is the share of
            MAX_FILES_PER_DAY.
    """

    cores: int
    state_items: int
    state_bytes: int
    commits_per_day: int
    files_per_day: int
    limit_usage: Mapping[str, float]

    @property
    def first_limit(self) -> str:
        """The limit with the highest usage."""
        return max(self.limit_usage, key=lambda name: self.limit_usage[name])


def estimate_resources(
    workload: Workload, own_measurements: Measurements | None = None
) -> ResourceNeeds:
    """Estimate the resources of a job from the measurements of its kind, or from your own.

    >>> workload = Workload(
    ...     job_kind="tumbling", rate=1_000_000, keys=100_000_000, every="30 seconds"
    ... )
    >>> needs = estimate_resources(workload)
    >>> needs.cores, needs.state_items, needs.commits_per_day, needs.files_per_day
    (23, 70000000, 2880, 66240)
    >>> needs.first_limit
    'state'
    """
    measurements = own_measurements or MEASUREMENTS[workload.job_kind]
    batch_seconds = workload.seconds("every")
    cores = ceil(workload.rate / measurements.events_per_core / (1 - workload.spare_capacity))
    state_items = _count_state_items(workload, measurements)
    commits_per_day = ceil(SECONDS_PER_DAY / batch_seconds)
    files_per_day = commits_per_day * cores
    return ResourceNeeds(
        cores=cores,
        state_items=state_items,
        state_bytes=state_items * measurements.bytes_per_item,
        commits_per_day=commits_per_day,
        files_per_day=files_per_day,
        limit_usage={
            "commits": BATCH_SECONDS / batch_seconds,
            "state": state_items / ITEMS_SCANNED_PER_SECOND / cores / batch_seconds,
            "files": files_per_day / MAX_FILES_PER_DAY,
        },
    )


def _count_state_items(workload: Workload, measurements: Measurements) -> int:
    stored_seconds = workload.seconds("size") + workload.seconds("watermark_delay")
    if measurements.state_contents == "nothing":
        return 0
    if measurements.state_contents == "events":
        return ceil(workload.rate * stored_seconds)
    # The state of hopping windows consists of panes.
    pane_seconds = workload.seconds("hop" if workload.job_kind == "hopping" else "size")
    groups = workload.rate * pane_seconds
    if workload.keys is not None:
        groups = min(workload.keys, groups)
    return ceil(groups * stored_seconds / pane_seconds)
