"""A job's target held against the batch over the log that the target was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...columns import quoted, type_of
from ...commit import EPOCH, Batch, planned
from ...commit.identity import NEVER, Identity
from ...commit.plan_file import first_offsets
from ...commit.stamp import app_id
from ...commit.table import at_version
from ...commit.table_log import TableLog
from ...differences import Differences, differences
from ...errors import CheckpointError, DifferenceError
from ...offsets import Offsets, at_place
from ...sinks import Mapped, SideTable, Sink
from ...sources import Reading
from ...sources.aside import Behind
from ...windows import Windowed
from ..job import Job
from .by_log import by_log
from .comparable import EXACT, freshness, require_comparable
from .frames import streaming
from .gaps import require_there
from .preflight import Preflight

_MICRO = timedelta(microseconds=1)


def compare(job: Job, spark: SparkSession, *, ignore: Sequence[str] = ()) -> Differences:
    """Compute a job's rows anew as one batch, and compare them with those in its target.

    The batch reads the topics from where the checkpoint began up to the end of its last whole
    batch, without the rows that are in the late tables; where rows are late by the log, without
    those that it says are, and the late tables are held against these. Compared are the results
    that had to be out by then, those up to the watermark. Nothing is written. The cost is that of
    the batch over the whole range.

    ignore: columns of the target that are not compared, such as estimates.

    Raises:
        ColumnTypeError: for a job whose target cannot be told from its log: with `each_batch`,
            corrections or emission "updates", a sink other than Append or Upsert without aggs, or
            a transform that does not tell the time of its results.
        CheckpointError: for a checkpoint without a whole batch, or with one that is in the target
            and not whole; and what the checks of a start raise.
        SourceError: where the topics no longer have all that was read.
        DifferenceError: for a late table of other rows than are late by the log.
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
    if identity.resumed is not None and not job.keeps_state:
        raise CheckpointError(
            f"{job.places.checkpoint} began where another ended, and {job.sink.path} has rows of "
            "before, which no offset tells from its own.",
            "a checkpoint that has read all that its target holds.",
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


def _require_whole(job: Job, identity: Identity, query: str | None, target: TableLog) -> None:
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
            number, inputs[name] = self._in_time(name, given.reading)
            late += number
        expected = self._compared(_mapped(self.job.sink, streaming(self.job, inputs)))
        held = expected.limit(0)
        if self.version >= 0:
            held = at_version(self.spark, self.job.sink.path, self.version)
        told = differences(
            expected,
            self._compared(held),
            keys=self._keys(),
            ignore=ignore,
            due=self._due(),
            late=late,
        )
        return replace(told, ahead=self._ahead(held))

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

    def _in_time(self, name: str, reading: Reading) -> tuple[int, DataFrame]:
        """Return the rows of an input that were not late, and how many were."""
        own = self._own(reading)
        rows = reading.rows(self.spark, own.start, own.end)
        late = self._late(reading, self.job.places.late[name])
        if self.job.inputs[name].by_log:
            late = self._late_by_log(name, reading, own, late)
        number = late.count()
        if number:
            rows = rows.join(late, reading.place, "left_anti")
        return number, rows.select(*map(quoted, reading.columns))

    def _late(self, reading: Reading, table: SideTable) -> DataFrame:
        """Return the places of the rows in the late table."""
        mark = self.identity.tables.get(table.step)
        places = map(quoted, reading.place)
        if mark is None:
            return reading.rows(self.spark, {}, {}).select(*places)
        return at_version(self.spark, table.path, mark.version).select(*places)

    def _late_by_log(self, name: str, reading: Reading, own: Batch, kept: DataFrame) -> DataFrame:
        """Return the places of the rows that the log says are late.

        Raises:
            DifferenceError: where the late table has others.
        """
        resumed = self.identity.resumed
        before = None if resumed is None else resumed.newest
        behind = Behind.by_log(by_log(self.job)[name], before or {})
        aside = reading.aside(self.spark, own.start, own.end, behind)
        late = aside.late().select(*map(quoted, reading.place))
        topic, partition, offset = map(quoted, reading.place)
        # What came before a checkpoint that was lost is in the table too.
        kept = kept.where(offset >= F.coalesce(at_place(own.start, topic, partition), F.lit(0)))
        missing, extra = late.exceptAll(kept).count(), kept.exceptAll(late).count()
        if missing or extra:
            raise DifferenceError(
                f"the late table of {name!r} lacks {missing:,} rows that are late by the log, and "
                f"has {extra:,} that are not.",
                "the rows that the same offsets give.",
            )
        return late

    def _compared(self, rows: DataFrame) -> DataFrame:
        """Leave out the results that are not out, and those whose state was lost."""
        time = self._time
        if time is None:
            return rows
        type_of(rows, time, "the time of a result")
        kept = rows.where(self._reached(time))
        resumed = self.identity.resumed
        whole = None if resumed is None else resumed.whole
        return kept if whole is None else kept.where(time > F.timestamp_micros(F.lit(whole)))

    def _ahead(self, held: DataFrame) -> int:
        """Return how many results are out which the watermark has not reached, such as matches."""
        time = self._time
        return 0 if time is None else held.where(~self._reached(time)).count()

    def _reached(self, time: Column) -> Column:
        return F.coalesce(time <= F.lit(self.last.watermark), F.lit(False))

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
        if isinstance(transform, Windowed) and isinstance(transform.window, EXACT):
            return ["window", *transform.by]
        return ()


def _mapped(sink: Sink, rows: DataFrame) -> DataFrame:
    """Return what the sinks around the innermost one make of the rows."""
    return _mapped(sink.sink, sink.rows(rows)) if isinstance(sink, Mapped) else rows
