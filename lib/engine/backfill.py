"""The backfill: existing records as one batch, before the stream of a new checkpoint starts.

The plan of the backfill is recorded in the lineage before anything is written. Its rows are batch 0
of the tables, under the query id that the stream continues. A start after a crash therefore runs
the same batch again, and each table writes it once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import ceil
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import NO_BATCH, Backfill
from ..commit.batch import UNIX_EPOCH, BatchPlan, BatchStats, Stamp
from ..commit.delta_commit import last_batch, read_table_log
from ..commit.driver_lease import DriverLease
from ..commit.protocol import require_table_not_ahead
from ..job.dataflow import build_query
from ..job.job import Job
from ..offsets import EventTimes, merge_partitions
from ..sources.range_stats import RangeStats
from ..spark.spark_errors import translate_error
from ..startup.environment import table_paths
from ..telemetry.run_metrics import RunMetrics
from .accounting import reconcile_counts
from .backfill_planning import (
    is_session_job,
    open_session_offsets,
    plan_backfill,
    reread_start_time,
)
from .micro_batch import BatchSteps, read_and_count
from .offset_gaps import require_retained
from .side_outputs import InputBatch, read_side_outputs
from .streams import build_streams, input_plan, log_lateness_by_input
from .topic_monitor import TopicMonitor

_LOG = logging.getLogger(__name__)
_MICROSECOND = timedelta(microseconds=1)


def is_backfill_done(job: Job, spark: SparkSession, lease: DriverLease, backfill: Backfill) -> bool:
    """Return whether the backfill is complete, and record its tables if so.

    It is complete once the target has it, because the target is committed last.
    """
    context = lease.commit_context(backfill_batch_plan(job, backfill))
    if last_batch(spark, job.sink.path, context, job.sink.output) is None:
        return False
    max_event_time = None
    for output, path in table_paths(job).items():
        log = read_table_log(spark, path)
        stamp = Stamp.for_batch(context, output)
        require_table_not_ahead(log, stamp)
        written_stamp = log.find_stamp(stamp.app_id, 0)
        if written_stamp is not None:
            lease.record_table(log, stamp)
            max_event_time = written_stamp.max_event_time
    lease.record_backfill_done(max_event_time)
    return True


def backfill_batch_plan(job: Job, backfill: Backfill) -> BatchPlan:
    """Return the plan of the batch of a backfill."""
    return BatchPlan(
        job=job.name,
        query_id=backfill.query,
        run_id=str(uuid4()),
        number=0,
        offsets_hash=backfill.range_hash,
        start=backfill.start,
        end=backfill.end,
        watermark=UNIX_EPOCH + (backfill.handover_time or 0) * _MICROSECOND,
        # A backfill has no watermark, so none of its rows is late.
        late_watermark=datetime.min.replace(tzinfo=UTC),
    )


def run_backfill(
    job: Job,
    spark: SparkSession,
    lease: DriverLease,
    last_planned_batch: int,
    run_metrics: RunMetrics,
) -> None:
    """Backfill existing records as one batch, if the job asks for it and its checkpoint is new.

    A backfill whose plan is recorded is finished, even if the job no longer asks for one.

    last_planned_batch: the last planned batch of the checkpoint; `NO_BATCH` if it is new.

    Raises the library's errors, before anything is written; see `run`.
    """
    if last_planned_batch != NO_BATCH or lease.lineage.resume_point is not None:
        return
    recorded = lease.lineage.backfill
    backfill = recorded or plan_backfill(job, spark)
    if backfill is None or (recorded and is_backfill_done(job, spark, lease, recorded)):
        return
    streams = build_streams(job, spark)
    with TopicMonitor(job, streams, spark, lease.lineage.topic_ids) as topic_monitor:
        steps = BatchSteps(job, spark, lease, topic_monitor)
        try:
            with topic_monitor.explain_data_loss(backfill_batch_plan(job, backfill)):
                stats = _BackfillRun(job, spark, steps, backfill).process()
        except (PySparkException, OSError) as error:
            translated_error = translate_error(error)
            if translated_error is None:
                raise
            _LOG.debug("%s: the backfill failed", job.name, exc_info=error)
            raise translated_error from None
    if stats is not None:
        run_metrics.add_batch(stats)


@dataclass
class _BackfillRun:
    job: Job
    spark: SparkSession
    steps: BatchSteps
    backfill: Backfill

    @property
    def plan(self) -> BatchPlan:
        """The plan of the batch; its hash depends on the handover."""
        return backfill_batch_plan(self.job, self.backfill)

    @cached_property
    def input_plans(self) -> dict[str, BatchPlan]:
        """The plan with the offsets of each input."""
        return {name: input_plan(self.job, name, self.plan) for name in self.job.inputs}

    def process(self) -> BatchStats | None:
        """Read, check and write the batch; return None if the stream must read all records."""
        lease, steps = self.steps.lease, self.steps
        self._require_retained()
        is_recorded = lease.lineage.backfill is not None
        observations = {name: Observation() for name in self.job.inputs}
        handover_time = self.backfill.handover_time
        range_stats = {}
        if not is_recorded and handover_time is not None:
            range_stats = {
                name: RangeStats(
                    plan.start,
                    plan.end,
                    reread_start_time(self.job, handover_time, name),
                    with_max_times=self.job.late_by_log,
                )
                for name, plan in self.input_plans.items()
            }
        frames = self._read_frames(observations, range_stats)
        rows = build_query(self.job, frames, names_overflows=True)
        batch_results = rows if handover_time is None else rows.where(self._is_batch_result)
        # The handover also reads the sessions that are not results of the batch.
        persist_rows = is_session_job(self.job) or not self.job.writes_while_computing
        with read_and_count(
            self.job,
            batch_results,
            lease.commit_context(self.plan),
            persist_rows=persist_rows,
            frame_to_persist=rows,
        ) as target:
            counts = {name: observation.get for name, observation in observations.items()}
            if range_stats and not self._plan_handover(rows, range_stats):
                return None
            batch = steps.verify(self.plan, target, lambda: self._count_inputs(counts))
            self._require_retained()
            if not is_recorded:
                lease.record_backfill_plan(self.backfill)
            with read_side_outputs(self.job, self.spark, batch.plan, batch.inputs) as side_outputs:
                stats = steps.count(batch, side_outputs)
                stats = steps.commit(batch, stats, side_outputs, target)
        lease.record_backfill_done(stats.max_event_time)
        _LOG.info("%s: backfilled %s rows", self.job.name, f"{stats.rows_in:,}")
        return stats

    def _read_frames(
        self, observations: Mapping[str, Observation], range_stats: Mapping[str, RangeStats]
    ) -> dict[str, DataFrame]:
        lateness = log_lateness_by_input(self.job)
        return {
            name: self.job.inputs[name].batch(
                self.spark,
                plan.start,
                plan.end,
                observations[name],
                log_lateness=lateness.get(name),
                range_stats=range_stats.get(name),
            )
            for name, plan in self.input_plans.items()
        }

    def _plan_handover(self, rows: DataFrame, range_stats: Mapping[str, RangeStats]) -> bool:
        """Plan where the stream starts; return False if it must read all records."""
        stats = range_stats.values()
        first_offsets = merge_partitions([each.first_offsets_since() for each in stats], min)
        self.backfill = replace(self.backfill, handover_start=first_offsets)
        if is_session_job(self.job):
            (guessed_start,) = {each.since for each in stats}
            open_sessions = rows.where(~self._is_batch_result)
            handover_start = open_session_offsets(
                self.job, self.spark, self.backfill, open_sessions, guessed_start
            )
            if handover_start is None:
                return False
            self.backfill = replace(self.backfill, handover_start=handover_start)
        if self.job.late_by_log:
            max_event_times = merge_partitions(
                [each.collect_max_event_times() for each in stats], max
            )
            self.backfill = replace(self.backfill, max_event_times=max_event_times)
        return True

    @property
    def _is_batch_result(self) -> Column:
        """The condition that a result belongs to the backfill, and not to the stream."""
        result_time = None if self.job.transform is None else self.job.transform.result_time
        if result_time is None or self.backfill.handover_time is None:
            return F.lit(True)
        return result_time < F.timestamp_micros(F.lit(self.backfill.handover_time))

    def _count_inputs(self, counts: Mapping[str, Mapping[str, int]]) -> list[InputBatch]:
        inputs = []
        for name, job_input in self.job.inputs.items():
            plan = self.input_plans[name]
            # The backfill is the first batch, so its previous event times are empty.
            previous_times: EventTimes | None = {} if job_input.late_by_log else None
            recounter = self.steps.recounters.recounter(name, plan, previous_times)
            observed = reconcile_counts(plan, [counts[name]], recounter)
            limits, max_records = self.job.limits, job_input.source.max_records_per_batch
            if limits.dead_rows is not None and max_records is not None:
                # The limit of as many batches as the stream would need.
                batches = max(1, ceil(observed.rows / max_records))
                limits = replace(limits, dead_rows=limits.dead_rows * batches)
            inputs.append(
                InputBatch(
                    name, job_input, plan, observed, limits, previous_event_times=previous_times
                )
            )
        return inputs

    def _require_retained(self) -> None:
        for name, plan in self.input_plans.items():
            require_retained(self.spark, self.job.inputs[name].source, plan)
