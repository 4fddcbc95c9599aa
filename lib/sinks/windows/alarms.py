"""Alarms for windows that deviate from past windows: raised once, withdrawn by corrections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import ClassVar, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...columns import (
    first_reason,
    quoted_column,
    quoted_column_in,
    require_column_names,
    require_instance,
    require_no_name_clash,
    same_key,
)
from ...commit.batch import UNIX_EPOCH, BatchPlan, CommitContext
from ...commit.protocol import Outcome
from ...delta import delta_table as table
from ...delta.commit_options import CommitOptions
from ...delta.row_constraints import storage_faults
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...errors import ArgumentError, ColumnError
from ...input_frames import ROWS, only_frame
from ...patterns import DeviationDetection
from ...patterns.deviation import WINDOW_START, RuleComparison
from ...windows import Tumbling
from ..base import Sink, require_target
from .corrected_windows import CorrectedWindows

EVIDENCE = ("value", "baseline", "deviation", "ratio", "robust_z", "past", "limits")
ALARM_LOG_COLUMNS = ("rule", "version", "status", "reason", *EVIDENCE, "batch", "watermark")
"""Columns of the log in addition to window and keys."""

Spans: TypeAlias = Sequence[tuple[datetime, datetime]]
"""Ranges of the starts of windows, both ends inclusive."""

_RANK = "__tidegate_rank"
_JUDGED = "judged"
_CURRENT = "current"
_PREVIOUS = "previous"


@dataclass(frozen=True)
class AlarmChanges:
    """Changes of one rule's alarms by a batch.

    comparison: the rule and the windows that it compares.
    stored_windows: the table of windows, which already contains the batch.
    log: the table of alarms before the batch; None if it does not exist.
    plan: the plan of the batch.
    """

    comparison: RuleComparison
    stored_windows: DataFrame
    log: DataFrame | None
    plan: BatchPlan

    def alarm_rows(self, rows: DataFrame, cached: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return the rows to append to the log, from the windows in the batch's rows."""
        final_end = self._newest_final_end()
        windows = cached(self._windows_to_judge(rows, final_end))
        return cached(self._alarm_rows(windows, final_end))

    def _newest_final_end(self) -> datetime:
        """Return the end of the newest final window.

        Usually the watermark of the batch. Replayed late rows have the watermark at which they were
        late, while newer windows are already final.
        """
        end = quoted_column("window")["end"]
        is_later = quoted_column("final") & (end > F.lit(self.plan.watermark))
        later = self.stored_windows.where(is_later)
        ((newest_end,),) = later.agg(F.unix_micros(F.max(end))).collect()
        return self.plan.watermark if newest_end is None else _micros_to_datetime(newest_end)

    def _windows_to_judge(self, rows: DataFrame, final_end: datetime) -> DataFrame:
        """Return the windows whose verdict the batch may change, as keys and start."""
        by = [quoted_column(name) for name in self.comparison.by]
        starts = rows.select(*by, quoted_column("window")["start"].alias(WINDOW_START)).distinct()
        windows = self.comparison.affected_windows(starts)
        if self.comparison.grid.has_window_ending_between(self.plan.late_watermark, final_end):
            newly_final = self._newly_final_windows(self.plan.late_watermark, final_end)
            windows = windows.unionByName(newly_final).distinct()
        return windows.where(self._window_end() <= F.lit(final_end))

    def _newly_final_windows(self, previous_end: datetime, final_end: datetime) -> DataFrame:
        """Return the windows that the batch made final, also those without rows."""
        by = [quoted_column(name) for name in self.comparison.by]
        past_windows = self.comparison.rule.past
        start = quoted_column("window")["start"]
        spans = self.comparison.grid.compared_ranges(previous_end, final_end, past_windows)
        if past_windows.zero_from is None:
            spans = spans[:1]
        stored_windows = self._starting_within(self.stored_windows, spans)
        candidates = stored_windows.select(*by, start.alias(WINDOW_START))
        if past_windows.zero_from is not None:
            candidates = self.comparison.affected_windows(candidates)
        end = self._window_end()
        return candidates.where((end > F.lit(previous_end)) & (end <= F.lit(final_end)))

    def _window_end(self) -> Column:
        return self.comparison.grid.window(quoted_column(WINDOW_START))["end"]

    def _alarm_rows(self, windows: DataFrame, final_end: datetime) -> DataFrame:
        """Return the alarms that the batch raises or withdraws."""
        # The ranges of starts of the affected windows and of their past windows.
        ranges = self.comparison.compared_range(windows).orderBy("number")
        bounds = ranges.select(F.unix_micros("first"), F.unix_micros("last")).collect()
        spans = [(_micros_to_datetime(first), _micros_to_datetime(last)) for first, last in bounds]
        compared_windows = self._starting_within(self.stored_windows, spans)
        verdicts = self.comparison.verdicts(compared_windows, windows, until=final_end)
        keys = [*self.comparison.by, WINDOW_START]
        previous = self._previous_alarms(verdicts, spans[:1]).alias(_PREVIOUS)
        current = verdicts.withColumn(WINDOW_START, quoted_column("window")["start"])
        compared = (
            windows.alias(_JUDGED)
            .join(current.alias(_CURRENT), same_key(keys, _JUDGED, _CURRENT), "left")
            .join(previous, same_key(keys, _JUDGED, _PREVIOUS), "left")
        )
        verdict = quoted_column_in(_CURRENT, "verdict")
        is_alarm = F.coalesce(verdict == "alarm", F.lit(False))
        was_alarm = F.coalesce(quoted_column_in(_PREVIOUS, "status") == "raised", F.lit(False))
        changed = compared.where(is_alarm != was_alarm)

        status = F.when(is_alarm, "raised").otherwise("withdrawn")
        reason = F.when(~is_alarm, F.coalesce(verdict, F.lit("no window")))
        last_version = F.coalesce(quoted_column_in(_PREVIOUS, "version"), F.lit(0).cast("bigint"))
        version = last_version + F.lit(1)
        return changed.select(
            F.lit(self.comparison.name).alias("rule"),
            self.comparison.grid.window(quoted_column_in(_JUDGED, WINDOW_START)).alias("window"),
            *[quoted_column_in(_JUDGED, name).alias(name) for name in self.comparison.by],
            version.alias("version"),
            status.alias("status"),
            reason.alias("reason"),
            *[quoted_column_in(_CURRENT, name).alias(name) for name in EVIDENCE],
            F.lit(self.plan.number).cast("bigint").alias("batch"),
            F.lit(self.plan.watermark).alias("watermark"),
        )

    def _starting_within(self, table: DataFrame, spans: Spans) -> DataFrame:
        """Return the rows of windows that start in one of the ranges; Delta skips other files."""
        start = quoted_column("window")["start"]
        conditions = [start.between(F.lit(first), F.lit(last)) for first, last in spans]
        return table.where(reduce(or_, conditions) if conditions else F.lit(False))

    def _previous_alarms(self, verdicts: DataFrame, spans: Spans) -> DataFrame:
        """Return the last log entries of the affected windows."""
        if self.log is None:
            no_rows = verdicts.where(F.lit(False)).withColumn("status", F.lit(""))
            entries = no_rows.withColumn("version", F.lit(0).cast("bigint"))
        else:
            is_rule = quoted_column("rule") == self.comparison.name
            log_rows = self._starting_within(self.log.where(is_rule), spans)
            entries = _last_entries(log_rows, self.comparison.by)
        by = [quoted_column(each) for each in self.comparison.by]
        start = quoted_column("window")["start"].alias(WINDOW_START)
        return entries.select(start, *by, "status", "version")


def _last_entries(log: DataFrame, by: str | Sequence[str]) -> DataFrame:
    keys = [quoted_column(name) for name in require_column_names(by)]
    latest_first = Window.partitionBy("rule", "window", *keys).orderBy(F.desc("version"))
    ranked = log.withColumn(_RANK, F.row_number().over(latest_first))
    return ranked.where(quoted_column(_RANK) == 1).drop(_RANK)


def _micros_to_datetime(micros: int) -> datetime:
    return UNIX_EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True)
class Alarms(Sink):
    """Write windows, and log alarms for those that deviate from past windows, exactly once.

    The rows are those of `CorrectedWindows`; `windows` writes them first. Then alarms that are
    raised or withdrawn are appended to the table at `path`. Its columns:

    | column | content |
    |---|---|
    | rule, window, keys | the rule, window and key of the alarm |
    | version | 1 for the first entry of this rule, window and key, then 2, ... |
    | status | "raised" or "withdrawn" |
    | reason | of a withdrawal: the current verdict of the window, or "no window" |
    | value to limits | the evidence, as `tidegate.patterns.deviations` returns it |
    | batch, watermark | the batch that logged the entry, and its watermark |

    A window is compared once the watermark has passed its end; open windows raise no alarm. An
    alarm is logged once, even if a correction changes its evidence. If a late row changes the
    window, or one that it is compared with, so that it no longer deviates, the alarm is withdrawn,
    and raised again if it deviates again. `read_active_alarms` returns the active alarms:
    independently of batch boundaries, those that `deviations(windows, until=watermark)` returns for
    the table of windows.

    State: the two tables. A batch compares the windows that it changes or closes, and those whose
    past contains a changed window; it reads the windows in this range. With `zero_from` it also
    compares closed windows without rows.

    Rules may change between two runs and apply to windows that are compared afterwards. Alarms of a
    removed rule remain.

    Args:
        path: path of the table of alarms.
        windows: the sink of the windows, which must be tumbling.
        deviations: the rules, for windows of the same size, offset and keys.
        notify: a sink, such as `Webhook` or `KafkaSink`, that gets the entries of each batch after
            they are logged.
        output: name of the commits in the application id.
        layout: layout of the table of alarms.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        TidegateError: as `CorrectedWindows` raises.

    >>> from tidegate.aggregates import count
    >>> from tidegate.patterns import DeviationRule, PastWindows
    >>> from tidegate.windows import WindowAggregation
    >>> hours = WindowAggregation(Tumbling("1 hour"), by="page", aggs={"views": count()})
    >>> rules = {"weekly": DeviationRule("views", PastWindows(4, every="1 week"), ratio=2)}
    >>> alarms = Alarms(
    ...     "/data/alarms",
    ...     windows=CorrectedWindows("/data/hours", aggregation=hours, log=None),
    ...     deviations=DeviationDetection("1 hour", by="page", rules=rules, zone="Europe/Berlin"),
    ... )
    >>> alarms.tables()
    [('/data/hours', 'windows'), ('/data/alarms', 'alarms')]
    """

    plan_name: ClassVar[str] = "alarms"
    path: str
    _: KW_ONLY
    windows: CorrectedWindows
    deviations: DeviationDetection
    notify: Sink | None = None
    output: str = "alarms"
    layout: TableLayout = ANY_LAYOUT

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout)
        require_instance(self.windows, "windows", CorrectedWindows)
        require_instance(self.deviations, "deviations", DeviationDetection)
        if self.notify is not None:
            require_instance(self.notify, "notify", Sink)
        self._require_distinct_tables()
        self._require_same_windows()

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of windows, of alarms and of `notify`."""
        notify_tables = [] if self.notify is None else self.notify.tables()
        return [*self.windows.tables(), (self.path, self.output), *notify_tables]

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why a table cannot store the windows of a row or an alarm, by window and keys."""
        faults = storage_faults(rows, self.path, self.layout, self.windows.keys)
        reasons = [self.windows.rejection(rows), first_reason(faults)]
        known_reasons = [reason for reason in reasons if reason is not None]
        return F.coalesce(*known_reasons) if known_reasons else None

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the windows, log alarms and notify; skip tables that already contain the batch."""
        rows = table.without_column_metadata(only_frame(frames)).persist()
        spark = rows.sparkSession
        try:
            self.windows.write({ROWS: rows}, batch, rows_out=rows_out)

            def commit(options: CommitOptions) -> None:
                self._append_to_log(spark, rows, batch, options)

            outcome = self._commit_once(spark, batch, commit, rows_out)
            if self.notify is not None:
                log = spark.read.format("delta").load(self.path)
                entries = log.where(quoted_column("batch") == batch.plan.number)
                if not entries.isEmpty():
                    self.notify.write({ROWS: entries}, batch)
            return outcome
        finally:
            rows.unpersist()

    def read_active_alarms(self, spark: SparkSession) -> DataFrame:
        """Return the active alarms: the last entry of each that is not withdrawn."""
        log = spark.read.format("delta").load(self.path)
        return _last_entries(log, self.deviations.by).where(quoted_column("status") == "raised")

    def _append_to_log(
        self, spark: SparkSession, rows: DataFrame, batch: CommitContext, options: CommitOptions
    ) -> None:
        # The table of windows contains the batch and no later one, also if the batch runs again.
        stored_windows = spark.read.format("delta").load(self.windows.path)
        self.deviations.require_windows(stored_windows)
        log = table.read_table(spark, self.path)
        with ExitStack() as exit_stack:

            def cached(frame: DataFrame) -> DataFrame:
                exit_stack.callback(frame.persist().unpersist)
                return frame

            alarm_rows = [
                AlarmChanges(each, stored_windows, log, batch.plan).alarm_rows(rows, cached)
                for each in self.deviations.comparisons()
            ]
            all_alarms = reduce(DataFrame.unionByName, alarm_rows)
            table.require_matching_schema(all_alarms, self.path, self.layout, evolve=False)
            table.append(all_alarms, self.path, options, self.layout)

    def _require_distinct_tables(self) -> None:
        for argument, *values in zip(("path", "output"), *self.tables(), strict=True):
            duplicate = next((each for each in values if values.count(each) > 1), None)
            if duplicate is not None:
                raise ArgumentError(
                    f"duplicate {argument}: {duplicate!r} for two tables",
                    f"a different {argument} for each table",
                )

    def _require_same_windows(self) -> None:
        aggregation = self.windows.aggregation
        window, deviations = aggregation.window, self.deviations
        if not isinstance(window, Tumbling):
            hint = 'Tumbling("1 hour")'
            raise ArgumentError(f"invalid windows: {window!r}", "tumbling windows", hint)
        window_deviations = DeviationDetection(
            window.size, offset=window.offset, zone=window.zone, rules=deviations.rules
        )
        if not window_deviations.grid.has_same_windows(deviations.grid):
            raise ArgumentError(
                f"invalid deviations: size={deviations.size!r}, offset={deviations.offset!r}, "
                f"zone={deviations.zone!r}",
                f"the same size and offset as {window!r}; for calendar windows also the same zone",
            )
        if tuple(deviations.by) != tuple(aggregation.by):
            raise ColumnError(
                f"invalid deviations: by={list(deviations.by)}",
                f"the keys of the windows: {list(aggregation.by)}",
            )
        require_no_name_clash([*ALARM_LOG_COLUMNS, "window"], aggregation.by, "by")
        for name, rule in deviations.rules.items():
            if rule.value not in aggregation.aggs:
                raise ColumnError(
                    f"invalid rule {name!r}: value {rule.value!r}",
                    f"an aggregate of the windows: {', '.join(aggregation.aggs)}",
                )


def corrected_windows_in(sink: object) -> CorrectedWindows | None:
    """Return the sink that merges windows, or None."""
    if isinstance(sink, Alarms):
        return sink.windows
    return sink if isinstance(sink, CorrectedWindows) else None
