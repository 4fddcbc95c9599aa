"""One micro-batch: its plan, its counts, what its commits need, and the stamp of a commit."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from pyspark.sql import SparkSession

from ..aggregates import Overflows
from ..checkpoint.offset_log import (
    initial_offsets,
    parse_offset_log,
    read_checkpoint_file,
    read_offset_log,
)
from ..checkpoint.persisted_json import (
    OFFSETS,
    PLAIN,
    FormatVersion,
    JsonForm,
    mapping_of,
    optional,
)
from ..errors import AccountingError
from ..offsets import (
    EventTimes,
    Offsets,
    map_partitions,
    merge_partitions,
    partition_offset,
    select_topics,
)

_LOG = logging.getLogger(__name__)
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATE_REPLAY_QUERY = "replay"
"""The query id in the application ids of replays of late rows by earlier versions of tidegate."""


def late_replay_query(table_id: str) -> str:
    """Return the query id in the application ids of replays of the late rows of a table.

    Each late table has its own, because a replay is numbered by the version of the table.
    """
    return f"{LATE_REPLAY_QUERY}-{table_id}"


def is_late_replay(query: str) -> bool:
    """Return whether the query id in an application id is that of a replay of late rows."""
    return query == LATE_REPLAY_QUERY or query.startswith(f"{LATE_REPLAY_QUERY}-")


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The plan of a micro-batch, as the checkpoint stores it: it is the same after a crash.

    job, query_id, run_id: the job's name, and Spark's ids of the query and of its run.
    number: the number of the batch in the tables.
    offsets_hash: SHA-256 of the checkpoint's offsets/<number>, in hex.
    start, end: the Kafka offsets that the batch reads, end exclusive; empty for a source other than
        Kafka. If two sources of the query read one partition, the range spans both.
    watermark: the instant up to which the batch closes windows; 1970 at first.
    late_watermark: the batch drops rows behind this instant as late; 1970 at first. It is the
        watermark of the previous batch, so that rows of one batch never make each other late.
    """

    job: str
    query_id: str
    run_id: str
    number: int
    offsets_hash: str
    start: Offsets
    end: Offsets
    watermark: datetime
    late_watermark: datetime = UNIX_EPOCH

    def app_id(self, output: str) -> str:
        """Return the application id of an output: job/query/output."""
        return app_id(self.job, self.query_id, output)

    def for_topics(self, topics: Collection[str]) -> BatchPlan:
        """Return the plan with the offsets of these topics only."""
        return replace(
            self, start=select_topics(self.start, topics), end=select_topics(self.end, topics)
        )


@dataclass(frozen=True, kw_only=True)
class BatchStats:
    """What is known of a batch once it is read: its row counts and its newest event times.

    Attributes:
        corrected_rows: late rows that were merged into their windows; `late_rows` includes them.
        clamped_rows: rows whose event time in the future was set to the limit of their input.
        filtered_rows: valid rows that `where` of their input removed.
        discarded_rows: rows that are not good and are only counted (on_error="drop").
        rule_violations: the rows that violate each rule, by its name.
        overflows: result rows in which a result is null because it does not fit its type.
        lost_offsets: offsets that the topic deleted before they were read (offset gaps).
        is_over_late_limit: whether the batch has more late rows than the limits allow.
        watermarks: the watermark of each input, by name, in microseconds since 1970.
        max_event_time, topic_ids, max_event_times: as in the stamp.
        dead_letter_reasons: the dead letters by stage and reason, if metrics are collected.
        outcome: "written", "skipped" or "empty"; empty text before the commit.
    """

    number: int
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    late_rows: int = 0
    corrected_rows: int = 0
    clamped_rows: int = 0
    filtered_rows: int = 0
    discarded_rows: int = 0
    rule_violations: Mapping[str, int] = field(default_factory=dict)
    overflows: int = 0
    lost_offsets: int = 0
    is_over_late_limit: bool = False
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    max_event_time: int | None = None
    topic_ids: Mapping[str, str] | None = None
    max_event_times: EventTimes | None = None
    dead_letter_reasons: Mapping[tuple[str, str], int] = field(default_factory=dict)
    outcome: str = ""


class Lease(Protocol):
    """The claim of a driver: its epoch, and the tables that its last batch has recorded.

    The methods get the current log of the table of the commit.
    """

    def require_newest_epoch(self) -> None:
        """Refuse to continue after a later driver has claimed the checkpoint."""

    def require_unchanged(self, log: Any, stamp: Stamp) -> None:
        """Refuse another table than the recorded one."""

    def record_table(self, log: Any, stamp: Stamp) -> None:
        """Record the table after a commit."""


class _CommitRefusedError(Exception):
    """The batch must not be committed; the checks have raised the reason."""


class PendingWrite:
    """A batch whose write has started, and whose commit waits until it is counted and checked."""

    def __init__(self, context: CommitContext) -> None:
        self.context = context
        """The context with what is known of the batch now."""
        self._row_count: Future[int | None] = Future()
        self._checked_context: Future[CommitContext] = Future()

    # Methods for the thread that writes.

    def wait_for_checks(self, rows: int) -> None:
        """Report the number of written rows, and wait until they may be committed.

        Raises AccountingError if an earlier attempt, before a conflict, had another number.
        """
        if not self._row_count.done():
            self._row_count.set_result(rows)
        elif self._row_count.result() != rows:
            raise AccountingError(
                f"batch {self.context.plan.number} has {rows:,} rows after a conflict, and had "
                f"{self._row_count.result():,} before",
                "the transform does not return the same rows each time for a range of offsets.",
                "start the job again, which runs the batch again.",
            )
        self.context = self._checked_context.result()
        self.context.wait_for_prior_commits()

    @property
    def written_counts(self) -> dict[str, int]:
        """The count of written rows for the stamp; empty before they are written."""
        rows = self._row_count.result() if self._row_count.done() else None
        return {} if rows is None else {"out": rows}

    def on_write_end(self, failure: BaseException | None) -> None:
        """Report the end of the write, also if it has not counted its rows."""
        if self._row_count.done():
            return
        if failure is None:
            self._row_count.set_result(None)
        else:
            self._row_count.set_exception(failure)

    # Methods for the thread that checks.

    def wait_for_rows(self) -> int | None:
        """Return the number of written rows; None if the table has the batch already.

        Raises the failure of the write.
        """
        return self._row_count.result()

    def allow_commit(self, context: CommitContext) -> None:
        """Allow the commit, with all that is known of the batch now."""
        self._checked_context.set_result(context)

    def refuse_commit(self) -> None:
        """Refuse the commit unless it is allowed already."""
        if not self._checked_context.done():
            self._checked_context.set_exception(_CommitRefusedError())


def log_overflows(overflows: Overflows) -> None:
    """Name the results of a batch that do not fit their types in the log."""
    _LOG.warning(
        "%s results do not fit their types and are null: %s", f"{overflows.count:,}", overflows
    )


@dataclass(frozen=True, kw_only=True)
class CommitContext:
    """A batch as a sink writes it; `commit_once` takes it for each table.

    plan: the number, offsets and watermarks of the batch.
    stats: its counts; None outside a job, and for a write that starts before they are known.
    lease, epoch, fingerprint_hash: the claim of the driver that writes the batch, and what it adds
        to the stamp; None outside a job.
    wait_for_prior_commits: waits for the commits that must precede that of the target, and raises
        their error.
    pending_write: a write that starts before the rows are counted; None if they are counted first.
    on_overflows: called by a sink that computes results, before it commits, with the results that
        do not fit their types; can refuse the batch.

    >>> plan = BatchPlan(
    ...     job="page_views", query_id="q", run_id="r", number=3, offsets_hash="",
    ...     start={}, end={}, watermark=UNIX_EPOCH,
    ... )
    >>> CommitContext(plan=plan).plan.number
    3
    """

    plan: BatchPlan
    stats: BatchStats | None = None
    epoch: int | None = None
    fingerprint_hash: str | None = None
    lease: Lease | None = field(default=None, compare=False, repr=False)
    wait_for_prior_commits: Callable[[], None] = field(
        default=lambda: None, compare=False, repr=False
    )
    pending_write: PendingWrite | None = field(default=None, compare=False, repr=False)
    on_overflows: Callable[[Overflows], None] = field(
        default=log_overflows, compare=False, repr=False
    )


def read_batch_plan(
    spark: SparkSession,
    checkpoint: str,
    *,
    job: str,
    query_id: str,
    run_id: str,
    number: int,
    batch_number_offset: int = 0,
) -> BatchPlan:
    """Return the batch that the checkpoint has planned under a number.

    Spark writes offsets/<number> with the end of the batch before the batch runs, so a batch reads
    the same range after a crash. The batch starts at the end in offsets/<number - 1>; for a source
    without an end there, at the initial offsets in sources/<i>/0; and for a partition in neither,
    which is new, at 0. The checkpoint can be in any file system that Hadoop supports.

    number: the number in the checkpoint; the number in the tables is greater by
        `batch_number_offset`.

    Raises:
        CheckpointError: for a missing file, or one that Spark has not written.
    """
    path = f"{checkpoint}/offsets/{number}"
    content = read_checkpoint_file(spark, path)
    meta, ends = parse_offset_log(path, content)
    previous_meta: dict[str, Any] = {}
    previous_ends: list[Offsets] = []
    if number > 0:
        previous_meta, previous_ends = read_offset_log(spark, checkpoint, number - 1)
    starts = []
    for index, source_end in enumerate(ends):
        source_start = previous_ends[index] if index < len(previous_ends) else {}
        if source_end and not source_start:
            source_start = initial_offsets(spark, checkpoint, index, source_end)
        starts.append(_start_offsets(source_start, source_end))
    return BatchPlan(
        job=job,
        query_id=query_id,
        run_id=run_id,
        number=batch_number_offset + number,
        offsets_hash=hashlib.sha256(content).hexdigest(),
        start=merge_partitions(starts, min),
        end=merge_partitions(ends, max),
        watermark=_planned_watermark(meta),
        late_watermark=_planned_watermark(previous_meta),
    )


def _start_offsets(start: Offsets, end: Offsets) -> Offsets:
    """Return the start offset of each partition of `end`; 0 if it has none."""
    return map_partitions(end, lambda topic, part, _: partition_offset(start, topic, part))


def _planned_watermark(meta: dict[str, Any]) -> datetime:
    return UNIX_EPOCH + timedelta(milliseconds=int(meta.get("batchWatermarkMs", 0)))


_RARE_COUNTS = ("filtered", "discarded", "overflows")
"""The names of counts in a stamp that are there only if they are not 0."""
_RULE_COUNT = "rule "
"""The beginning of the name of the count of a rule's violations."""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """The metadata of one commit: JSON in Delta's userMetadata, atomic with the rows.

    job, query, run, batch, output: the job's name, Spark's ids of the query and of its run, the
        number of the batch, and the output that the commit belongs to.
    offsets_hash: SHA-256 of the checkpoint's offsets file of the batch.
    end: the Kafka offsets at which the batch ends, exclusive.
    row_counts: the counts of the batch that are known (in, out, dead_letters, late); those of
        filtered and discarded rows, of overflows, and of the violations of each rule, if there are
        any.
    epoch, fingerprint_hash: the start of the job that wrote the commit, and a hash of its query.
        None outside a job.
    max_event_time: the maximum event time that was read so far, in microseconds since 1970.
    topic_ids: Kafka's id of each topic, by name; None if the broker has not returned them.
    max_event_times: for deterministic lateness, the maximum event time of each partition at `end`.
    """

    job: str
    query: str
    run: str
    batch: int
    output: str
    offsets_hash: str
    end: Offsets
    row_counts: Mapping[str, int]
    epoch: int | None = None
    fingerprint_hash: str | None = None
    max_event_time: int | None = None
    topic_ids: Mapping[str, str] | None = None
    max_event_times: EventTimes | None = None

    @property
    def rare_counts(self) -> Mapping[str, int]:
        """The counts that only some batches have, by name."""
        return {
            name: count
            for name, count in self.row_counts.items()
            if name in _RARE_COUNTS or name.startswith(_RULE_COUNT)
        }

    @classmethod
    def for_batch(
        cls, batch: CommitContext, output: str, row_counts: Mapping[str, int] | None = None
    ) -> Stamp:
        """Return the stamp of one output of a batch."""
        plan, stats = batch.plan, batch.stats or BatchStats(number=batch.plan.number)
        batch_counts = {
            "in": stats.rows_in,
            "dead_letters": stats.dead_letters,
            "late": stats.late_rows,
        }
        rare = (stats.filtered_rows, stats.discarded_rows, stats.overflows)
        rare_counts = dict(zip(_RARE_COUNTS, rare, strict=True))
        rare_counts |= {
            f"{_RULE_COUNT}{name}": count for name, count in stats.rule_violations.items()
        }
        batch_counts |= {name: count for name, count in rare_counts.items() if count}
        known_counts = {} if batch.stats is None else batch_counts
        return cls(
            job=plan.job,
            query=plan.query_id,
            run=plan.run_id,
            batch=plan.number,
            output=output,
            offsets_hash=plan.offsets_hash,
            end=plan.end,
            row_counts={**known_counts, **(row_counts or {})},
            epoch=batch.epoch,
            fingerprint_hash=batch.fingerprint_hash,
            max_event_time=stats.max_event_time,
            topic_ids=stats.topic_ids,
            max_event_times=stats.max_event_times,
        )

    @property
    def app_id(self) -> str:
        """Delta's txnAppId of the output: Delta skips a second write under one id and number."""
        return app_id(self.job, self.query, self.output)

    def to_json(self) -> str:
        """Return the JSON of the commit; it omits what is not known."""
        known = {key: data for key, data in STAMP_FORM.encode(self).items() if data is not None}
        return json.dumps({"format": str(STAMP_FORMAT), **known}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Stamp | None:
        """Return the stamp in a commit's userMetadata; None if another program wrote it.

        Raises:
            CheckpointError: for a stamp of a newer version of tidegate.
        """
        try:
            data: Any = json.loads(text or "")
            if not STAMP_FORMAT.matches(data.pop("format"), "the metadata of a commit"):
                return None
            return STAMP_FORM.decode(data)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


STAMP_FORMAT = FormatVersion("tidegate commit", 1)
STAMP_FORM = JsonForm(
    Stamp,
    {
        "job": "job",
        "query": "query",
        "run": "run",
        "batch": "batch",
        "output": "output",
        "offsets_hash": "offsets_sha256",
        "end": ("end_offsets", OFFSETS),
        "row_counts": ("rows", mapping_of(PLAIN)),
        "epoch": "epoch",
        "fingerprint_hash": "fingerprint",
        "max_event_time": "max_event_time",
        "topic_ids": ("topic_ids", optional(mapping_of(PLAIN))),
        "max_event_times": ("max_event_times", optional(OFFSETS)),
    },
)


def sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several counts by name.

    >>> sum_counts([{"a": 1}, {"a": 2, "b": 0}])
    {'a': 3, 'b': 0}
    """
    totals: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            totals[name] = totals.get(name, 0) + count
    return totals


def app_id(job: str, query: str, output: str) -> str:
    """Return Delta's txnAppId for an output of a query."""
    return f"{job}/{query}/{output}"
