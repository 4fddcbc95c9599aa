"""A job's target held against the batch over the log that the target was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...columns import quoted, type_of
from ...commit import EPOCH, Batch, planned
from ...commit.delta_log import DeltaCommitLog
from ...commit.identity import NEVER, Identity
from ...commit.plan_file import first_offsets
from ...commit.stamp import app_id
from ...differences import Differences, differences
from ...durations import microseconds
from ...errors import CheckpointError, ColumnTypeError, DifferenceError
from ...offsets import Offsets
from ...sinks import Append, Corrected, Mapped, SideTable, Sink, Upsert
from ...sources import Reading
from ...transform import Stateless
from ...windows import Cumulative, Hopping, Session, Tumbling, Windowed
from ..job import Job
from .frames import streaming
from .gaps import require_there
from .preflight import Preflight

_MICRO = timedelta(microseconds=1)
_EXACT = (Tumbling, Hopping, Cumulative)


def compare(job: Job, spark: SparkSession, *, ignore: Sequence[str] = ()) -> Differences:
    """Compute a job's rows anew as one batch, and compare them with those in its target.

    The batch reads the topics from where the checkpoint began up to the end of its last whole
    batch, without the rows that are in the late tables. Compared are the results that had to be out
    by then, those up to the watermark. Nothing is written. The cost is that of the batch over the
    whole range.

    ignore: columns of the target that are not compared, such as estimates.

    Raises:
        ColumnTypeError: for a job whose target cannot be told from its log: with `each_batch`,
            corrections or emission "updates", a sink other than Append or Upsert without aggs, or
            a transform that does not tell the time of its results.
        CheckpointError: for a checkpoint without a whole batch, or with one that is in the target
            and not whole; and what the checks of a start raise.
        SourceError: where the topics no longer have all that was read.
    """
    require_comparable(job)
    checks = Preflight(job, spark)
    identity = checks.require()
    if identity.batch == NEVER:
        raise CheckpointError(
            f"{job.places.checkpoint} has no whole batch.",
            "a checkpoint that has written its tables.",
            "run the job first.",
        )
    target = checks.tables[job.sink.step]
    _require_whole(job, identity, checks.query, target)
    batch = planned(
        spark,
        job.places.checkpoint,
        job=job.name,
        query_id="compare",
        run_id="compare",
        number=identity.batch,
    )
    worked_off = identity.backlog
    begun = first_offsets(spark, job.places.checkpoint) if worked_off is None else worked_off.start
    read = _Range(job, spark, identity, batch, begun, target.version)
    read.require_there()
    return read.differences(ignore)


def _require_whole(job: Job, identity: Identity, query: str | None, target: DeltaCommitLog) -> None:
    """Refuse a target that has a batch which is not whole yet."""
    last = target.done(app_id(job.name, query or "", job.sink.step))
    if last is not None and last > identity.base + identity.batch:
        raise CheckpointError(
            f"{target.path} has batch {last}, and the last whole one is "
            f"{identity.base + identity.batch}: the job runs, or ended in the middle of a batch.",
            "a target that ends with a whole batch.",
            "start the job, let it finish, then compare.",
        )


def require_agreement(job: Job, found: Differences) -> None:
    """Refuse differences.

    Raises:
        DifferenceError: which tells them.
    """
    if not found.agree:
        raise DifferenceError(
            f"{job.sink.path} differs from what the log of {job.name!r} gives: {found}",
            "the rows that the batch over the same offsets gives.",
        )


def require_comparable(job: Job) -> None:
    """Refuse a job whose target does not follow from its log alone.

    Raises:
        ColumnTypeError: which says what stands in the way.
    """
    sink = innermost(job.sink)
    stateless = job.transform is None or isinstance(job.transform, Stateless)
    reasons = {
        "each_batch, which may have seen other tables then": job.each_batch is not None,
        "windows that change after they came out": job.emission == "updates"
        or job.corrections is not None
        or isinstance(sink, Corrected),
        f"the sink {type(sink).__name__}": not isinstance(sink, Append | Upsert),
        "a sink that adds up": isinstance(sink, Upsert) and bool(sink.aggs),
        "a sink that replaces rows without a result's time": isinstance(sink, Upsert) and stateless,
        f"{type(job.transform).__name__}, which does not tell the time of its results": (
            not stateless and (job.transform is None or job.transform.result_time is None)
        ),
    }
    for reason, given in reasons.items():
        if given:
            raise ColumnTypeError(
                f"{job.name!r} has {reason}: its target cannot be computed anew from the log.",
                "final results of a transform that tells their time, or of one without state, in "
                "Append; or in Upsert without aggs.",
            )


def innermost(sink: Sink) -> Sink:
    """Return the sink that writes, without those that change the rows before."""
    return innermost(sink.sink) if isinstance(sink, Mapped) else sink


@dataclass(frozen=True)
class _Range:
    """What a job has read up to its last whole batch."""

    job: Job
    spark: SparkSession
    identity: Identity
    last: Batch
    begun: Offsets
    version: int

    def require_there(self) -> None:
        """Refuse topics that have lost some of it."""
        for given in self.job.inputs.values():
            require_there(self.spark, given.reading.source, self._own(given.reading))

    def differences(self, ignore: Sequence[str]) -> Differences:
        """Return how the target differs."""
        late = 0
        inputs = {}
        for name, given in self.job.inputs.items():
            number, inputs[name] = self._in_time(given.reading, self.job.places.late[name])
            late += number
        expected = self._compared(_mapped(self.job.sink, streaming(self.job, inputs)))
        found = expected.limit(0)
        if self.version >= 0:
            found = self._compared(_at(self.spark, self.job.sink.path, self.version))
        return differences(
            expected, found, keys=self._keys(), ignore=ignore, due=self._due(), late=late
        )

    def _own(self, reading: Reading) -> Batch:
        """Return the range of one input."""
        source = reading.source
        named = set(self.last.end) if source.pattern else set(source.named)
        whole = Batch(
            job=self.job.name,
            query_id="compare",
            run_id="compare",
            number=0,
            offsets_hash="",
            start=self.begun,
            end=self.last.end,
            watermark=EPOCH,
        )
        return whole.of(named)

    def _in_time(self, reading: Reading, table: SideTable) -> tuple[int, DataFrame]:
        """Return the rows of an input that were not late, and how many were."""
        own = self._own(reading)
        rows = reading.rows(self.spark, own.start, own.end)
        places = reading.place
        number = 0
        mark = self.identity.tables.get(table.step)
        if mark is not None:
            late = _at(self.spark, table.path, mark.version).select(*map(quoted, places))
            number = late.count()
            rows = rows.join(late, places, "left_anti")
        return number, rows.select(*map(quoted, reading.columns))

    def _compared(self, rows: DataFrame) -> DataFrame:
        """Leave out the results that are not out, and those whose state was lost."""
        time = self._time
        if time is None:
            return rows
        type_of(rows, time, "the time of a result")
        kept = rows.where(time <= F.lit(self.last.watermark))
        resumed = self.identity.resumed
        whole = None if resumed is None else resumed.whole
        return kept if whole is None else kept.where(time > F.timestamp_micros(F.lit(whole)))

    def _due(self) -> Column | None:
        """Return which results may still come, though the watermark has reached their time."""
        time, slack = self._time, freshness(self.job)
        if time is None or not slack:
            return None
        return time > F.lit(self.last.watermark - slack)

    @property
    def _time(self) -> Column | None:
        transform = self.job.transform
        return None if transform is None else transform.result_time

    def _keys(self) -> Sequence[str]:
        transform = self.job.transform
        if isinstance(transform, Windowed) and isinstance(transform.window, _EXACT):
            return ["window", *transform.by]
        return ()


def freshness(job: Job) -> timedelta:
    """Return how long after a result's time it may still be missing, at most."""
    transform = job.transform
    if isinstance(transform, Windowed) and isinstance(transform.window, _EXACT):
        return timedelta(0)
    if isinstance(transform, Windowed) and isinstance(transform.window, Session):
        gap = transform.window.gap
        # A gap that is a column has no longest one; sessions of a day are taken for open.
        return timedelta(days=1) if isinstance(gap, Column) else microseconds(gap) * _MICRO
    reach = None if transform is None else transform.reach
    # A join waits for a pane and a slice beyond its bounds; a pane is a second at least.
    return 3 * max(reach or timedelta(days=1), timedelta(seconds=1))


def _mapped(sink: Sink, rows: DataFrame) -> DataFrame:
    """Return what the sinks around the innermost one make of the rows."""
    return _mapped(sink.sink, sink.rows(rows)) if isinstance(sink, Mapped) else rows


def _at(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Return a table as it was."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)
