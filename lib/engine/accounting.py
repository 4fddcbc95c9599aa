"""Row accounting: a batch is written only if its numbers of input and output rows agree."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from ..aggregates import Overflows
from ..commit.batch import UNIX_EPOCH, BatchPlan, BatchStats, log_overflows, sum_counts
from ..errors import AccountingError, DeadLetterLimitError, RejectedRowError
from ..job.job import Job
from ..job.policies import Limits
from ..jvm import count_lost_executors
from ..offsets import EventTimes, count_offsets
from ..sources.row_checks import rule_violations
from .streams import log_lateness_by_input

_LOG = logging.getLogger(__name__)
_CLOCK_TOLERANCE = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class ObservedCounts:
    """The row counts that a batch's query observed; times are in microseconds since 1970.

    late_rows: late rows of inputs with watermarks="log"; other late rows are counted later.
    discarded_rows, stopping_rows: rows that are not good and have on_error="drop" or "stop".
    rule_violations: the number of violations of each rule.
    """

    rows: int = 0
    dead_letters: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    clamped_rows: int = 0
    filtered_rows: int = 0
    late_rows: int = 0
    discarded_rows: int = 0
    stopping_rows: int = 0
    rule_violations: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> ObservedCounts:
        """Return the counts in the observed metrics of a stream."""
        return cls(
            rows=metrics.get("rows") or 0,
            dead_letters=metrics.get("dead_letters") or 0,
            min_event_time=metrics.get("earliest"),
            max_event_time=metrics.get("latest"),
            clamped_rows=metrics.get("clamped") or 0,
            filtered_rows=metrics.get("filtered") or 0,
            late_rows=metrics.get("late") or 0,
            discarded_rows=metrics.get("discarded") or 0,
            stopping_rows=metrics.get("stopping") or 0,
            rule_violations=rule_violations(metrics),
        )

    @classmethod
    def total(cls, counts: Iterable[ObservedCounts]) -> ObservedCounts:
        """Return the counts of several streams or inputs together."""
        parts = list(counts)
        min_times = [each.min_event_time for each in parts if each.min_event_time is not None]
        max_times = [each.max_event_time for each in parts if each.max_event_time is not None]
        return cls(
            rows=sum(each.rows for each in parts),
            dead_letters=sum(each.dead_letters for each in parts),
            min_event_time=min(min_times, default=None),
            max_event_time=max(max_times, default=None),
            clamped_rows=sum(each.clamped_rows for each in parts),
            filtered_rows=sum(each.filtered_rows for each in parts),
            late_rows=sum(each.late_rows for each in parts),
            discarded_rows=sum(each.discarded_rows for each in parts),
            stopping_rows=sum(each.stopping_rows for each in parts),
            rule_violations=sum_counts(each.rule_violations for each in parts),
        )


def reconcile_counts(
    plan: BatchPlan, counts: Sequence[Mapping[str, Any]], recounter: Recounter | None = None
) -> ObservedCounts:
    """Return the sum of the counts of an input's streams, checked against the planned offsets.

    Not every offset has a record, so a range may have fewer rows than offsets, but never more.

    recounter: counts the range again if rows may have been counted twice, or not at all.

    Raises AccountingError.
    """
    offset_count = count_offsets(plan.start, plan.end)
    if not counts:
        if offset_count:
            raise AccountingError(
                f"the rows of batch {plan.number} were not counted",
                f"it covers {offset_count:,} offsets, but the query has no observed counts. "
                "Nothing of this batch was written.",
                "use a transform that computes its result in the query of its input.",
            )
        return ObservedCounts()
    observed = ObservedCounts.total(map(ObservedCounts.from_metrics, counts))
    if recounter is not None and recounter.is_needed(observed, offset_count):
        _LOG.log(
            logging.WARNING if observed.rows else logging.INFO,
            "batch %s: %s rows observed in %s offsets; counting them again",
            plan.number,
            f"{observed.rows:,}",
            f"{offset_count:,}",
        )
        first_count, observed = observed, ObservedCounts.from_metrics(recounter.count())
        if first_count.rows:
            # Counting rows twice does not change the minimum and maximum event times.
            observed = replace(
                observed,
                min_event_time=first_count.min_event_time,
                max_event_time=first_count.max_event_time,
            )
    if not _is_plausible(observed, offset_count):
        raise AccountingError(
            f"the row count of batch {plan.number} is not possible",
            f"it has {observed.rows:,} rows and {observed.dead_letters:,} dead letters in "
            f"{offset_count:,} offsets. Nothing of this batch was written.",
            "start the job again.",
        )
    return observed


@dataclass(frozen=True)
class Recounter:
    """Counts the rows of a batch again if the observed counts may be wrong.

    Spark sums the counts of all tasks. A task that runs again because its executor was lost counts
    its rows twice, and a join with an empty table may not read its rows at all.

    count: counts the rows in a separate query.
    executors_lost: returns whether executors were lost since the last call.
    """

    count: Callable[[], Mapping[str, Any]]
    executors_lost: Callable[[], bool]

    def is_needed(self, observed: ObservedCounts, offset_count: int) -> bool:
        """Return whether rows may have been counted twice, or not at all.

        If some offsets have no record, double counting does not show in the count itself.
        """
        if not observed.rows:
            return offset_count > 0
        return not _is_plausible(observed, offset_count) or (
            observed.rows < offset_count and self.executors_lost()
        )


def _is_plausible(observed: ObservedCounts, offset_count: int) -> bool:
    return observed.dead_letters <= observed.rows <= offset_count


def count_rows_out(
    plan: BatchPlan, observed: ObservedCounts, counted_rows_out: int | None, *, one_to_one: bool
) -> int:
    """Return the number of output rows of a batch.

    counted_rows_out: None if only known to be one row for each good row.
    one_to_one: whether the query must return one row for each good row; other batches are refused.
    """
    removed_rows = observed.filtered_rows + observed.discarded_rows
    good_rows = observed.rows - observed.dead_letters - removed_rows
    rows_out = good_rows if counted_rows_out is None else counted_rows_out
    if one_to_one and rows_out != good_rows:
        removed_text = f" - {removed_rows:,} filtered or discarded rows" if removed_rows else ""
        raise AccountingError(
            f"batch {plan.number} has lost or duplicated rows",
            f"{observed.rows:,} rows read - {observed.dead_letters:,} dead letters{removed_text} "
            f"!= {rows_out:,} rows out. Nothing of this batch was written.",
            "return exactly one row for each row from the transform and from each_batch.",
        )
    return rows_out


def describe_excess_late_rows(stats: BatchStats, limits: Limits) -> str | None:
    """Describe the late rows of a batch with more than the limits allow; None for any other."""
    exceeded = limits.exceeded_by_late_rows(stats.late_rows, stats.rows_in)
    if exceeded is None:
        return None
    kind, limit = exceeded
    return (
        f"{stats.late_rows:,} of {stats.rows_in:,} rows of batch {stats.number} were late; "
        f"limits.late_{kind} is {limit}"
    )


def clock_alarm(number: int, max_event_time: int | None, now: datetime) -> str | None:
    """Return the alarm for a batch whose newest event time is far ahead of the clock; else None.

    max_event_time: in microseconds since 1970. now: the time of this machine.
    """
    if max_event_time is None:
        return None
    newest = UNIX_EPOCH + timedelta(microseconds=max_event_time)
    if newest <= now + _CLOCK_TOLERANCE:
        return None
    ahead = timedelta(seconds=(newest - now) // timedelta(seconds=1))
    return (
        f"batch {number} has an event time of {newest:%Y-%m-%d %H:%M:%S}Z, {ahead} ahead of this "
        "machine's clock. It advances the watermark, so that rows with correct times become late. "
        "Set message.timestamp.type=LogAppendTime for the topic, by which future_tolerance rejects "
        "such records"
    )


def check_late_count(number: int, streamed_count: int, reread_count: int) -> None:
    """Refuse a batch whose late rows in the stream differ from those of a second read."""
    if streamed_count != reread_count:
        raise AccountingError(
            f"the late rows of batch {number} are not deterministic",
            f"the stream dropped {streamed_count:,} late rows, and a second read of the offsets "
            f"has {reread_count:,}. Nothing of this batch was written.",
            "use a deterministic event time expression, then start the job again.",
        )


def check_dropped_rows(number: int, dropped_rows: int, late_rows: int) -> None:
    """Refuse a batch in which Spark dropped late rows that are not late for the transform.

    late_rows: the late rows that Spark may drop.
    """
    if dropped_rows and not late_rows:
        raise AccountingError(
            f"Spark dropped {dropped_rows:,} rows of batch {number} behind the watermark",
            "the transform declares no late rows, so these rows would be lost. Nothing of this "
            "batch was written.",
            "use a transform such as WindowAggregation(...), or correct `late_from` of Stateful.",
        )


def check_stopping_rows(
    plan: BatchPlan, observed: ObservedCounts, sample_reasons: Callable[[], list[str]]
) -> None:
    """Refuse a batch with rows that fail it by on_error="stop".

    sample_reasons: returns the most common reasons.
    """
    if not observed.stopping_rows:
        return
    raise RejectedRowError(
        f"batch {plan.number} has {observed.stopping_rows:,} rows that stop the job",
        f"on_error is 'stop' for their input or rule. Nothing of this batch was written. The most "
        f"common reasons:{_listed(sample_reasons())}",
        "correct the condition of `where` or of the rule; or set its on_error to 'dead_letter' or "
        "'drop'; then start again. Each of these changes is allowed on the same checkpoint.",
    )


def report_overflows(job: Job, plan: BatchPlan, overflows: Overflows) -> None:
    """Name the results of a batch that do not fit their types; refuse it by on_error="stop"."""
    if not overflows.count:
        return
    if all(each.on_error != "stop" for each in job.inputs.values()):
        log_overflows(overflows)
        return
    raise RejectedRowError(
        f"batch {plan.number} has {overflows.count:,} results that do not fit their types",
        f"on_error is 'stop' for the input. The target has no row of this batch. The results: "
        f"{overflows}",
        "sum a wider type, such as cast(value AS DECIMAL(38, 0)), with a new checkpoint; or set "
        "on_error to 'dead_letter', and these results are written as null; then start again.",
    )


def check_dead_letter_limit(
    plan: BatchPlan,
    observed: ObservedCounts,
    limits: Limits,
    sample_reasons: Callable[[], list[str]],
) -> None:
    """Refuse a batch with more dead letters than the limits.

    sample_reasons: returns the most common reasons.
    """
    exceeded = limits.exceeded_by_dead_letters(observed.dead_letters, observed.rows)
    if exceeded is None:
        return
    kind, limit = exceeded
    unit = " rows" if kind == "rows" else ""
    raise DeadLetterLimitError(
        f"batch {plan.number} has too many dead letters: {observed.dead_letters:,} of "
        f"{observed.rows:,} rows",
        f"the limit is {limit}{unit} (limits.dead_{kind}) per batch. Nothing of this batch was "
        f"written. The most common reasons:{_listed(sample_reasons())}",
        "correct the records or the schema, then start again; or raise the limit, and the rows "
        "are written to the dead letter table.",
    )


def _listed(reasons: Iterable[str]) -> str:
    return "".join(f"\n    {reason}" for reason in reasons)


class RecounterFactory:
    """Creates the recounters of a job's batches."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._job = job
        self._spark = spark
        self._lost_executors = dict.fromkeys(job.inputs, count_lost_executors(spark))

    def recounter(
        self, name: str, plan: BatchPlan, previous_event_times: EventTimes | None
    ) -> Recounter:
        """Return the recounter of one input in a batch.

        previous_event_times: the maximum event times before the batch, for watermarks="log".
        """

        def count() -> Mapping[str, Any]:
            return self._job.inputs[name].count_rows(
                self._spark,
                plan.start,
                plan.end,
                log_lateness=log_lateness_by_input(self._job).get(name),
                max_event_times=previous_event_times,
            )

        def has_lost_executors() -> bool:
            previous_count = self._lost_executors[name]
            self._lost_executors[name] = count_lost_executors(self._spark)
            return self._lost_executors[name] > previous_count

        return Recounter(count, has_lost_executors)
