"""The side outputs of a batch: its dead letters and its late rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..columns import JSON_IN_UTC, as_schema, quoted_column
from ..commit.batch import BatchPlan, CommitContext
from ..commit.concurrent import commit_after
from ..commit.protocol import require_counted_rows
from ..durations import microseconds
from ..job.dataflow import LateRows
from ..job.job import Job
from ..job.policies import Limits
from ..jvm import observed_metrics
from ..offsets import EventTimes
from ..sinks import SideOutputTable
from ..sources import Input
from ..sources.event_time_column import EVENT_TIME
from ..sources.kafka_source import RAW_COLUMNS
from ..sources.side_output_rows import DEAD_LETTER_SCHEMA, LatenessTest, SideOutputRows
from ..telemetry.run_metrics import MAX_REASONS
from .accounting import ObservedCounts, Recounter, check_late_count, reconcile_counts
from .streams import InputStream, log_lateness_by_input

_REASON = "__tidegate_reason"


@dataclass(frozen=True)
class InputBatch:
    """The part of a batch that belongs to one input.

    plan: the plan with the offsets of this input only.
    observed: the row counts of these offsets.
    limits: the limits of the job for these rows.
    watermarks: the watermark of each stream.
    previous_event_times: the maximum event time of each partition before the batch, for an input
        with watermarks="log"; None for other inputs.
    batch_event_times: the maximum event times within the batch.
    """

    name: str
    job_input: Input
    plan: BatchPlan
    observed: ObservedCounts
    limits: Limits
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    previous_event_times: EventTimes | None = None
    batch_event_times: EventTimes = field(default_factory=dict)


def count_input(
    job: Job,
    name: str,
    plan: BatchPlan,
    query: StreamingQuery,
    streams: Sequence[InputStream],
    previous_event_times: EventTimes | None,
    recounter: Recounter,
) -> InputBatch:
    """Return the part of a batch that belongs to one input, with its checked row counts.

    recounter: counts the rows again if the observed counts may be wrong.
    """
    job_input = job.inputs[name]
    counts = [(stream, observed_metrics(query, stream.observation)) for stream in streams]
    watermarks: dict[str, int | None] = {}
    batch_event_times: EventTimes = {}
    for stream, metrics in counts:
        max_event_time = None if metrics is None else metrics["latest"]
        watermarks[stream.name] = (
            None if max_event_time is None else max_event_time - stream.watermark_delay
        )
        if job_input.late_by_log and max_event_time is not None:
            topic, partition = stream.job_input.source.only_partition
            batch_event_times.setdefault(topic, {})[partition] = max_event_time
    known_counts = [metrics for _, metrics in counts if metrics is not None]
    observed = reconcile_counts(plan, known_counts, recounter)
    times = (previous_event_times, batch_event_times)
    return InputBatch(name, job_input, plan, observed, job.limits, watermarks, *times)


@dataclass(frozen=True)
class SideOutput:
    """The side outputs of one input in a batch.

    rows: dead letters and late rows, read once; None if there are none.
    dead_letter_count: the number of dead letters.
    """

    rows: SideOutputRows | None = None
    dead_letter_count: int = 0
    late_rows: LateRows = field(default_factory=LateRows)

    def dead_letters(self) -> DataFrame | None:
        """Return the dead letters; None if no rows were read again."""
        return None if self.rows is None else self.rows.dead_letters()


@dataclass(frozen=True)
class RejectedRows:
    """Result rows that the sink cannot store, as dead letters of the stage "sink".

    A dead letter has the row as a JSON object in `value`, and no position: the row may be the
    result of many records. A sink that decodes records itself rejects records, of the stage
    "decode".
    """

    dead_letters: DataFrame
    count: int

    @classmethod
    def find(cls, rows: DataFrame, reason: Column) -> RejectedRows | None:
        """Return the rows with a reason; None if there are none."""
        rejected = rows.withColumn(_REASON, reason).where(F.col(_REASON).isNotNull())
        count = rejected.count()
        if not count:
            return None
        value = F.to_json(F.struct(*map(quoted_column, rows.columns)), JSON_IN_UTC)
        return cls(_dead_letters(rejected, "sink", {"value": value.cast("binary")}), count)

    @classmethod
    def find_records(cls, records: DataFrame, reason: Column) -> RejectedRows | None:
        """Return the records of topics with a reason; None if there are none."""
        rejected = records.withColumn(_REASON, reason).where(F.col(_REASON).isNotNull())
        count = rejected.count()
        columns = {name: F.col(name) for name in RAW_COLUMNS if name in records.columns}
        return cls(_dead_letters(rejected, "decode", columns), count) if count else None

    def union(self, other: RejectedRows) -> RejectedRows:
        """Return these rows and those of another frame."""
        dead_letters = self.dead_letters.unionByName(other.dead_letters)
        return RejectedRows(dead_letters, self.count + other.count)

    def describe_reasons(self) -> list[str]:
        """Return the most common reasons, as text."""
        top = _most_common(self.dead_letters, 5)
        return [f"{row['n']:,} x {row['stage']}: {row['reason']}" for row in top]


def _dead_letters(
    rejected: DataFrame, stage: str, record_columns: Mapping[str, Column]
) -> DataFrame:
    columns = {
        **record_columns,
        "value_bytes": F.octet_length(record_columns["value"]).cast("bigint"),
        "stage": F.lit(stage),
        "reason": F.col(_REASON),
    }
    return rejected.select(
        *[
            columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in as_schema(DEAD_LETTER_SCHEMA)
        ]
    )


@contextmanager
def read_side_outputs(
    job: Job,
    spark: SparkSession,
    plan: BatchPlan,
    inputs: Iterable[InputBatch],
    *,
    persist_dead_letters: bool = False,
) -> Iterator[Mapping[str, SideOutput]]:
    """Yield the dead letters and late rows of each input, by name, which are read again.

    Late rows are the rows that the transform drops, by its own definition. Their number is part of
    the commits of the batch, so they are read and persisted, for the block, before anything is
    written.

    persist_dead_letters: whether dead letters are persisted even without late rows. Otherwise they
        are read while they are written, and counted by that commit.
    """

    def read(each: InputBatch) -> SideOutput:
        lateness_test = _lateness_test(job, plan, each)
        if lateness_test is None and not each.observed.dead_letters:
            return SideOutput()
        offsets = (each.plan.start, each.plan.end)
        side_rows = each.job_input.side_outputs(spark, *offsets, lateness_test)
        if lateness_test is None and not persist_dead_letters:
            return SideOutput(side_rows, each.observed.dead_letters)
        persisted.callback(side_rows.rows.persist().unpersist)
        correctable_after = None
        if lateness_test is not None and lateness_test.log_lateness is None:
            lateness_micros = microseconds(job.allowed_lateness or "0s", min_value=0)
            correctable_after = plan.late_watermark - timedelta(microseconds=lateness_micros)
        dead_letter_count, late_count, corrected_count = side_rows.count_rows(correctable_after)
        if each.previous_event_times is not None:
            check_late_count(plan.number, each.observed.late_rows, late_count)
        rows = side_rows.late_rows() if late_count else None
        late_rows = LateRows(late_count, corrected_count, correctable_after, rows)
        return SideOutput(side_rows, dead_letter_count, late_rows)

    with ExitStack() as persisted:
        yield {each.name: read(each) for each in inputs}


@contextmanager
def write_side_outputs(
    job: Job,
    spark: SparkSession,
    batch: CommitContext,
    side_outputs: Mapping[str, SideOutput],
    rejected_rows: RejectedRows | None = None,
) -> Iterator[CommitContext]:
    """Write the dead letters of all inputs and the late rows of each, concurrently with the block.

    rejected_rows: the rows that the sink cannot store, which are dead letters too.

    Yields the context for the target: it can be written within the block, and is committed after
    the side outputs.
    """
    writes: list[tuple[SideOutputTable, Callable[[], object]]] = []
    table = job.locations.dead_letters
    dead_letter_count = sum(each.dead_letter_count for each in side_outputs.values())
    dead_letter_count += 0 if rejected_rows is None else rejected_rows.count
    expected = 0 if batch.stats is None else batch.stats.dead_letters
    require_counted_rows(
        dead_letter_count,
        counted=expected,
        output=table.output,
        batch=batch.plan.number,
        path=table.path,
    )
    if expected:
        frames = [each.dead_letters() for each in side_outputs.values()]
        frames.append(None if rejected_rows is None else rejected_rows.dead_letters)
        dead_letters = reduce(
            DataFrame.unionByName, [frame for frame in frames if frame is not None]
        )
        writes.append((table, partial(table.write, dead_letters, batch, expected=expected)))
    for name, side_output in side_outputs.items():
        late_rows = side_output.late_rows
        if late_rows.count > late_rows.corrected_count:
            late_table = job.locations.late_rows[name]
            writes.append((late_table, partial(late_rows.write_uncorrected, late_table, batch)))
    concurrent_writes = []
    for table, write in writes:
        # A concurrent MERGE into the target would add its stamp to the creation of this table.
        if table.is_created_separately(spark):
            write()
        else:
            concurrent_writes.append(write)
    with commit_after(batch, spark, concurrent_writes) as target_batch:
        yield target_batch


def _lateness_test(job: Job, plan: BatchPlan, input_batch: InputBatch) -> LatenessTest | None:
    """Return the test for late rows of an input; None if no row of the batch can be late."""
    if input_batch.previous_event_times is not None:
        if not input_batch.observed.late_rows:
            return None
        lateness = log_lateness_by_input(job)[input_batch.name]
        return LatenessTest.for_log_lateness(lateness, input_batch.previous_event_times)
    if job.transform is None or input_batch.observed.min_event_time is None:
        return None
    # A row at or after the watermark is never late.
    if input_batch.observed.min_event_time >= plan.late_watermark.timestamp() * 1_000_000:
        return None
    late_at = job.transform.late_at(F.col(EVENT_TIME))
    return None if late_at is None else LatenessTest(late_at, plan.late_watermark)


def count_by_reason(
    side_outputs: Iterable[SideOutput], rejected_rows: RejectedRows | None
) -> dict[tuple[str, str], int]:
    """Return the number of dead letters by stage and reason, for the most common ones."""
    counts: Counter[tuple[str, str]] = Counter()
    frames = [each.dead_letters() for each in side_outputs if each.dead_letter_count]
    frames.append(None if rejected_rows is None else rejected_rows.dead_letters)
    for dead_letters in frames:
        if dead_letters is not None:
            for row in _most_common(dead_letters, MAX_REASONS):
                counts[row["stage"], row["reason"]] += row["n"]
    return dict(counts.most_common(MAX_REASONS))


def describe_reasons(
    spark: SparkSession, input_batch: InputBatch, *, stopping_only: bool = False
) -> list[str]:
    """Return the most common reasons of dead letters, as text.

    stopping_only: only of those that fail the batch.
    """
    plan = input_batch.plan
    side_rows = input_batch.job_input.side_outputs(spark, plan.start, plan.end)
    dead_letters = side_rows.dead_letters(stopping_only=stopping_only)
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset "
        f"{row['first']['offset']})"
        for row in _most_common(dead_letters, 5)
    ]


def _most_common(dead_letters: DataFrame, max_reasons: int) -> list[Row]:
    top = dead_letters.groupBy("stage", "reason").agg(
        F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first")
    )
    return top.orderBy(F.desc("n"), "stage", "reason").limit(max_reasons).collect()
