"""The runner of all jobs: starts the query, watches it, stops it and returns a summary."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..checkpoint.offset_log import query_watermark
from ..columns import nested_names, require_storable_names
from ..commit.batch import UNIX_EPOCH
from ..commit.driver_lease import DriverLease
from ..durations import interval_text, microseconds
from ..errors import ConflictError, SetupError, TidegateError
from ..job.dataflow import build_query
from ..job.job import Job, require_job
from ..jvm import (
    handle_jvm_signals,
    read_all_rows,
)
from ..process.shutdown import Stop, StopRequestedError, stop_on_signals
from ..spark.job_session import in_job_session
from ..spark.presets import COUNTED_ROCKSDB_ROWS
from ..spark.python_workers import require_python_workers
from ..spark.session import checkpoint_by_rename
from ..spark.spark_errors import (
    explain_disk_errors,
    is_plan_conflict,
    is_topic_error,
    query_error,
)
from ..startup.environment import prepare_locations, written_paths
from ..startup.preflight import Preflight
from ..startup.resume import dropped_until, needs_handover_batch, with_resume_offsets
from ..telemetry.batch_progress import parse_progress
from ..telemetry.console import ProgressDisplay, format_progress, format_start
from ..telemetry.prometheus import PrometheusCollector, serve_metrics
from ..telemetry.report import RunReport
from ..telemetry.run_metrics import RunMetrics
from ..telemetry.stats import Summary
from .backfill import run_backfill
from .backfill_planning import as_single_batch, offsets_processed_by_backfill
from .idleness import HeartbeatSender
from .maintenance import CatalogRegistrar
from .micro_batch import BatchSteps, MicroBatchProcessor
from .streams import build_input_frames, build_streams
from .topic_monitor import LagMonitor, TopicMonitor, missing_topic_error

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 1
_COMMIT_TIMEOUT_SECONDS = 30.0
_MAX_PLAN_CONFLICTS = 3
"""The number of restarts of a query; a driver that is fenced off plans one batch at most."""
_IMPLAUSIBLY_OLD = 365 * 86_400 * 1_000_000
"""One year in microseconds: seconds that are read as milliseconds give times in early 1970."""


@in_job_session
def run(
    job: Job,
    spark: SparkSession,
    *,
    stop: Stop | None = None,
    display: ProgressDisplay | None = None,
    resume_from_table: bool = False,
    recreate: Sequence[str] = (),
) -> Summary:
    """Run a job until it has read all records, or until SIGTERM, Ctrl-C or `stop` stops it.

    A job with a trigger interval (`every`) runs until it is stopped. A stop lets the running batch
    finish. Before the query starts, checkpoint, tables and configuration are checked against one
    another.

    resume_from_table: whether a new checkpoint resumes at the target's last commit, because the
        checkpoint of the tables is lost.
    recreate: the outputs whose missing table is created again, empty, or "all" of them; and the new
        outputs that start with the next batch of an existing checkpoint.

    Raises the library's errors: errors of a batch unchanged, and Spark's errors translated, with
    the original as their context, which the library's logger shows at the level DEBUG. A second
    signal interrupts the running batch.

    >>> run("page_views", spark)
    Traceback (most recent call last):
    tidegate.errors.ColumnTypeError: invalid job: 'page_views'
      expected: a value of the type Job, not str
      try: Job(name=..., inputs=..., sink=...)
    """
    require_job(job)
    require_python_workers(spark)
    stop, display = stop or Stop(), display or ProgressDisplay()
    summary = Summary(job=job.name)
    run_metrics = RunMetrics(
        summary, detailed=job.metrics_port is not None or job.report is not None
    )
    report = RunReport(run_metrics, job.report, lambda: stop.is_requested)
    checkpoint_renames = checkpoint_by_rename(spark, job.locations.checkpoint)
    explained_errors = explain_disk_errors(written_paths(job, spark))
    with explained_errors, checkpoint_renames, read_all_rows(spark), report:
        started = time.monotonic()
        prepare_locations(job, spark)
        preflight = Preflight(job, spark, resume_from_table=resume_from_table, recreate=recreate)
        registrar = CatalogRegistrar(job, spark)
        registrar.require_free_names()
        lease = preflight.claim()
        logs = preflight.inspection.logs
        metrics_server = serve_metrics(
            PrometheusCollector(run_metrics), job.metrics_port, job.metrics_address
        )
        signals = handle_jvm_signals(spark, ("TERM", "INT"), stop.request_from_thread)
        topics = ", ".join(
            name for job_input in job.inputs.values() for name in job_input.source.topic_names
        )
        with stop_on_signals(stop), signals, metrics_server, display, _explain_fencing(lease):
            first_batch = logs.last_committed + 1
            display.show_line(format_start(job.name, first_batch, topics, job.sink.path))
            run_backfill(job, spark, lease, logs.last_planned, run_metrics)
            job = with_resume_offsets(job, spark, lease)
            streaming_job = partial(
                _StreamingJob,
                spark=spark,
                lease=lease,
                registrar=registrar,
                stop=stop,
                run_metrics=run_metrics,
                report=report,
                display=display,
            )
            if needs_handover_batch(lease) and not stop.is_requested:
                streaming_job(as_single_batch(job), available_now=True).run()
            if not stop.is_requested:
                streaming_job(job, available_now=job.every is None).run()
            lease.record_spark_commit()
        registrar.register_new()
        lease.release()
        summary.seconds = round(time.monotonic() - started, 3)
        summary.stopped = stop.is_requested
        return summary


@contextmanager
def _explain_fencing(lease: DriverLease) -> Iterator[None]:
    """Raise FencedError instead of a failure that a later driver has caused.

    Its commits, and the files that it deletes, make a batch of this driver fail in many ways.
    """
    try:
        yield
    except TidegateError as error:
        # A full disk may also hold the epochs.
        if not isinstance(error, SetupError):
            lease.require_newest_epoch()
        raise


@dataclass(frozen=True)
class _StreamingJob:
    """The streaming query of a job, from its start to its end.

    available_now: whether it ends when all available records are read.
    """

    job: Job
    _: KW_ONLY
    spark: SparkSession
    lease: DriverLease
    registrar: CatalogRegistrar
    stop: Stop
    run_metrics: RunMetrics
    report: RunReport
    display: ProgressDisplay
    available_now: bool

    @cached_property
    def _counts_rocksdb_rows(self) -> bool:
        return self.spark.conf.get(COUNTED_ROCKSDB_ROWS, "true") == "true"

    def run(self) -> None:
        """Run the query until it ends; raise its failure as the library's error.

        A driver of an earlier start that is not fenced off yet can plan the same batch. The newest
        driver then starts its query again, which continues with that plan.
        """
        for _ in range(_MAX_PLAN_CONFLICTS):
            try:
                return self._run_query()
            except ConflictError as error:
                if not is_plan_conflict(error):
                    raise
                self.lease.require_newest_epoch()
                _LOG.warning("%s: %s; starting the query again", self.job.name, error.problem)
        return self._run_query()

    def _run_query(self) -> None:
        job, spark, lease, run_metrics = self.job, self.spark, self.lease, self.run_metrics
        inputs = build_streams(job, spark)
        lease.record_streams({name: len(streams) for name, streams in inputs.items()})
        with TopicMonitor(job, inputs, spark, lease.lineage.topic_ids) as topic_monitor:
            steps = BatchSteps(job, spark, lease, topic_monitor, detailed=run_metrics.detailed)
            processor = MicroBatchProcessor(steps, inputs, self.stop, run_metrics)
            heartbeat_sender = HeartbeatSender(job, inputs, run_metrics.summary)
            try:
                # The frames below read the heartbeat folders, which must exist.
                heartbeat_sender.create_folders(spark)
                processed_offsets = offsets_processed_by_backfill(job, lease.lineage.backfill)
                input_frames = build_input_frames(job, inputs, self.spark, processed_offsets)
                query = self._start_query(input_frames, processor)
                run_metrics.query = str(query.id)
                lag_monitor = LagMonitor(job, topic_monitor, run_metrics)
                on_progress = partial(
                    self._on_progress, query, topic_monitor, heartbeat_sender, lag_monitor
                )
                _watch(query, self.stop, on_progress)
            except (PySparkException, Py4JJavaError) as error:
                self._raise_failure(processor, error)

    def _start_query(
        self, inputs: Mapping[str, DataFrame], processor: MicroBatchProcessor
    ) -> StreamingQuery:
        """Start the query, and pass it to the batch processor."""
        job = self.job
        rows = build_query(
            job,
            inputs,
            complete_after=dropped_until(job, self.lease.lineage),
            names_overflows=True,
        )
        if job.transform is not None and job.each_batch is None:
            require_storable_names(nested_names(rows.schema), "result")
        writer = rows.writeStream.queryName(job.name).foreachBatch(processor)
        writer = writer.option("checkpointLocation", job.locations.checkpoint)
        if self.available_now or job.every is None:
            writer = writer.trigger(availableNow=True)
        else:
            interval_micros = microseconds(job.every, "interval_micros", min_value=0)
            writer = writer.trigger(processingTime=interval_text(interval_micros))
        query = writer.start()
        processor.query.set_result(query)
        return query

    def _on_progress(
        self,
        query: StreamingQuery,
        topic_monitor: TopicMonitor,
        heartbeat_sender: HeartbeatSender,
        lag_monitor: LagMonitor,
        progress: Mapping[str, Any],
    ) -> None:
        parse = partial(parse_progress, counts_rocksdb_rows=self._counts_rocksdb_rows)
        last_progress = parse(progress)
        last_seen_batch = self.run_metrics.last_batch
        if last_seen_batch < 0 or last_progress.batch > last_seen_batch + 1:
            # Batches may be shorter than the polling interval; Spark retains a hundred reports.
            for report in query.recentProgress:
                recent_progress = parse(json.loads(report.json))
                if last_seen_batch < recent_progress.batch < last_progress.batch:
                    self.run_metrics.add_progress(recent_progress)
        if last_progress.batch != last_seen_batch:
            self.run_metrics.add_progress(last_progress)
        self.display.show_batch(
            format_progress(self.job.name, last_progress, self.run_metrics.summary),
            last_progress.batch,
        )
        topic_monitor.warn_new_partitions()
        self.registrar.register_new()
        lag_monitor.poll(last_progress)
        self.report.refresh()
        self.lease.record_spark_commit()
        if query.isActive and not self.stop.is_requested:
            heartbeat_sender.tick(query, progress, self.spark)

    def _raise_failure(self, processor: MicroBatchProcessor, error: Exception) -> None:
        if isinstance(processor.failure, StopRequestedError):
            return
        failure = query_error(processor.failure, error)
        topic_error = missing_topic_error(self.job, self.spark) if is_topic_error(failure) else None
        # Not as the cause, because Python would print its trace before the message.
        _LOG.debug("%s failed", self.job.name, exc_info=processor.failure or error)
        raise (topic_error or failure) from None


def _watch(
    query: StreamingQuery, stop: Stop, on_progress: Callable[[Mapping[str, Any]], None]
) -> None:
    """Report the progress of a query until it ends, and stop it when a stop is requested.

    on_progress: called with the last progress report, about every second and at the end.
    """
    has_ended = False
    while not has_ended:
        has_ended = bool(query.awaitTermination(_POLL_SECONDS))
        if stop.is_requested and not has_ended:
            _drain_and_stop(query, stop)
            has_ended = True
        last_progress = query.lastProgress
        if last_progress is not None:
            on_progress(json.loads(last_progress.json))


def _drain_and_stop(query: StreamingQuery, stop: Stop) -> None:
    """Wait until the running batch is written and committed, then stop the query."""
    while not stop.wait_for_batch(_POLL_SECONDS) and query.isActive:
        pass
    deadline = time.monotonic() + _COMMIT_TIMEOUT_SECONDS
    while query.isActive and stop.current_batch is not None and time.monotonic() < deadline:
        # A batch that Spark does not commit runs again at the next start; its tables skip it.
        last_progress = query.lastProgress
        if last_progress is not None and last_progress.batchId >= stop.current_batch:
            break
        query.awaitTermination(_POLL_SECONDS)
    query.stop()


def describe_open_results(job: Job, spark: SparkSession) -> str | None:
    """Return a message about results that are not final yet, from the watermark of the query.

    None if there are none: without state, without a watermark, or with emit="changes".
    """
    if job.emit == "changes" or job.transform is None:
        return None
    watermark = query_watermark(spark, job.locations.checkpoint)
    next_result_at = None if watermark is None else _next_result_time(job, spark, watermark)
    if watermark is None or next_result_at is None:
        return None
    watermark_delay = max(
        microseconds(job_input.watermark_delay, "watermark_delay", min_value=0)
        for job_input in job.inputs.values()
    )
    time_unit_hint = (
        "; times in 1970 indicate a wrong time_unit" if watermark < _IMPLAUSIBLY_OLD else ""
    )
    return (
        f"the watermark is {_format_time(watermark)}; the next results are emitted when it "
        f"reaches {_format_time(next_result_at)}: with an event at "
        f"{_format_time(next_result_at + watermark_delay)} or later{_advance_conditions(job)}"
        f"{time_unit_hint}"
    )


def _advance_conditions(job: Job) -> str:
    """Return where events must arrive to advance the watermark, and what advances it without."""
    inputs = job.inputs
    scopes = ["input"] if len(inputs) > 1 else []
    scopes += ["partition"] if any(i.watermarks == "partition" for i in inputs.values()) else []
    scope_text = f" in each {' and '.join(scopes)}" if scopes else ""
    idle_inputs = [name for name, each in inputs.items() if each.idle_timeout is not None]
    if not idle_inputs:
        return scope_text
    if len(idle_inputs) < len(inputs):
        return f"{scope_text}; after its idle_timeout, {', '.join(idle_inputs)} follows the others"
    return f"{scope_text}, or when the clock has advanced as far after the idle_timeout"


def _next_result_time(job: Job, spark: SparkSession, watermark: int) -> int | None:
    transform = job.transform
    if transform is None:
        return None
    try:
        late_until = transform.late_at(F.timestamp_micros(F.lit(watermark)))
        if late_until is None:
            return None
        row = spark.range(1).select(F.unix_micros(late_until)).head()
    except AnalysisException:
        # A user's function may need columns of the row.
        return None
    return None if row is None or row[0] is None else int(row[0])


def _format_time(micros: int) -> str:
    time = UNIX_EPOCH + timedelta(microseconds=micros)
    return time.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
