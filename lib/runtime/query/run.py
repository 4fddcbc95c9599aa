"""The one runner of all jobs: start the query, watch it, stop it well, say what was done."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...columns import nested_names, require_storable
from ...commit.identity import NEVER
from ...commit.ledger import Ledger
from ...durations import interval, microseconds
from ...errors import CheckpointError, SetupError
from ...jvm import jvm_signals, names_in, require_all_files, require_statistics
from ...sinks.sink import remade
from .._checks import require_type
from ..job import Job
from ..process.failures import cause, is_of_a_topic
from ..process.local_files import bare_checkpoint
from ..process.room import room_told
from ..process.stop import Stop, StopAskedError, on_signals
from ..summary import Summary
from ..telemetry.gauge import gauge
from ..telemetry.metrics import Metrics, served
from ..telemetry.progress import Show, line
from ..telemetry.record import Record
from ..telemetry.report import Report
from .backlog import work_off
from .bridge import at_once, before
from .frames import streaming
from .idleness import Heartbeat
from .lagging import Lagging
from .names import Names
from .partitions import unlike
from .places import prepare, written
from .preflight import Preflight
from .resume import put_back, starting_at, told
from .steps import Steps
from .streams import frames, streams
from .topics import Topics, missing_topic
from .watching import unseen, watch

_LOG = logging.getLogger(__name__)


def run(
    job: Job,
    spark: SparkSession,
    *,
    stop: Stop | None = None,
    show: Show | None = None,
    resume_from_table: bool = False,
    recreate: Sequence[str] = (),
) -> Summary:
    """Run a job until its topic is drained, or SIGTERM, Ctrl-C or `stop.ask()` stops it.

    Before the query starts, checkpoint, tables and configuration are held against one another.
    resume_from_table: a new checkpoint goes on where the target's last commit ended, since that of
    the tables is lost.
    recreate: the steps whose table is gone and is to begin anew, empty; "all" for all of them. And
    the sink's steps that are new on an old checkpoint, and are to begin with its next batch.

    A stop lets the running batch finish. Raises the library's errors: those of a batch as they are,
    Spark's own as the one that fits, with Spark's as its cause; Interrupted on a second signal.
    """
    if not isinstance(spark, SparkSession):
        raise SetupError(
            f"the session is a {type(spark).__module__}.{type(spark).__name__}.",
            "a classic Spark session, in the driver's own process: Spark Connect has no access to "
            "Delta's log and to the running query.",
            "spark_session(...) of tidegate.runtime, or spark-submit.",
        )
    require_type(job, Job, "job", "Job(name=..., inputs=..., sink=...)")
    require_all_files(spark)
    require_statistics(spark)
    stop = stop or Stop()
    looked_at = job.metrics_port is not None or job.report is not None
    record = Record(Summary(job=job.name), detailed=looked_at)
    page = Report(record, job.report, lambda: stop.asked)
    with room_told(written(job)), bare_checkpoint(spark, job.places.checkpoint), page:
        return _run(job, spark, stop, show or Show(), record, page, resume_from_table, recreate)


def _run(
    job: Job,
    spark: SparkSession,
    stop: Stop,
    show: Show,
    record: Record,
    page: Report,
    resume_from_table: bool,
    recreate: Sequence[str],
) -> Summary:
    summary = record.summary
    began = time.monotonic()
    prepare(job, spark)
    checks = Preflight(job, spark, resume=resume_from_table, recreate=recreate)
    names = Names(job, spark)
    names.require()
    ledger = claimed(checks)
    numbers = served(Metrics(record), job.metrics_port, job.metrics_address)
    signals = jvm_signals(spark, ("TERM", "INT"), stop.tell)
    with on_signals(stop), signals, numbers, show:
        work_off(checks.job, spark, ledger, checks.logs.newest, record)
        job = going_on(checks.job, spark, ledger)
        if reads_again(spark, ledger) and not stop.asked:
            _Query(at_once(job), spark, ledger, names, stop, record, page, show, ends=True).run()
        if not stop.asked:
            ends = job.every is None
            _Query(job, spark, ledger, names, stop, record, page, show, ends=ends).run()
        ledger.committed()
    names.look()
    ledger.ended()
    summary.seconds, summary.stopped = round(time.monotonic() - began, 3), stop.asked
    return summary


@dataclass(frozen=True)
class _Query:
    """A job's query, from its start to its end.

    ends: whether it reads what there is, then ends.
    """

    job: Job
    spark: SparkSession
    ledger: Ledger
    names: Names
    stop: Stop
    record: Record
    page: Report
    show: Show
    _: KW_ONLY
    ends: bool

    def run(self) -> None:
        """Run it, and raise what went wrong as the library's error."""
        inputs = streams(self.job, self.spark)
        self.ledger.reads({name: len(each) for name, each in inputs.items()})
        with Topics(self.job, inputs, self.spark, self.ledger.identity.topics) as topics:
            steps = Steps(self.job, inputs, topics, self.stop, self.record, self.ledger)
            heartbeat = Heartbeat(self.job, inputs, self.record.summary)
            try:
                # The heartbeats' folders must be there when the frames that read them are made.
                heartbeat.begin(self.spark)
                known = before(self.job, self.ledger.identity.backlog)
                read = frames(self.job, inputs, self.spark, known)
                query = start(self.job, read, steps, self.ledger, ends=self.ends)
                self.record.query = str(query.id)
                lagging = Lagging(self.job, topics, self.record)
                watch(query, self.stop, partial(self._look, topics, heartbeat, lagging))
            except PySparkException as error:
                self._raise(steps, error)

    def _look(
        self,
        topics: Topics,
        heartbeat: Heartbeat,
        lagging: Lagging,
        query: StreamingQuery,
        progress: Mapping[str, Any],
    ) -> None:
        last = gauge(progress)
        for seen in unseen(query, last, self.record.number):
            self.record.saw(seen)
        self.show.batch(line(self.job.name, last, self.record.summary), last.batch)
        topics.look()
        self.names.look()
        lagging.look(last)
        self.page.look()
        self.ledger.committed()
        if query.isActive and not self.stop.asked:
            heartbeat.look(query, progress, self.spark)

    def _raise(self, steps: Steps, error: PySparkException) -> None:
        """Raise what stopped the query, unless it was asked to stop."""
        if isinstance(steps.failure, StopAskedError):
            return
        failure = cause(steps.failure, error)
        if isinstance(failure, CheckpointError):
            self.ledger.require_newest()
        missing = missing_topic(self.job, self.spark) if is_of_a_topic(failure) else None
        raise (missing or failure) from (steps.failure or error)


def claimed(checks: Preflight) -> Ledger:
    """Check the job against its checkpoint and its tables, and claim the checkpoint."""
    identity = checks.require()
    name = checks.job.name
    for change in [*checks.replanned.told, *unlike(checks.spark, checks.logs)]:
        _LOG.warning("%s: %s", name, change)
    for step in sorted((checks.noted or identity).tables.keys() - identity.tables.keys()):
        _LOG.warning("%s: the table of step %r begins anew, empty", name, step)
    if checks.begins and identity.resumed is not None:
        _LOG.warning("%s: the checkpoint was lost; the job %s", name, told(identity.resumed))
    # A table that its sink makes anew may be gone, so that nothing is noted of it.
    noted = {
        step: path for step, path in checks.steps.items() if step not in remade(checks.job.sink)
    }
    ledger = Ledger.claimed(checks.files, identity, noted)
    before = checks.noted
    if before is not None and not before.ended and checks.query is not None:
        ledger.fence(checks.tables, checks.query)
    return ledger


def going_on(job: Job, spark: SparkSession, ledger: Ledger) -> Job:
    """Return the job as it goes on after a lost checkpoint or a backlog; any other as it is.

    Until the first batch is planned, what a lost batch has left beside the target is put back.
    """
    resumed, backlog = ledger.identity.resumed, ledger.identity.backlog
    if (resumed or backlog) is None or names_in(spark, f"{job.places.checkpoint}/offsets"):
        return job
    if resumed is not None:
        put_back(job, spark, resumed)
        return starting_at(job, spark, resumed.start)
    return job if backlog is None else starting_at(job, spark, backlog.again)


def reads_again(spark: SparkSession, ledger: Ledger) -> bool:
    """Return whether the stream has yet to read again what its results need of a backlog."""
    identity = ledger.identity
    if identity.backlog is None or identity.backlog.until is None or identity.resumed is not None:
        return False
    return identity.batch == NEVER


def start(
    job: Job, inputs: Mapping[str, DataFrame], steps: Steps, ledger: Ledger, *, ends: bool
) -> StreamingQuery:
    """Start the query, and tell its steps which it is."""
    rows = streaming(job, inputs, whole=ledger.identity.whole)
    if job.transform is not None and job.each_batch is None:
        require_storable(nested_names(rows.schema), "the job's result")
    writer = rows.writeStream.queryName(job.name)
    writer = writer.option("checkpointLocation", job.places.checkpoint).foreachBatch(steps)
    if ends or job.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        every = microseconds(job.every, "every", least=0)
        writer = writer.trigger(processingTime=interval(every))
    query = writer.start()
    steps.query.set_result(query)
    return query
