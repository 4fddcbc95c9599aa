"""Comparison of a job's target with a batch query over the log that it was computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import NO_BATCH, CheckpointLineage
from ..checkpoint.offset_log import first_offsets
from ..columns import column_type, quoted_column
from ..commit.batch import BatchPlan, app_id, read_batch_plan
from ..commit.table_log import TableLog
from ..delta.delta_table import read_table_version
from ..durations import microseconds
from ..engine.backfill_planning import input_offsets
from ..engine.offset_gaps import require_retained
from ..engine.streams import log_lateness_by_input
from ..errors import CheckpointError, ColumnTypeError, ComparisonError
from ..frame_diff import FrameDiff, diff_frames
from ..job.dataflow import build_query
from ..job.job import Job, require_job
from ..offsets import partition_value
from ..sinks import MapRows, Sink
from ..sources.side_output_rows import LatenessTest
from ..spark.job_session import in_job_session
from ..startup.preflight import Preflight
from ..transform import Stateless
from ..windows import Cumulative, Hopping, Session, Tumbling, WindowAggregation

_EXACT_WINDOWS = (Tumbling, Hopping, Cumulative)
"""Windows with one row for each key, which is emitted as soon as it is final."""


@in_job_session
def compare(job: Job, spark: SparkSession, *, ignore: Sequence[str] = ()) -> FrameDiff:
    """Compute a job's rows as one batch, and compare them with the rows of its target.

    The batch reads the topics from the start of the checkpoint to the end of its last complete
    batch, without the rows of the late tables. With deterministic lateness (`watermarks="log"`) it
    excludes the rows that are late by the log, and requires that the late tables contain the same
    rows. It compares the results up to the watermark. Nothing is written. The cost is that of one
    batch over the complete range.

    ignore: columns of the target that are not compared, such as estimates.

    Raises:
        ColumnTypeError: for a job whose target is not a function of its log: with `each_batch`,
            allowed_lateness or emit="changes", a sink other than Append or Upsert without aggs, or
            a transform without `result_time`.
        CheckpointError: for a checkpoint without a complete batch, or a target with an incomplete
            one; and what the checks of a start raise.
        SourceError: if the topics have deleted records of the range.
        ComparisonError: if a late table and the log disagree.

    >>> compare(job, spark, ignore=["users"]).is_empty                         # doctest: +SKIP
    True
    """
    require_job(job)
    require_comparable(job)
    preflight = Preflight(job, spark)
    lineage = preflight.require_all()
    if lineage.last_batch == NO_BATCH:
        raise CheckpointError(
            f"cannot compare {job.name!r} with its log",
            f"{job.locations.checkpoint} has no complete batch",
            "run the job first",
        )
    if lineage.resume_point is not None and not job.is_stateful:
        raise CheckpointError(
            f"cannot compare {job.name!r} with its log",
            f"{job.locations.checkpoint} resumed after another checkpoint, and the rows of both in "
            f"{job.sink.path} have no offsets to distinguish them",
            "compare a job whose checkpoint has read all rows of its target",
        )
    target_log = preflight.table_logs[job.sink.output]
    _require_complete_target(job, lineage, preflight.decision.query_id, target_log)
    return _diff_target(job, spark, lineage, target_log.version, ignore)


def read_complete_range(job: Job, spark: SparkSession, lineage: CheckpointLineage) -> BatchPlan:
    """Return the range of the log up to the last complete batch of a job, as one batch."""
    checkpoint, backfill = job.locations.checkpoint, lineage.backfill
    start = first_offsets(spark, checkpoint) if backfill is None else backfill.start
    return replace(read_job_batch(job, spark, lineage.last_batch), start=start)


def read_job_batch(job: Job, spark: SparkSession, number: int) -> BatchPlan:
    """Return the plan of a batch of a job, for inspection."""
    checkpoint = job.locations.checkpoint
    return read_batch_plan(spark, checkpoint, job=job.name, query_id="", run_id="", number=number)


def _require_complete_target(
    job: Job, lineage: CheckpointLineage, query_id: str | None, target_log: TableLog
) -> None:
    last_batch = target_log.last_batch(app_id(job.name, query_id or "", job.sink.output))
    complete_batch = lineage.batch_number_offset + lineage.last_batch
    if last_batch is not None and last_batch > complete_batch:
        raise CheckpointError(
            f"{target_log.path} ends with the incomplete batch {last_batch}",
            f"the job runs, or ended in the middle of a batch; the last complete one is "
            f"{complete_batch}",
            "start the job, let it finish, then compare",
        )


def require_agreement(job: Job, target_differences: FrameDiff) -> None:
    """Raise ComparisonError if there are differences."""
    if not target_differences.is_empty:
        raise ComparisonError(
            f"{job.sink.path} differs from the log of {job.name!r}: {target_differences}"
        )


def _diff_target(
    job: Job,
    spark: SparkSession,
    lineage: CheckpointLineage,
    target_version: int,
    ignore: Sequence[str],
) -> FrameDiff:
    complete_range = read_complete_range(job, spark, lineage)
    late_count = 0
    inputs = {}
    for name, job_input in job.inputs.items():
        plan = complete_range.for_topics(input_offsets(job_input, complete_range.end))
        require_retained(spark, job_input.source, plan)
        rows = job_input.good_rows(spark, plan.start, plan.end)
        late_positions = _late_positions(job, spark, lineage, name, plan)
        input_late_count = late_positions.count()
        if input_late_count:
            rows = rows.join(late_positions, job_input.position_columns, "left_anti")
        inputs[name] = rows.select(*map(quoted_column, job_input.columns))
        late_count += input_late_count
    expected = _apply_row_maps(job.sink, build_query(job, inputs))
    actual = expected.limit(0)
    if target_version >= 0:
        actual = read_table_version(spark, job.sink.path, target_version)
    transform = job.transform
    result_time = None if transform is None else transform.result_time
    if result_time is None:
        return diff_frames(expected, actual, ignore=ignore, late_rows=late_count)
    for rows in (expected, actual):
        column_type(rows, result_time, "result_time")
    watermark, max_delay = complete_range.watermark, max_result_delay(job)
    is_emitted = F.coalesce(result_time <= F.lit(watermark), F.lit(False))
    is_comparable = is_emitted
    resume_point = lineage.resume_point
    if resume_point is not None and resume_point.complete_after is not None:
        # The state of earlier results was lost.
        lost_until = F.timestamp_micros(F.lit(resume_point.complete_after))
        is_comparable = is_emitted & (result_time > lost_until)
    differences = diff_frames(
        expected.where(is_comparable),
        actual.where(is_comparable),
        keys=exact_window_keys(job),
        ignore=ignore,
        # Results up to the watermark that may not be final yet.
        not_due=result_time > F.lit(watermark - max_delay) if max_delay else None,
        late_rows=late_count,
    )
    # Results beyond the watermark, such as pattern matches.
    return replace(differences, not_compared=actual.where(~is_emitted).count())


def _late_positions(
    job: Job, spark: SparkSession, lineage: CheckpointLineage, name: str, plan: BatchPlan
) -> DataFrame:
    """Return the log positions of an input's late rows.

    Raises:
        ComparisonError: with deterministic lateness, if the late table contains other rows.
    """
    job_input, table = job.inputs[name], job.locations.late_rows[name]
    columns = [quoted_column(each) for each in job_input.position_columns]
    recorded = lineage.tables.get(table.output)
    recorded_rows = (
        job_input.good_rows(spark, {}, {})
        if recorded is None
        else read_table_version(spark, table.path, recorded.version)
    ).select(*columns)
    if not job_input.late_by_log:
        return recorded_rows
    resume_point = lineage.resume_point
    previous_event_times = None if resume_point is None else resume_point.max_event_times
    lateness_test = LatenessTest.for_log_lateness(
        log_lateness_by_input(job)[name], previous_event_times or {}
    )
    side_rows = job_input.side_outputs(spark, plan.start, plan.end, lateness_test)
    late_rows = side_rows.late_rows().select(*columns)
    topic, partition, offset = columns
    # The table also contains late rows of an earlier, lost checkpoint.
    is_in_range = offset >= F.coalesce(partition_value(plan.start, topic, partition), F.lit(0))
    recorded_rows = recorded_rows.where(is_in_range)
    missing = late_rows.exceptAll(recorded_rows).count()
    extra = recorded_rows.exceptAll(late_rows).count()
    if missing or extra:
        raise ComparisonError(
            f"the late table of {name!r} differs from the log: {missing:,} late rows are "
            f"missing, {extra:,} rows are not late"
        )
    return late_rows


def _apply_row_maps(sink: Sink, rows: DataFrame) -> DataFrame:
    """Return the rows after the maps of the sinks around the innermost one."""
    return _apply_row_maps(sink.sink, sink.rows(rows)) if isinstance(sink, MapRows) else rows


def require_comparable(job: Job) -> None:
    """Require a job whose target is a function of the log alone.

    Raises:
        ColumnTypeError: names the part of the job that prevents the comparison.
    """
    sink = innermost_sink(job.sink)
    is_stateless = job.transform is None or isinstance(job.transform, Stateless)
    reasons = {
        "each_batch, which may have read other tables": job.each_batch is not None,
        "windows that change after they are emitted": job.emit == "changes"
        or job.allowed_lateness is not None
        or job.merges_windows,
        f"the sink {type(sink).__name__}": sink.result_keys is None,
        "a sink that aggregates rows": sink.adds_results,
        "an upsert of rows without a result time": bool(sink.result_keys) and is_stateless,
        f"{type(job.transform).__name__}, which has no result_time": (
            not is_stateless and (job.transform is None or job.transform.result_time is None)
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise ColumnTypeError(
                f"cannot compute the target of {job.name!r} from its log: the job has {reason}",
                "final results of a transform with result_time, or of a stateless one, in Append; "
                "or in Upsert without aggs",
            )


def innermost_sink(sink: Sink) -> Sink:
    """Return the sink that writes the rows, without the sinks that map them first."""
    return innermost_sink(sink.sink) if isinstance(sink, MapRows) else sink


def exact_window_keys(job: Job) -> list[str]:
    """Return the columns that identify a result; empty if windows depend on the rows in them.

    Results by such keys are emitted as soon as they are final.
    """
    transform = job.transform
    if isinstance(transform, WindowAggregation) and isinstance(transform.window, _EXACT_WINDOWS):
        return ["window", *transform.by]
    return []


def max_result_delay(job: Job) -> timedelta:
    """Return how long after its result time a result may be missing, at most."""
    transform = job.transform
    if exact_window_keys(job):
        return timedelta(0)
    if isinstance(transform, WindowAggregation) and isinstance(transform.window, Session):
        gap = transform.window.gap
        if isinstance(gap, Column):
            # It has no upper bound; assume at most a day.
            return timedelta(days=1)
        return timedelta(microseconds=microseconds(gap))
    lookback = None if transform is None else transform.lookback
    # A join waits for one pane and one slice beyond its bounds; a pane is at least a second.
    return 3 * max(lookback or timedelta(days=1), timedelta(seconds=1))
