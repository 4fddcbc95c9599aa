"""One micro-batch: read and count, verify, then write, with the target last.

The backfill runs the same steps over a range of offsets (`backfill`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..aggregates import OVERFLOW, Overflows
from ..columns import quoted_column
from ..commit.batch import BatchPlan, BatchStats, CommitContext, read_batch_plan
from ..commit.concurrent import start_pending_write
from ..commit.delta_commit import require_current
from ..commit.driver_lease import DriverLease
from ..commit.protocol import Outcome
from ..job.dataflow import LateRows, sink_frames
from ..job.job import Job
from ..jvm import (
    LOST_ROWS_CONDITION,
    condition_names,
    read_latest_source_offsets,
    rows_dropped_by_watermark,
    set_task_property,
    without_ordering,
)
from ..offsets import EventTimes, select_topics
from ..process.shutdown import Stop
from ..sinks.base import AcceptedRows
from ..sources.log_watermark import MAX_TIMES_PROPERTY, to_property
from ..startup.environment import table_paths
from ..startup.resume import with_resumed_watermark
from ..telemetry.run_metrics import RunMetrics
from ..windows import WindowAggregation
from .accounting import (
    ObservedCounts,
    RecounterFactory,
    check_dead_letter_limit,
    check_dropped_rows,
    check_stopping_rows,
    clock_alarm,
    count_rows_out,
    describe_excess_late_rows,
    report_overflows,
)
from .backfill_planning import with_backfill_watermark, without_backfilled_offsets
from .maintenance import run_maintenance
from .offset_gaps import (
    OffsetGap,
    count_lost_offsets,
    format_gaps,
    is_written,
    require_rows_outside_gaps,
    without_gaps,
    write_gaps,
)
from .side_outputs import (
    InputBatch,
    RejectedRows,
    SideOutput,
    count_by_reason,
    count_input,
    describe_reasons,
    read_side_outputs,
    write_side_outputs,
)
from .streams import (
    InputStream,
    input_plan,
    max_event_times_after,
    max_event_times_before,
)
from .topic_monitor import TopicMonitor

_LOG = logging.getLogger(__name__)
_MAX_RETRIES = 3
"""The number of retries of a write after a lost executor."""
_QUERY_START_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class PreparedTarget:
    """The rows of a batch that the sink will write, and those that it cannot store.

    write: commits the rows. rejected_rows: None if there are none.
    deferred_rows: as in `AcceptedRows`.
    """

    write: Callable[[CommitContext], str]
    rejected_rows: RejectedRows | None = None
    deferred_rows: int = 0


@dataclass(frozen=True)
class TargetWrite:
    """The counted rows of a batch, and the function that prepares their write to the target.

    rows_out: the number of rows; None if only known to be one row for each good row.
    prepare: computes the rows that the sink gets from those of the verified batch and from the late
        rows that correct windows. It fails before anything is written.
    overflows: the results that do not fit their types.
    """

    rows_out: int | None
    prepare: Callable[[Sequence[LateRows]], AbstractContextManager[PreparedTarget]]
    overflows: Overflows = field(default_factory=Overflows)


@contextmanager
def read_and_count(
    job: Job,
    frame: DataFrame,
    batch: CommitContext,
    *,
    persist_rows: bool,
    frame_to_persist: DataFrame | None = None,
) -> Iterator[TargetWrite]:
    """Read and count the rows of a batch; the block commits them with `TargetWrite.prepare`.

    persist_rows: whether rows are persisted and counted before they are written, which state and
        sinks that read the rows several times require. Otherwise rows are counted as they are
        written, and the commit waits for the block. Rows that the sink might reject are persisted
        in any case.
    frame_to_persist: the frame to persist, if the rows are only a part of it.
    """
    rows = frame.drop(OVERFLOW)
    if not persist_rows and OVERFLOW not in frame.columns and not _find_rejections(job, rows):

        def write(context: CommitContext) -> Outcome:
            with sink_frames(job, rows, []) as frames:
                return job.sink.write(frames, context)

        with start_pending_write(write, batch, frame.sparkSession) as (pending_write, commit):
            row_count = pending_write.wait_for_rows()
            if row_count is not None:
                is_empty = _is_empty_batch(job, row_count, batch.plan)
                prepared = PreparedTarget(lambda context: "empty" if is_empty else commit(context))
                yield TargetWrite(
                    row_count if job.sink_preserves_rows else None, lambda _: nullcontext(prepared)
                )
                return
    # The rows are counted even if the table already has the batch.
    persisted_frame = (frame if frame_to_persist is None else frame_to_persist).persist()
    try:
        row_count, overflows = _count_rows(job, frame)
        prepare = partial(_prepare_rows, job, rows, row_count, batch.plan)
        yield TargetWrite(row_count, prepare, overflows)
    finally:
        persisted_frame.unpersist()


def _count_rows(job: Job, frame: DataFrame) -> tuple[int, Overflows]:
    """Return the number of rows, and those with a result that does not fit its type."""
    if OVERFLOW not in frame.columns or not isinstance(job.transform, WindowAggregation):
        return frame.count(), Overflows()
    counts = frame.agg(F.count(F.lit(1)), F.count(quoted_column(OVERFLOW))).collect()[0]
    row_count, overflow_count = counts
    return row_count, job.transform.find_overflows(frame) if overflow_count else Overflows()


def _is_empty_batch(job: Job, row_count: int, plan: BatchPlan) -> bool:
    """Return whether a batch has no rows and need not be committed.

    The first batch is always committed: it creates the table and checks its ownership. So are
    batches that may finalize windows in the table without a new row.
    """
    return not row_count and plan.number > 0 and not job.merges_windows


def _find_rejections(job: Job, frame: DataFrame) -> dict[str, Column]:
    """Return why the sink cannot store a row of the query, for a sink that gets just these rows."""
    with sink_frames(job, frame, []) as frames:
        return job.sink.rejections(frames)


@contextmanager
def _prepare_rows(
    job: Job, frame: DataFrame, row_count: int, plan: BatchPlan, late_rows: Sequence[LateRows]
) -> Iterator[PreparedTarget]:
    """Compute the rows that the sink gets, from persisted rows, and split off those it rejects."""
    if _is_empty_batch(job, row_count, plan):
        yield PreparedTarget(lambda _: "empty")
        return
    with sink_frames(job, frame, late_rows) as frames:
        if job.builds_rows_per_batch:
            # An error of the job's function must precede the commits of the side outputs.
            for rows in frames.values():
                rows.count()
        rows_out = None if job.builds_rows_per_batch else row_count
        # A table with other columns is refused before the commits of the side outputs: the job can
        # then be changed before it writes the batch.
        job.sink.check_schema(lambda: frames)
        rejected: list[RejectedRows] = []
        for name, reason in job.sink.rejections(frames).items():
            found = RejectedRows.find(frames[name], reason)
            if found is not None:
                frames = {**frames, name: frames[name].where(reason.isNull())}
                rejected.append(found)
        with job.sink.accepted(frames, plan) as accepted:
            for find, rejections in (
                (RejectedRows.find, accepted.rejections),
                (RejectedRows.find_records, accepted.rejected_records),
            ):
                for rows, reason in rejections:
                    found = find(rows, reason)
                    if found is not None:
                        rejected.append(found)
            rejected_rows = reduce(RejectedRows.union, rejected) if rejected else None
            if rows_out is not None and rejected_rows is not None:
                rows_out -= rejected_rows.count
            if rows_out is not None:
                rows_out -= accepted.deferred_rows
            write = partial(_write_rows, job, accepted, rows_out)
            yield PreparedTarget(write, rejected_rows, accepted.deferred_rows)


def _write_rows(
    job: Job, accepted: AcceptedRows, rows_out: int | None, batch: CommitContext
) -> str:
    """Write persisted rows; retry if an executor was lost with rows that the sink had persisted.

    A retry skips tables that are already committed.
    """
    message = "batch %s: rows were lost with an executor; writing it again"
    for _ in range(_MAX_RETRIES):
        try:
            return accepted.write(job.sink, batch, rows_out)
        except Exception as error:
            if LOST_ROWS_CONDITION not in condition_names(error):
                raise
            _LOG.warning(message, batch.plan.number)
    return accepted.write(job.sink, batch, rows_out)


@dataclass(frozen=True)
class VerifiedBatch:
    """A batch that is read and verified, and not yet written.

    observed: the counts of all inputs.
    rows_out: the number of output rows.
    overflows: the number of results of the query that do not fit their types.
    max_event_times: as in the stamp.
    gaps: the offsets of the plan that the topics have lost.
    """

    plan: BatchPlan
    inputs: Sequence[InputBatch]
    observed: ObservedCounts
    rows_out: int
    overflows: int
    max_event_times: EventTimes | None
    gaps: Sequence[OffsetGap]


@dataclass
class BatchSteps:
    """The steps that micro-batches and the backfill share: verify a batch, then commit it.

    detailed: whether the reasons of dead letters are counted for metrics.
    """

    job: Job
    spark: SparkSession
    lease: DriverLease
    topic_monitor: TopicMonitor
    detailed: bool = False

    def __post_init__(self) -> None:
        self.recounters = RecounterFactory(self.job, self.spark)

    def verify(
        self,
        plan: BatchPlan,
        target: TargetWrite,
        count_inputs: Callable[[], list[InputBatch]],
        previous_event_times: EventTimes | None = None,
        gaps: Sequence[OffsetGap] = (),
    ) -> VerifiedBatch:
        """Check the topics, the row counts and the dead letter limits of a batch that was read.

        count_inputs: returns the part of each input, with row counts that match its offsets.
        previous_event_times: the maximum event times before the batch, for watermarks="log".
        """
        self.topic_monitor.request_topic_states()
        try:
            inputs = count_inputs()
        finally:
            # A re-created topic explains wrong counts, so its error takes precedence.
            self.topic_monitor.require_unchanged(without_gaps(plan, gaps))
        if gaps:
            inputs = [replace(each, plan=without_gaps(each.plan, gaps)) for each in inputs]
            require_rows_outside_gaps(self.spark, inputs)
        for input_batch in inputs:
            check_stopping_rows(
                plan,
                input_batch.observed,
                partial(describe_reasons, self.spark, input_batch, stopping_only=True),
            )
            check_dead_letter_limit(
                plan,
                input_batch.observed,
                input_batch.limits,
                partial(describe_reasons, self.spark, input_batch),
            )
        report_overflows(self.job, plan, target.overflows)
        observed = ObservedCounts.total(each.observed for each in inputs)
        alarm_text = clock_alarm(plan.number, observed.max_event_time, datetime.now(UTC))
        if alarm_text is not None:
            _LOG.warning("%s: %s", self.job.name, alarm_text)
        rows_out = count_rows_out(plan, observed, target.rows_out, one_to_one=self.job.one_to_one)
        max_event_times = max_event_times_after(
            previous_event_times, [each.batch_event_times for each in inputs]
        )
        return VerifiedBatch(
            plan, inputs, observed, rows_out, target.overflows.count, max_event_times, gaps
        )

    def count(self, batch: VerifiedBatch, side_outputs: Mapping[str, SideOutput]) -> BatchStats:
        """Return the counts of a batch, before its commit."""
        observed = batch.observed
        event_times = [self.lease.lineage.max_event_time, observed.max_event_time]
        late_rows = [side_output.late_rows for side_output in side_outputs.values()]
        return BatchStats(
            number=batch.plan.number,
            rows_in=observed.rows,
            rows_out=batch.rows_out,
            dead_letters=observed.dead_letters,
            late_rows=sum(each.count for each in late_rows),
            corrected_rows=sum(each.corrected_count for each in late_rows),
            clamped_rows=observed.clamped_rows,
            filtered_rows=observed.filtered_rows,
            discarded_rows=observed.discarded_rows,
            rule_violations=observed.rule_violations,
            overflows=batch.overflows,
            watermarks={
                name: watermark
                for input_batch in batch.inputs
                for name, watermark in input_batch.watermarks.items()
            },
            max_event_time=max((time for time in event_times if time is not None), default=None),
            topic_ids=self.topic_monitor.topic_ids,
            max_event_times=batch.max_event_times,
        )

    def commit(
        self,
        batch: VerifiedBatch,
        stats: BatchStats,
        side_outputs: Mapping[str, SideOutput],
        target: TargetWrite,
    ) -> BatchStats:
        """Write the offset gaps, then the side outputs concurrently with the target.

        The target is committed last, so a batch in the target is complete.
        """
        late_rows = [side_output.late_rows for side_output in side_outputs.values()]
        with target.prepare(late_rows) as prepared:
            rejected_rows = prepared.rejected_rows
            if rejected_rows is not None:
                stats = self._count_rejected(batch, stats, rejected_rows)
            stats = replace(stats, rows_out=stats.rows_out - prepared.deferred_rows)
            return self._commit_prepared(batch, stats, side_outputs, prepared)

    def _count_rejected(
        self, batch: VerifiedBatch, stats: BatchStats, rejected_rows: RejectedRows
    ) -> BatchStats:
        """Return the counts with the rows that the sink rejects as dead letters."""
        count = rejected_rows.count
        observed = replace(batch.observed, dead_letters=batch.observed.dead_letters + count)
        check_dead_letter_limit(
            batch.plan, observed, self.job.limits, rejected_rows.describe_reasons
        )
        rows_out = stats.rows_out - (0 if self.job.builds_rows_per_batch else count)
        return replace(stats, dead_letters=stats.dead_letters + count, rows_out=rows_out)

    def _commit_prepared(
        self,
        batch: VerifiedBatch,
        stats: BatchStats,
        side_outputs: Mapping[str, SideOutput],
        prepared: PreparedTarget,
    ) -> BatchStats:
        self.lease.require_newest_epoch()
        self.lease.require_unchanged_tables(self.spark)
        overflows = stats.overflows

        def on_overflows(found: Overflows) -> None:
            nonlocal overflows
            report_overflows(self.job, batch.plan, found)
            overflows = found.count

        context = replace(self.lease.commit_context(batch.plan, stats), on_overflows=on_overflows)
        # A batch that runs again may have gaps whose records the target already has. In a stateful
        # query they are still lost: the state is computed again from the remaining records.
        sink = self.job.sink
        is_rewritten = batch.gaps and not self.job.is_stateful
        is_rewritten = is_rewritten and is_written(self.spark, context, sink.path, sink.output)
        gaps = () if is_rewritten else batch.gaps
        if gaps:
            _LOG.warning(
                "%s: records lost before they were read: %s", self.job.name, format_gaps(gaps)
            )
            write_gaps(self.job.locations.offset_gaps, self.spark, context, gaps)
        rejected_rows = prepared.rejected_rows
        with write_side_outputs(
            self.job, self.spark, context, side_outputs, rejected_rows
        ) as target_context:
            outcome = prepared.write(target_context)
        reasons = count_by_reason(side_outputs.values(), rejected_rows) if self.detailed else {}
        return replace(
            stats,
            outcome=outcome,
            overflows=overflows,
            lost_offsets=count_lost_offsets(gaps),
            dead_letter_reasons=reasons,
        )


@dataclass
class MicroBatchProcessor:
    """The function that Spark calls with each micro-batch.

    `failure` is the exception of a failed batch; Spark reports only its text.
    """

    steps: BatchSteps
    input_streams: Mapping[str, Sequence[InputStream]]
    stop: Stop
    run_metrics: RunMetrics
    query: Future[StreamingQuery] = field(default_factory=Future)
    failure: Exception | None = None
    _is_started: bool = False

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Process one batch; a stop of the job waits for its end."""
        try:
            with self.stop.track_batch(number):
                self.run_metrics.add_batch(self.process(frame, number))
        except Exception as error:
            self.failure = error
            raise

    def process(self, frame: DataFrame, number: int) -> BatchStats:
        """Process one batch, from its plan to its tables and its record in the lineage."""
        steps, spark = self.steps, frame.sparkSession
        job, lease, topic_monitor = steps.job, steps.lease, steps.topic_monitor
        query = self.query.result(_QUERY_START_TIMEOUT_SECONDS)
        # 1. Read the plan.
        plan = self._read_plan(spark, query, number)
        with topic_monitor.explain_data_loss(plan):
            gaps = topic_monitor.recorded_gaps_in(plan)
            event_times = max_event_times_before(job, lease.lineage, number)
            if event_times is not None:
                set_task_property(spark, MAX_TIMES_PROPERTY, to_property(event_times))
            # 2. Read and count. A batch with gaps is compared with the records that are left, and
            # rows that Spark drops behind the watermark are known once all rows are computed.
            persist = bool(gaps) or not job.streams_to_sink
            context = lease.commit_context(plan)
            frame = without_ordering(frame)
            with read_and_count(job, frame, context, persist_rows=persist) as target:
                # 3. Verify topics, offsets, counts and limits.
                count_inputs = partial(self._count_inputs, query, plan, event_times, gaps)
                batch = steps.verify(plan, target, count_inputs, event_times, gaps)
                # 4. Read the side outputs.
                with read_side_outputs(
                    job, spark, plan, batch.inputs, persist_dead_letters=steps.detailed
                ) as side_outputs:
                    stats = self._check_late_rows(query, steps.count(batch, side_outputs))
                    # 5. Commit the gaps, the side tables, and the target last.
                    stats = steps.commit(batch, stats, side_outputs, target)
            # 6. Record the batch in the lineage.
            lease.record_batch(plan, stats, query.id)
            if not self.stop.is_requested:
                run_maintenance(job, spark, plan.number)
            return stats

    def _read_plan(self, spark: SparkSession, query: StreamingQuery, number: int) -> BatchPlan:
        """Return the plan of a batch, after the checks of its place in the checkpoint."""
        job, lease = self.steps.job, self.steps.lease
        lease.on_batch_start(number)
        plan = read_batch_plan(
            spark,
            job.locations.checkpoint,
            job=job.name,
            query_id=lease.lineage.commit_query_id(query.id),
            run_id=query.runId,
            number=number,
            batch_number_offset=lease.lineage.batch_number_offset,
        )
        if lease.lineage.resume_point is not None:
            plan = with_resumed_watermark(plan, job, lease.lineage.resume_point)
        elif lease.lineage.backfill is not None:
            plan = with_backfill_watermark(plan, lease.lineage.backfill)
        if not self._is_started:
            # Refuse a checkpoint that is older than one of its tables.
            for output, path in table_paths(job).items():
                require_current(spark, path, lease.commit_context(plan), output)
            read_latest_source_offsets(query)
            self._is_started = True
        return plan

    def _count_inputs(
        self,
        query: StreamingQuery,
        plan: BatchPlan,
        previous_event_times: EventTimes | None,
        gaps: Sequence[OffsetGap],
    ) -> list[InputBatch]:
        job, lineage = self.steps.job, self.steps.lease.lineage
        backfill = lineage.backfill
        if (
            backfill is not None
            and previous_event_times is not None
            and plan.number == lineage.batch_number_offset
        ):
            # Side outputs do not read the offsets of the backfill again.
            previous_event_times = backfill.max_event_times
        inputs = []
        for name, streams in self.input_streams.items():
            own_plan = input_plan(job, name, plan)
            if backfill is not None:
                own_plan = without_backfilled_offsets(own_plan, backfill.end)
            own_times = previous_event_times
            if own_times is not None:
                own_times = select_topics(own_times, own_plan.end)
            # Lost offsets cannot be counted again.
            recounter = self.steps.recounters.recounter(
                name, without_gaps(own_plan, gaps), own_times
            )
            inputs.append(count_input(job, name, own_plan, query, streams, own_times, recounter))
        return inputs

    def _check_late_rows(self, query: StreamingQuery, stats: BatchStats) -> BatchStats:
        """Refuse rows that Spark dropped for another reason; check the limit of late rows."""
        job = self.steps.job
        if job.transform is not None and job.emit == "final":
            # With watermarks="log", late rows are dropped before Spark could drop them.
            droppable_rows = 0 if job.late_by_log else stats.late_rows
            check_dropped_rows(stats.number, rows_dropped_by_watermark(query), droppable_rows)
        excess = describe_excess_late_rows(stats, job.limits)
        if excess is None:
            return stats
        _LOG.warning("%s: %s", job.name, excess)
        return replace(stats, is_over_late_limit=True)
