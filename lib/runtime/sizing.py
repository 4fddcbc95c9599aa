"""What a job needs: cores, state, commits and files, worked out from measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

from ..durations import microseconds
from ..errors import ArgumentError

Kind = Literal["tumbling", "hopping", "sliding", "session", "join", "enrich"]

A_DAY = 86_400
MANY_FILES = 1_000_000
"""From so many files on, reading a table's log takes longer than a small batch."""
_MICRO = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one kind of job.

    a_core: events a second that one core takes, from Kafka to Delta.
    bytes: of state on disk, for what is kept. keeps: what that is.
    """

    a_core: int
    bytes: int
    keeps: Literal["windows", "events", "nothing"]


MEASURED: Mapping[Kind, Figures] = {
    "tumbling": Figures(a_core=90_000, bytes=20, keeps="windows"),
    "hopping": Figures(a_core=83_000, bytes=20, keeps="windows"),
    "sliding": Figures(a_core=25_000, bytes=70, keeps="events"),
    "session": Figures(a_core=58_000, bytes=21, keeps="events"),
    "join": Figures(a_core=40_000, bytes=43, keeps="events"),
    "enrich": Figures(a_core=59_000, bytes=0, keeps="nothing"),
}
"""Figures of docs/benchmarks.md; replace them by those of your own events and machines."""

BATCH_SECONDS = 1.5
"""What a batch with a commit takes, however small it is."""
SCANNED = 1_000_000
"""How much of what is kept one core looks through in a second, as each batch does for what ends."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a job has to do.

    rate: events a second, of all inputs. keys: how many different ones there are at a time; None
        for one of each event's own.
    size: of a window; the gap of sessions; how far apart a join's rows may be. hop: of hopping.
    lateness: as in the job's inputs. every: from one batch to the next.
    free: which share of the cores is left for catching up.

    Raises:
        ArgumentError: at construction, for a number or duration that cannot be.
    """

    kind: Kind
    rate: float
    keys: int | None = None
    size: str = "1 minute"
    hop: str | None = None
    lateness: str = "10 seconds"
    every: str = "10 seconds"
    free: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            allowed = f"one of {', '.join(get_args(Kind))}."
            raise ArgumentError(f"kind is {self.kind!r}.", allowed)
        if self.rate <= 0 or (self.keys is not None and self.keys < 1) or not 0 <= self.free < 1:
            raise ArgumentError(
                f"rate is {self.rate}, keys is {self.keys}, free is {self.free}.",
                "a rate above 0, at least one key, and a share of at least 0 and below 1.",
            )
        for name in ("size", "hop", "every"):
            if getattr(self, name) is not None:
                microseconds(getattr(self, name), name)
        microseconds(self.lateness, "lateness", least=0)

    def seconds(self, name: Literal["size", "hop", "lateness", "every"]) -> float:
        """Return one of the durations; the hop of a job without one is the size."""
        value = getattr(self, name) or self.size
        return microseconds(value, name, least=0) / _MICRO


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a job needs.

    cores: so that `free` of them is left. kept: windows of a key, or events, in the state.
    state: bytes of it on disk. commits, files: of the target in a day, at most.
    shares: by limit, which share of it is used: of the time between two batches, what the commit
        takes, and what looking through the state takes; and the files of a day of MANY_FILES.
    """

    cores: int
    kept: int
    state: int
    commits: int
    files: int
    shares: Mapping[str, float]

    @property
    def first(self) -> str:
        """The limit that comes first."""
        return max(self.shares, key=lambda name: self.shares[name])


def size(load: Load, figures: Figures | None = None) -> Need:
    """Work out what a job needs, by the measured figures of its kind or by your own.

    >>> need = size(Load(kind="tumbling", rate=1_000_000, keys=100_000_000, every="30 seconds"))
    >>> need.cores, need.kept, need.commits, need.files, need.first
    (23, 70000000, 2880, 66240, 'state')
    """
    measured = figures or MEASURED[load.kind]
    cores = ceil(load.rate / measured.a_core / (1 - load.free))
    kept = _kept(load, measured)
    commits = ceil(A_DAY / load.seconds("every"))
    files = commits * cores
    return Need(
        cores=cores,
        kept=kept,
        state=kept * measured.bytes,
        commits=commits,
        files=files,
        shares={
            "commits": BATCH_SECONDS / load.seconds("every"),
            "state": kept / SCANNED / cores / load.seconds("every"),
            "files": files / MANY_FILES,
        },
    )


def _kept(load: Load, figures: Figures) -> int:
    span = load.seconds("size")
    late = load.seconds("lateness")
    if figures.keeps == "nothing":
        return 0
    if figures.keeps == "events":
        return ceil(load.rate * (span + late))
    # Hopping windows are made of panes, which are kept in their place.
    pane = load.seconds("hop") if load.kind == "hopping" else span
    groups = load.rate * pane if load.keys is None else min(load.keys, load.rate * pane)
    return ceil(groups * (span + late) / pane)
