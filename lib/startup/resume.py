"""Recovery from a lost checkpoint: the resume point, derived from the commits of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import or_

from delta.tables import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import NO_BATCH, Backfill, CheckpointLineage, ResumePoint
from ..commit.batch import UNIX_EPOCH, BatchPlan, Stamp, app_id
from ..commit.delta_commit import read_table_log
from ..commit.driver_lease import DriverLease
from ..commit.table_log import TableLog
from ..delta.commit_options import CommitOptions
from ..durations import microseconds
from ..errors import CheckpointError
from ..job.job import Job
from ..jvm import list_names, refuse_missing_files
from ..offsets import Offsets
from ..sources.topics import topic_states
from ..transform import OmitsIncompleteResults, Stateless
from .environment import explain_unreadable

_EARLIEST_OFFSET = -2

NEW_CHECKPOINT_HINT = "use a new checkpoint and new tables."


def find_resume_point(
    job: Job, tables: Mapping[str, TableLog]
) -> tuple[ResumePoint, Mapping[str, str]]:
    """Return where a new checkpoint resumes, and the ids of the topics that its offsets belong to.

    The resume point is the last commit in the target. The new checkpoint continues the batch
    numbers of the tables under the id of the query that wrote them. A commit without topic ids
    gives none.

    Raises CheckpointError if the tables have no commit of the job, or do not all have its last
    batch.
    """
    target_log = tables[job.sink.output]
    last_stamp = target_log.last_stamp(job.name, job.sink.output)
    if last_stamp is None:
        raise CheckpointError(
            f"the job cannot resume from {target_log.path}",
            f"its log has no commit of the job {job.name!r}, output {job.sink.output!r}. Nothing "
            "was written.",
            NEW_CHECKPOINT_HINT,
        )
    _require_same_last_batch(job, tables, last_stamp)
    app_ids = {output: app_id(job.name, last_stamp.query, output) for output in tables}
    last_batches = [tables[output].last_batch(app_ids[output]) for output in tables]
    newest_batch = max(number for number in last_batches if number is not None)
    if job.sink.repeatable_outputs:
        # A store can have the batch after that of its table.
        newest_batch += 1
    resume_point = ResumePoint(
        query=last_stamp.query,
        first_batch=newest_batch + 1,
        start=last_stamp.end,
        complete_after=_complete_after(job, last_stamp),
        max_event_times=last_stamp.max_event_times,
    )
    return resume_point, last_stamp.topic_ids or {}


def _require_same_last_batch(job: Job, tables: Mapping[str, TableLog], last_stamp: Stamp) -> None:
    """Refuse a sink with a table that is a batch ahead of the target, or may lack a batch.

    A table that is ahead is accepted if its rows can be applied again.
    """
    outputs = [output for _, output in job.sink.tables()]
    target_index = outputs.index(job.sink.output)
    for index, output in enumerate(outputs):
        stamp = tables[output].last_stamp(job.name, output)
        number = None if stamp is None or stamp.query != last_stamp.query else stamp.batch
        # A table that is written before the target may have had no row of the last batch.
        may_lack_batch = index < target_index and (number is None or number <= last_stamp.batch)
        is_repeatable = output in job.sink.repeatable_outputs
        if number != last_stamp.batch and not may_lack_batch and not is_repeatable:
            raise CheckpointError(
                "the job cannot resume: the tables of the sink end with different batches",
                f"{tables[output].path} has batch {number}, {tables[job.sink.output].path} has "
                f"batch {last_stamp.batch}. Nothing was written.",
                "restore the tables to versions with the same last batch, by RESTORE TABLE "
                f"delta.`{tables[output].path}` TO VERSION AS OF the version before batch "
                f"{number}, for example; or {NEW_CHECKPOINT_HINT}",
            )


def _complete_after(job: Job, last_stamp: Stamp) -> int | None:
    """Return the instant up to which results would lack rows; None if no state was lost.

    Unit: microseconds since 1970.
    """
    transform = job.transform
    if transform is None or isinstance(transform, Stateless) or job.emit == "changes":
        return None
    if (
        last_stamp.max_event_time is None
        or transform.lookback is None
        or transform.result_time is None
    ):
        raise CheckpointError(
            f"the job cannot resume: the state of {type(transform).__name__} is lost",
            "the results that need earlier rows are unknown, without the transform's lookback and "
            "result_time, or the newest event time of the last commit. Nothing was written.",
            NEW_CHECKPOINT_HINT,
        )
    return last_stamp.max_event_time + transform.lookback // timedelta(microseconds=1)


def with_resumed_watermark(plan: BatchPlan, job: Job, resume_point: ResumePoint) -> BatchPlan:
    """Return a plan with the watermark of the lost checkpoint as its least one for late rows.

    Rows that belong to results that the lost checkpoint has emitted are late.
    """
    if resume_point.complete_after is None or job.transform is None:
        return plan
    lookback = job.transform.lookback or timedelta()
    delay_micros = max(
        microseconds(job_input.watermark_delay, "watermark_delay", min_value=0)
        for job_input in job.inputs.values()
    )
    read_until = UNIX_EPOCH + timedelta(microseconds=resume_point.complete_after) - lookback
    watermark = read_until - timedelta(microseconds=delay_micros)
    return replace(plan, late_watermark=max(plan.late_watermark, watermark))


def dropped_until(job: Job, lineage: CheckpointLineage) -> int | None:
    """Return the instant up to which the query drops results; None if it drops none.

    Results before the end of a backfill are written by the backfill. After a lost checkpoint,
    results that can lack rows are dropped. Unit: microseconds since 1970.
    """
    if lineage.resume_point is None:
        return None if lineage.backfill is None else lineage.backfill.complete_after
    return None if _omits_incomplete_results(job) else lineage.resume_point.complete_after


def _omits_incomplete_results(job: Job) -> bool:
    transform = job.transform
    return isinstance(transform, OmitsIncompleteResults) and transform.omits_incomplete_results


def describe_resume_point(job: Job, resume_point: ResumePoint) -> str:
    """Return where a job resumes and what is missing, as text."""
    summary = (
        f"resumes with batch {resume_point.first_batch} at the offsets "
        f"{json.dumps(resume_point.start)}"
    )
    if resume_point.complete_after is None:
        return f"{summary}; no state was lost"
    lost_until = UNIX_EPOCH + timedelta(microseconds=resume_point.complete_after)
    if _omits_incomplete_results(job):
        return (
            f"{summary}; the state is lost: results up to {lost_until.isoformat()} that need a row "
            "before these offsets are missing; all other results are written"
        )
    return (
        f"{summary}; the state is lost: results up to {lost_until.isoformat()} that were not "
        "written are dropped, because they would lack rows; later results are complete"
    )


def with_start_offsets(job: Job, spark: SparkSession, start: Offsets) -> Job:
    """Return the job with inputs that start at these offsets."""
    inputs = {}
    for name, job_input in job.inputs.items():
        source = job_input.source
        # Spark requires a start offset for each partition.
        partitions: Mapping[str, Sequence[int]] | None = source.partitions
        if not partitions:
            with explain_unreadable(source, "partitions"):
                states = topic_states(spark, source)
            partitions = {topic: range(state.partitions) for topic, state in states.items()}
        start_offsets = {
            topic: {part: start.get(topic, {}).get(part, _EARLIEST_OFFSET) for part in parts}
            for topic, parts in partitions.items()
        }
        inputs[name] = replace(job_input, source=replace(source, start=start_offsets))
    return replace(job, inputs=inputs)


def delete_side_rows_from(job: Job, spark: SparkSession, resume_point: ResumePoint) -> None:
    """Delete side output rows at or after the resume offsets; they will be written again.

    Runs before the first batch, and is idempotent.

    Raises CheckpointError if other jobs write to a table that has such rows.
    """
    locations = job.locations
    for side_table in (
        locations.offset_gaps,
        locations.dead_letters,
        *locations.late_rows.values(),
    ):
        path, output = side_table.path, side_table.output
        if not DeltaTable.isDeltaTable(spark, path):
            continue
        table = DeltaTable.forPath(spark, path)
        is_reread = is_at_or_after(resume_point.start, table.toDF().columns)
        if is_reread is not None and not table.toDF().where(is_reread).isEmpty():
            _require_single_job(job, read_table_log(spark, path), output)
            metadata = json.dumps(
                {"tidegate": "resumed", "output": output, "start": resume_point.start}
            )
            with CommitOptions.commit_metadata(spark, metadata), refuse_missing_files(spark):
                table.delete(is_reread)


def _require_single_job(job: Job, table: TableLog, output: str) -> None:
    """Refuse a table of several jobs, whose rows do not identify their job."""
    writers = {
        writer.split("/")[0] for writer in table.writer_app_ids() if writer.endswith(f"/{output}")
    }
    other_jobs = sorted(writers - {job.name})
    if other_jobs:
        raise CheckpointError(
            f"the job cannot resume: several jobs write to {table.path}",
            f"it has rows of output {output!r} that will be read again, and "
            f"{', '.join(other_jobs)} may have written them. No row was deleted.",
            f"delete the rows of {job.name!r} at or after the resume offsets; or use another "
            "table for this output.",
        )


def is_at_or_after(start: Offsets, columns: Sequence[str]) -> Column | None:
    """Return the condition that a side output row is at or after these offsets.

    None without offsets.

    >>> is_at_or_after({"clicks": {0: 7}}, ["topic", "partition", "offset"]) is None
    False
    """
    offset_name = "start_offset" if "start_offset" in columns else "offset"
    topic, partition, offset = (
        F.col(f"kafka_{name}" if f"kafka_{name}" in columns else name)
        for name in ("topic", "partition", offset_name)
    )
    conditions = [
        (topic == F.lit(name)) & (partition == F.lit(part)) & (offset >= F.lit(start_offset))
        for name, parts in start.items()
        for part, start_offset in parts.items()
    ]
    return reduce(or_, conditions) if conditions else None


def with_resume_offsets(job: Job, spark: SparkSession, lease: DriverLease) -> Job:
    """Return the job with the start offsets that follow a lost checkpoint or a backfill.

    Any other job is returned unchanged. After a lost checkpoint, side output rows that will be
    read again are deleted, until the first batch is planned.
    """
    origin = lease.lineage.resume_point or lease.lineage.backfill
    if origin is None or list_names(spark, f"{job.locations.checkpoint}/offsets"):
        return job
    if isinstance(origin, Backfill):
        return with_start_offsets(job, spark, origin.handover_start)
    delete_side_rows_from(job, spark, origin)
    return with_start_offsets(job, spark, origin.start)


def needs_handover_batch(lease: DriverLease) -> bool:
    """Return whether the stream has not yet read the rows again that its results need.

    This is the first batch after a backfill.
    """
    lineage = lease.lineage
    return (
        lineage.backfill is not None
        and lineage.backfill.handover_time is not None
        and lineage.resume_point is None
        and lineage.last_batch == NO_BATCH
    )
