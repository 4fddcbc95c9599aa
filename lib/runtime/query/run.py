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
from ...commit.ledger import Ledger
from ...durations import interval, microseconds
from ...errors import CheckpointError, SetupError
from ...jvm import (
    jvm_signals,
    reading_all,
    require_all_files,
    require_same_values,
    require_statistics,
)
from .._checks import require_type
from ..job import Job
from ..process.failures import cause, is_of_a_topic
from ..process.local_files import bare_checkpoint
from ..process.room import room_told
from ..process.stop import Stop, StopAskedError, on_signals
from ..summary import Summary
from ..telemetry.gauge import gauge
from ..telemetry.metrics import Metrics, served
from ..telemetry.progress import Show, line, opening
from ..telemetry.record import Record
from ..telemetry.report import Report
from .backlog import work_off
from .bridge import at_once, before
from .claiming import claimed, going_on, reads_again
from .frames import streaming
from .idleness import Heartbeat
from .lagging import Lagging
from .names import Names
from .places import prepare, written
from .preflight import Preflight
from .recount import Recount
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
    _require_classic(spark)
    require_type(job, Job, "job", "Job(name=..., inputs=..., sink=...)")
    require_all_files(spark)
    require_same_values(spark)
    require_statistics(spark)
    asked = stop or Stop()
    looked_at = job.metrics_port is not None or job.report is not None
    record = Record(Summary(job=job.name), detailed=looked_at)
    page = Report(record, job.report, lambda: asked.asked)
    files = bare_checkpoint(spark, job.places.checkpoint)
    with room_told(written(job)), files, reading_all(spark), page:
        return _run(job, spark, asked, show or Show(), record, page, resume_from_table, recreate)


def _require_classic(spark: SparkSession) -> None:
    if not isinstance(spark, SparkSession):
        raise SetupError(
            f"the session is a {type(spark).__module__}.{type(spark).__name__}.",
            "a classic Spark session, in the driver's own process: Spark Connect has no access to "
            "Delta's log and to the running query.",
            "spark_session(...) of tidegate.runtime, or spark-submit.",
        )


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
    topics = [name for given in job.inputs.values() for name in given.reading.source.named]
    with on_signals(stop), signals, numbers, show:
        show.update(opening(job.name, checks.logs.last + 1, ", ".join(topics), job.sink.path))
        work_off(checks.job, spark, ledger, checks.logs.newest, record)
        job = going_on(checks.job, spark, ledger)
        query = partial(
            _Query,
            spark=spark,
            ledger=ledger,
            names=names,
            stop=stop,
            record=record,
            page=page,
            show=show,
        )
        if reads_again(spark, ledger) and not stop.asked:
            query(at_once(job), ends=True).run()
        if not stop.asked:
            query(job, ends=job.every is None).run()
        ledger.committed()
    names.look()
    ledger.ended()
    summary.seconds = round(time.monotonic() - began, 3)
    summary.stopped = stop.asked
    return summary


@dataclass(frozen=True)
class _Query:
    """A job's query, from its start to its end.

    ends: whether it reads what there is, then ends.
    """

    job: Job
    _: KW_ONLY
    spark: SparkSession
    ledger: Ledger
    names: Names
    stop: Stop
    record: Record
    page: Report
    show: Show
    ends: bool

    def run(self) -> None:
        """Run it, and raise what went wrong as the library's error."""
        inputs = streams(self.job, self.spark)
        self.ledger.reads({name: len(each) for name, each in inputs.items()})
        with Topics(self.job, inputs, self.spark, self.ledger.identity.topics) as topics:
            recount = Recount(self.job, self.spark)
            steps = Steps(self.job, inputs, topics, self.stop, self.record, self.ledger, recount)
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
