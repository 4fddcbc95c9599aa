"""What a job is: named streams, through a transform, into a sink's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Literal

from pyspark.sql import DataFrame

from ..columns import nested_names, require_storable
from ..durations import microseconds
from ..errors import ArgumentError
from ..sinks import Append, DeadTopic, Layout, Sink
from ..sinks.alarms import windows_of
from ..sinks.sink import reads_once
from ..sources import Reading
from ..transform import Stateless, Transform
from . import _checks as checks
from ._backlog import require_backlog
from ._by_log import require_by_log, require_unsplit
from .limits import Limits
from .locations import keep_apart, whole
from .places import Places, places_of
from .telemetry.metrics import LOOPBACK
from .upkeep import Upkeep

Emission = Literal["final", "updates"]


@dataclass(frozen=True)
class Input:
    """One stream that a job reads.

    watermarks: into how many shares the partitions are divided, each with a watermark of its own,
        or one for each "partition". The smallest counts: where partitions are read at different
        speeds, rows of a slow one are not late because a fast one ran ahead. A checkpoint is bound
        to the number that it began with: partitions that are added to a topic later are shared out
        among those streams at the next start of the job. With "log", of each partition too, and
        a row is late by the records before it in its own partition, and by nothing else: which rows
        are late, and so the results, then do not hang on where batches begin and end, on restarts,
        or on whether a backlog was worked off. Such a job's results are final ones, and a partition
        that is added to a topic takes a new checkpoint.
    idle: when no row came for so long and none waits in the topic, the watermark goes on with the
        clock, and so the last windows come out. Of several streams an idle one then follows the
        others. Rows that come afterwards may be late. None, the default, waits for ever. Only for a
        job that runs on: a replay has no clock.

    Raises ArgumentError and ColumnTypeError, at construction: for a number of watermarks below 1,
    several watermarks with a pattern of topics, an idle time-out below a second; and with "log" for
    an idle time-out, or options by which a partition is read by several tasks.
    """

    reading: Reading
    _: KW_ONLY
    watermarks: int | Literal["partition", "log"] = 1
    idle: str | timedelta | None = None

    def __post_init__(self) -> None:
        checks.require_type(self.reading, Reading, "reading", "Reading(source=..., format=...)")
        if self.idle is not None:
            microseconds(self.idle, "idle", least=1_000_000)
        if self.watermarks not in ("partition", "log"):
            checks.require_count(self.watermarks, "watermarks", least=1)
        if self.watermarks != 1 and self.reading.source.pattern:
            raise ArgumentError(
                f"watermarks is {self.watermarks!r}, with a pattern of topics.",
                "several watermarks for topics or partitions that are named.",
            )
        if self.by_log:
            require_unsplit(self.idle, self.reading.source.options)

    @property
    def by_log(self) -> bool:
        """Whether its rows are late by the log alone."""
        return self.watermarks == "log"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One query: good rows -> `transform` -> `each_batch` -> `sink`; all other rows beside it.

    inputs: by name. Their order is the order of the transform's arguments, and a checkpoint is
        bound to it. With several inputs the watermark is the smallest of theirs, so that a quiet
        input holds the results back.
    transform: called with one DataFrame for each input. It says itself which rows are late:
        windows, joins and deduplication do, and `Stateless` or `Stateful` say it of a function.
        None hands the rows on as they are: one row out for each good row in, which is checked batch
        by batch.
    each_batch: called in every micro-batch with the transform's rows, and gives the sink's. Without
        a transform it gets the rows of the one input, or of each input by its name as a keyword.
    emission: "final" writes what can no longer change; "updates" writes windows while they are
        open.
    corrections: for so long after a row became late it still corrects its windows. Both this and
        "updates" need windows that merge and the sink `Corrected`.
    checkpoint, dead, late, gaps: where the checkpoint, the dead letters, the late rows and the
        ranges of offsets that were lost are kept; beside the sink's table where not given. `late`
        is a path, or with several inputs a path by name. A step is "dead", "gaps", "late", or
        "late_<input>" where there are several.
    dead_topic: a topic that dead letters are sent to as well, at least once; not one that is read.
    side_layout: how dead letters, late rows and gaps are laid out, by the columns that each of
        these tables has: topic and partition.
    upkeep: how often the files of the tables are put together, and old ones deleted; never, unless
        it is said.
    catalog: a schema, as `shop` or `main.shop`, in which each table is made known by its folder's
        name once it is there. The tables stay where their paths say.
    every: the interval of a job that runs on; None reads what there is, then ends.
    backlog: from how many waiting records on a new checkpoint works them off as one batch before
        its stream begins, with the same rows. 0 does it whatever waits; None, the default, reads
        everything as a stream. The batch leaves out no row as late.
    metrics_port, metrics_address: where the run's numbers are served, to this machine alone unless
        the address says otherwise: see `tidegate.runtime.telemetry.metrics`.
    report: an HTML file of this machine with the run's numbers, charts and dead letters by reason,
        which is written anew as the run goes on and at its end.

    Raises ArgumentError and ColumnTypeError, at construction, for parts that do not fit together:
    inputs that may read the same topic, a transform that does not say what is late or takes another
    number of frames, tables and checkpoint within one another, an idle time-out in a job that ends
    by itself, corrections without windows that can be corrected, and a backlog that cannot be
    worked off as a batch.
    """

    name: str
    inputs: Mapping[str, Input]
    sink: Sink
    transform: Transform | None = None
    each_batch: Callable[..., DataFrame] | None = None
    emission: Emission = "final"
    corrections: str | timedelta | None = None
    checkpoint: str | None = None
    dead: str | None = None
    dead_topic: DeadTopic | None = None
    side_layout: Layout = field(default_factory=Layout)
    late: str | Mapping[str, str] | None = None
    gaps: str | None = None
    limits: Limits = field(default_factory=Limits)
    upkeep: Upkeep = field(default_factory=Upkeep)
    catalog: str | None = None
    every: str | timedelta | None = None
    backlog: int | None = None
    metrics_port: int | None = None
    metrics_address: str = LOOPBACK
    report: str | None = None

    def __post_init__(self) -> None:
        checks.require_name(self.name)
        checks.require_inputs(self.inputs, Input)
        checks.require_topics_apart([given.reading.source for given in self.inputs.values()])
        checks.require_sink(self.sink)
        checks.require_transform(self.transform, list(self.inputs))
        checks.require_dead_topic(
            self.dead_topic, [given.reading.source for given in self.inputs.values()]
        )
        checks.require_each_batch(self.each_batch, self.transform, list(self.inputs))
        self._require_correctable()
        require_by_log(self)
        self._require_trigger()
        checks.require_type(self.limits, Limits, "limits", "Limits(dead_ratio=None)")
        checks.require_type(self.upkeep, Upkeep, "upkeep", "Upkeep(compact_every=200)")
        checks.require_side_layout(
            self.side_layout, [given.reading.format.schema for given in self.inputs.values()]
        )
        self._require_places()
        self._require_storable()
        if self.backlog is not None:
            checks.require_count(self.backlog, "backlog")
            require_backlog(self)

    @property
    def places(self) -> Places:
        """Where the checkpoint, the dead letters and each input's late rows are."""
        return places_of(self)

    @property
    def by_log(self) -> bool:
        """Whether its rows are late by the log alone; all inputs have it then."""
        return any(given.by_log for given in self.inputs.values())

    @property
    def merges(self) -> bool:
        """Whether the sink merges windows with unfinished aggregates into those that it has."""
        return windows_of(self.sink) is not None

    @property
    def keeps_state(self) -> bool:
        """Whether the query keeps rows from batch to batch, which no table has yet."""
        if self.transform is None or self.emission == "updates":
            return False
        return not isinstance(self.transform, Stateless)

    @property
    def one_to_one(self) -> bool:
        """Whether each good row must come out of the stream as one row."""
        if isinstance(self.transform, Stateless):
            return self.transform.one_to_one
        return self.transform is None or self.emission == "updates"

    @property
    def written_as_read(self) -> bool:
        """Whether the stream's rows go to the target as they are read; without state alone."""
        return self.written_as_computed and not self.keeps_state

    @property
    def written_as_computed(self) -> bool:
        """Whether rows can go to the target as they are computed, and be counted on the way.

        Nothing of each batch stands between, and the sink reads them once. All others are kept
        until they are counted.
        """
        told = self.sink_hands_on or self.one_to_one
        return self.each_batch is None and not self.merges and told and reads_once(self.sink)

    @property
    def sink_hands_on(self) -> bool:
        """Whether the target gets the rows as the query gives them."""
        return isinstance(self.sink, Append)

    def _require_correctable(self) -> None:
        if self.emission not in ("final", "updates"):
            raise ArgumentError(f"emission is {self.emission!r}.", "'final' or 'updates'.")
        if self.corrections is not None:
            microseconds(self.corrections, "corrections", least=0)
        if self.merges or self.corrections is not None or self.emission == "updates":
            checks.require_merging(self.sink, self.transform, self.each_batch, len(self.inputs))

    def _require_trigger(self) -> None:
        if self.every is not None:
            microseconds(self.every, "every", least=0)
        elif any(given.idle is not None for given in self.inputs.values()):
            raise ArgumentError(
                "an input has an idle time-out, and the job ends when it has read what there is.",
                "idle for a job that runs on.",
                'every="10 seconds", or no idle.',
            )
        if self.metrics_port is not None:
            checks.require_count(self.metrics_port, "metrics_port", least=1, most=65_535)
        if self.report is not None:
            checks.require_path(self.report, "report")

    def _require_storable(self) -> None:
        """Refuse fields that the target or the late table would have to hold, and cannot."""
        as_they_are = self.transform is None and self.each_batch is None
        if as_they_are or not isinstance(self.transform, Stateless | None):
            for name, given in self.inputs.items():
                fields = nested_names(given.reading.format.schema)
                require_storable(fields, f"the input {name!r}")

    def _require_places(self) -> None:
        checks.require_late(self.late, list(self.inputs))
        if self.catalog is not None:
            checks.require_schema(self.catalog)
        for what in ("checkpoint", "dead", "gaps"):
            if getattr(self, what) is not None:
                checks.require_path(getattr(self, what), what)
        places = self.places
        # Two steps may share one of the sink's tables; nothing else may share a folder.
        written = {whole(path): f"the sink's {step!r}" for path, step in self.sink.tables()}
        beside = [("dead", places.dead.path), ("gaps", places.gaps.path)]
        beside += [(table.step, table.path) for table in places.late.values()]
        keep_apart([*((name, path) for path, name in written.items()), *beside], places.checkpoint)
