"""Windows that late rows still change: the current table, and a log of all results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from ...aggregates import (
    OVERFLOW,
    Overflows,
    for_partials,
    merge_columns,
    overflow_names,
)
from ...columns import (
    first_reason,
    quote_name,
    quoted_column,
    quoted_column_in,
    require_columns,
    require_instance,
    require_no_name_clash,
    require_storable_names,
    same_key,
)
from ...commit.batch import BatchPlan, CommitContext
from ...commit.concurrent import commit_after, run_in_background
from ...commit.delta_commit import commit_once
from ...commit.protocol import Outcome
from ...delta import delta_table as table
from ...delta.commit_options import CommitOptions
from ...delta.delta_table import raise_if_changed
from ...delta.row_constraints import storage_faults
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...durations import epoch_micros
from ...errors import ArgumentError
from ...event_time.batch_literal import batch_literal, batch_number_literal
from ...input_frames import only_frame
from ...jvm import DeltaState, delta_state
from ...windows import MergeEqualWindows, MergeSessions, WindowAggregation
from ..base import Sink, require_target

_FINAL_ENDS: dict[str, tuple[int, datetime]] = {}
"""By table id: the version that this process wrote last, and the newest window end in it."""


WINDOW = "window"
VERSION = "version"
FINAL = "final"
PARTIALS = "partials"
STATE_COLUMNS = (VERSION, FINAL, PARTIALS)
"""Columns of the current table in addition to window, keys and results."""

_MERGED_WINDOW = "__tidegate_merged"
_OLD = "__tidegate_old"
_RANK = "__tidegate_rank"
_STORED = "stored"
_CHANGED = "changed"


@dataclass(frozen=True)
class WindowChanges:
    """Changes of stored windows by a batch.

    aggregation: the windows, keys and aggregates.
    partials: the batch's rows of partial aggregates.
    """

    aggregation: WindowAggregation
    partials: DataFrame
    plan: BatchPlan

    @property
    def keys(self) -> list[str]:
        """The key columns of the current table."""
        return [WINDOW, *self.aggregation.by]

    @property
    def merge_rule(self) -> MergeEqualWindows | MergeSessions:
        """Which windows are merged into one."""
        rule = self.aggregation.merge_rule
        assert rule is not None, "CorrectedWindows requires mergeable windows"
        return rule

    @cached_property
    def _span(self) -> Sequence[int] | None:
        """The first start, last end and first end of the new windows; None without windows."""
        start, end = quoted_column(WINDOW)["start"], quoted_column(WINDOW)["end"]
        bounds = [F.min(start), F.max(end), F.min(end)]
        edges = self.partials.agg(*map(F.unix_micros, bounds)).head()
        return None if edges is None or edges[0] is None else edges

    @property
    def have_ended(self) -> bool:
        """Whether the watermark has passed all new windows."""
        return self._span is None or self._span[1] <= epoch_micros(self.plan.watermark)

    def compute_changes(self, stored: DataFrame | None) -> DataFrame:
        """Return the windows that the batch changes.

        stored: the windows of the table; None if none is affected.

        Columns: the keys, and `old` and `new`: structs of results, version, final and partials;
        `old` is null for a new window, `new` for a withdrawn one.
        """
        new_partials = self._new_partials()
        overlapping = None if stored is None else self._overlapping_stored(stored, new_partials)
        rows = new_partials if overlapping is None else overlapping.unionByName(new_partials)
        grouped = self.merge_rule.with_merged_window(rows, _MERGED_WINDOW)
        updated = self._merged_windows(grouped)
        # A session that was merged into a larger one is withdrawn.
        absorbed = grouped.where(
            quoted_column(_OLD).isNotNull()
            & (quoted_column(WINDOW) != quoted_column(_MERGED_WINDOW))
        )
        null_value = F.lit(None).cast(updated.schema["new"].dataType)
        withdrawn = absorbed.select(
            *map(quoted_column, self.keys),
            quoted_column(_OLD).alias("old"),
            null_value.alias("new"),
        )
        return updated.unionByName(withdrawn)

    def compare_with_table(self, state: DeltaState, path: str) -> tuple[DataFrame, bool | None]:
        """Return the changed windows, and whether they may overlap stored windows; None if unknown.

        state, path: those of the table.
        """
        if state.version < 0:
            return self.compute_changes(None), False
        spark = self.partials.sparkSession
        stored = spark.read.format("delta").load(path)
        if not isinstance(self.merge_rule, MergeEqualWindows):
            # A new session may overlap one that has ended.
            return self.compute_changes(stored), None
        cached_version, cached_end = _FINAL_ENDS.get(state.table_id(), (None, None))
        final_end = cached_end if cached_version == state.version else None
        with run_in_background(spark, [lambda: self._span]):
            # If the previous windows were new, these probably are; plan the changes concurrently.
            planned_changes = None if final_end is None else self.compute_changes(None)
        if self._are_new(stored, final_end):
            return self.compute_changes(None) if planned_changes is None else planned_changes, False
        # Without new windows, stored windows may still have become final.
        return self.compute_changes(stored), None if self._span is None else True

    def is_in_batch_range(self, window: Column) -> Column:
        """Return whether the batch may change a stored window, by its times only.

        Literal times let Delta skip most files. They are rounded to a grid, since a new literal in
        each batch changes the generated code, which Spark would compile again.
        """
        instants = [epoch_micros(self.plan.late_watermark), epoch_micros(self.plan.watermark)]
        if self._span is not None:
            instants += self._span[:2]
        width = 1 << (max(instants) - min(instants)).bit_length()
        earliest = min(instants) // width * width
        latest = -(-max(instants) // width) * width
        starts_before = window["start"] <= F.timestamp_micros(F.lit(latest))
        return (window["end"] >= F.timestamp_micros(F.lit(earliest))) & starts_before

    def _are_new(self, stored: DataFrame, final_end: datetime | None) -> bool:
        """Return whether no new window is stored and no stored window is open.

        True if all stored windows ended before the batch, and all new ones end within it.

        final_end: an instant that no stored window ends after; None to query the table.
        """
        previous_watermark = self.plan.late_watermark
        if self._span is not None and (
            self._span[2] <= epoch_micros(previous_watermark) or not self.have_ended
        ):
            return False
        if final_end is not None:
            return final_end <= previous_watermark
        # Delta skips the files of windows that ended before.
        was_open = quoted_column(WINDOW)["end"] > F.lit(previous_watermark)
        return self._span is not None and stored.where(was_open).isEmpty()

    def _new_partials(self) -> DataFrame:
        rows = self.partials.select(*map(quoted_column, [*self.keys, *self.aggregation.aggs]))
        null_value = self._stored_value(F.lit(0).cast("bigint"), F.lit(False))
        return rows.withColumn(_OLD, F.when(F.lit(False), null_value))

    def _overlapping_stored(self, stored: DataFrame, new_partials: DataFrame) -> DataFrame:
        """Return the stored windows that the batch affects, and those that became final since."""
        in_range = stored.where(self.is_in_batch_range(quoted_column(WINDOW)))
        end = quoted_column(WINDOW)["end"]
        ended_before = end <= batch_literal(self.plan.late_watermark, end)
        is_past = end <= batch_literal(self.plan.watermark, end)
        newly_past = ~quoted_column(FINAL) & is_past & ~ended_before
        overlapping = self.merge_rule.overlapping_windows(in_range, new_partials, newly_past)
        aggs = self.aggregation.aggs
        value = F.struct(*map(quoted_column, [*aggs, *STATE_COLUMNS]))
        partials = [quoted_column(PARTIALS)[name].alias(name) for name in aggs]
        return overlapping.select(*map(quoted_column, self.keys), *partials, value.alias(_OLD))

    def _merged_windows(self, grouped: DataFrame) -> DataFrame:
        by = [quoted_column(name) for name in self.aggregation.by]
        window, merged_window = quoted_column(WINDOW), quoted_column(_MERGED_WINDOW)
        merges_by_name = merge_columns(grouped, self.aggregation.mergeable_aggregates)
        partials = [merge.alias(name) for name, merge in merges_by_name.items()]
        stored_value = F.when(window == merged_window, quoted_column(_OLD))
        old_value = F.any_value(stored_value, F.lit(True)).alias("old")
        merged = grouped.groupBy(_MERGED_WINDOW, *by).agg(*partials, old_value)

        old, end = quoted_column("old"), merged_window["end"]
        is_past = end <= batch_literal(self.plan.watermark, end)
        final = is_past | F.coalesce(old[FINAL], F.lit(False))
        # Only final windows have log entries, and thus versions above 0.
        last_version = F.coalesce(old[VERSION], F.lit(0).cast("bigint"))
        new = self._stored_value(last_version + final.cast("bigint"), final).alias("new")
        return merged.select(merged_window.alias(WINDOW), *by, old, new)

    @cached_property
    def _overflow(self) -> Column | None:
        """The results of a changed window that do not fit their types; None if all results fit."""
        aggs = for_partials(self.partials, self.aggregation.mergeable_aggregates)
        partials = quoted_column("new")[PARTIALS]
        return overflow_names({name: (agg, partials[name]) for name, agg in aggs.items()})

    @property
    def can_overflow(self) -> bool:
        """Whether a result of the windows may not fit its type."""
        return self._overflow is not None

    def find_overflows(self, changes: DataFrame) -> Overflows:
        """Return the changed windows with a result that does not fit its type."""
        if self._overflow is None:
            return Overflows()
        return self.aggregation.find_overflows(changes.withColumn(OVERFLOW, self._overflow))

    def _stored_value(self, version: Column, final: Column) -> Column:
        aggs = for_partials(self.partials, self.aggregation.mergeable_aggregates)
        results = [agg.finish(quoted_column(name)).alias(name) for name, agg in aggs.items()]
        partials = F.struct(*map(quoted_column, self.aggregation.aggs)).alias(PARTIALS)
        return F.struct(*results, version.alias(VERSION), final.alias(FINAL), partials)


def _with_overflows(batch: CommitContext, overflows: Overflows) -> CommitContext:
    """Report the results that do not fit their types, and return the batch with their number."""
    if not overflows.count:
        return batch
    batch.on_overflows(overflows)
    if batch.stats is None:
        return batch
    return replace(batch, stats=replace(batch.stats, overflows=overflows.count))


def log_rows(
    changes: DataFrame, keys: Sequence[str], result_columns: Sequence[str], batch: CommitContext
) -> DataFrame:
    """Return a log entry for each result that is, or was, final.

    changes: the rows of `WindowChanges.compute_changes`.
    keys: the key columns of windows. result_columns: the names of results.
    """
    was_published = _is_published(quoted_column("old"))
    is_published = _is_published(quoted_column("new"))
    old = F.when(was_published, quoted_column("old"))
    new = F.when(is_published, quoted_column("new"))
    end = quoted_column(WINDOW)["end"]
    zero = F.lit(0)
    net = [
        (F.coalesce(new[field.name], zero) - F.coalesce(old[field.name], zero)).alias(field.name)
        for field in changes.select("new.*").schema
        if field.name in result_columns and isinstance(field.dataType, NumericType)
    ]
    # A withdrawn window has no new value; its entry follows the last one.
    version = F.coalesce(quoted_column("new")[VERSION], quoted_column("old")[VERSION] + F.lit(1))
    return changes.where(was_published | is_published).select(
        *map(quoted_column, keys),
        version.alias(VERSION),
        old[VERSION].alias("supersedes"),
        F.when(was_published, _values(quoted_column("old"), result_columns)).alias("old"),
        F.when(is_published, _values(quoted_column("new"), result_columns)).alias("new"),
        *([F.struct(*net).alias("net")] if net else []),
        batch_number_literal(batch.plan.number, F.unix_micros(end)).alias("batch"),
        batch_literal(batch.plan.watermark, end).alias("watermark"),
    )


def _is_published(side: Column) -> Column:
    """Return whether the result was logged; open windows have version 0."""
    return F.coalesce(side[VERSION], F.lit(0).cast("bigint")) > 0


def _values(side: Column, names: Sequence[str]) -> Column:
    return F.struct(*[side[name].alias(name) for name in names])


@dataclass(frozen=True)
class CorrectedWindows(Sink):
    """Merge each batch's windows into a table, exactly once, and log each change of a result.

    Rows contain a window, the keys and one partial per aggregate, as `aggregation.partials()`
    returns them: of closed windows, of late rows or of the rows of a batch. Two tables are written
    concurrently; the log is committed first.

    The log at `log` is append-only. Its columns:

    | column | content |
    |---|---|
    | window, keys | the window and key of the result |
    | version, supersedes | number of the entry, and of the entry that it replaces |
    | old, new | structs of results; null if there is none |
    | net | struct of new minus old, for numeric results |
    | batch, watermark | the batch that logged the entry, and its watermark |

    Only windows that the watermark has passed are logged. If a session grows or is merged with
    another, it is withdrawn (new is null) and the resulting session is added. The sum of net for a
    count equals the sum over the table. `log=None` writes no log.

    The table at `path` contains the current windows: window, keys, results, version (of the last
    log entry, 0 before the first), final (whether the watermark has passed the window's end) and
    partials for later merges. Filter by `final` to read final results only. `windows_from_log`
    computes the final rows of the table from the log.

    Independently of batch boundaries, results are those of all merged rows, up to the error of
    sketches. A window becomes final, and is logged, with the first batch whose watermark has
    passed its end, and remains final.

    State: the current table. A batch reads the stored windows in the range of its times. A batch
    that affects none is appended, which costs less than a merge; unless windows are sessions or an
    earlier window was late, this is detected without reading the table.

    Args:
        path: path of the current table.
        aggregation: the windows of the job's transform; all kinds except sliding windows.
        log: path of the log, or None.
        output: name of the commits in the application id; "_log" is appended for the log.
        layout, log_layout: layouts of the two tables.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        TableError: if columns differ from the table's.
        TableMismatchError, ConflictError: if tables belong to another query or have other writers.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling
    >>> views = WindowAggregation(Tumbling("1 minute"), by="page", aggs={"views": count()})
    >>> CorrectedWindows("/data/views", aggregation=views, log="/data/log").tables()
    [('/data/log', 'windows_log'), ('/data/views', 'windows')]
    """

    plan_name: ClassVar[str] = "corrected_windows"
    path: str
    _: KW_ONLY
    aggregation: WindowAggregation
    log: str | None
    output: str = "windows"
    layout: TableLayout = ANY_LAYOUT
    log_layout: TableLayout = ANY_LAYOUT

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)
        if self.log is not None:
            require_instance(self.log, "log", str, 'log="/tables/corrections", or None')
        require_target(self.log or self.path, self.output, self.log_layout)
        hint = 'WindowAggregation(Tumbling("1 minute"), by="page", aggs={...})'
        require_instance(self.aggregation, "aggregation", WindowAggregation, hint)
        if self.path == self.log:
            raise ArgumentError(f"invalid log: {self.log!r} is also path", "a different table")
        aggs = self.aggregation.mergeable_aggregates
        require_no_name_clash([WINDOW, *self.aggregation.by, *STATE_COLUMNS], aggs)
        require_storable_names(self.aggregation.by, "by")
        require_storable_names(aggs, "aggs")

    @property
    def keys(self) -> list[str]:
        """The key columns of the current table."""
        return [WINDOW, *self.aggregation.by]

    def tables(self) -> list[tuple[str, str]]:
        """Return the log, if any, and the current table."""
        log = [] if self.log is None else [(self.log, f"{self.output}_log")]
        return [*log, (self.path, self.output)]

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the tables cannot store the windows of a row, by its window and keys."""
        faults = storage_faults(rows, self.path, self.layout, self.keys)
        if self.log is not None:
            faults += storage_faults(rows, self.log, self.log_layout, self.keys)
        return first_reason(faults)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Merge the batch's windows, or skip the batch if the table already contains it."""
        frame = table.without_column_metadata(only_frame(frames))
        require_columns(frame, [*self.keys, *self.aggregation.aggs], "keys and aggs")
        spark = frame.sparkSession
        window_changes = WindowChanges(self.aggregation, frame, batch.plan)
        state = delta_state(spark, self.path)
        changes, touches_stored = window_changes.compare_with_table(state, self.path)
        if self.log is not None or touches_stored is None or window_changes.can_overflow:
            # Otherwise they are evaluated once; Delta caches the source of a merge itself.
            changes.persist()

        def commit(options: CommitOptions) -> None:
            rows = changes.select(*map(quoted_column, self.keys), "new.*")
            table.require_matching_schema(rows, self.path, self.layout, evolve=False)
            was_stored = quoted_column("old").isNotNull()
            if touches_stored or (
                touches_stored is None and not changes.where(was_stored).isEmpty()
            ):
                self._merge(window_changes, changes, options)
            else:
                # All windows are new, and none is withdrawn.
                table.append(rows, self.path, options, self.layout)

        try:
            if window_changes.can_overflow and not self._is_committed(spark, batch):
                batch = _with_overflows(batch, window_changes.find_overflows(changes))
            with commit_after(batch, spark, self._log_writers(changes, batch)) as waiting_batch:
                outcome = self._commit_once(spark, waiting_batch, commit, rows_out)
        finally:
            changes.unpersist()
        if touches_stored is False and window_changes.have_ended:
            new_state = delta_state(spark, self.path)
            # Otherwise another writer has committed in between.
            if new_state.version == state.version + 1:
                _FINAL_ENDS[new_state.table_id()] = (new_state.version, batch.plan.watermark)
        return outcome

    def _log_writers(self, changes: DataFrame, batch: CommitContext) -> list[Callable[[], object]]:
        """Return the function that writes the log concurrently with the table, if any."""
        if self.log is None:
            return []
        (path, output), _ = self.tables()
        layout = self.log_layout
        spark = changes.sparkSession

        def commit(options: CommitOptions) -> None:
            rows = log_rows(changes, self.keys, list(self.aggregation.aggs), batch)
            table.require_matching_schema(rows, path, layout, evolve=False)
            table.append(rows, path, options, layout)

        write = partial(commit_once, spark, path, batch, output, commit, {})
        if layout.needs_separate_creation(delta_state(spark, path)):
            # Session settings of the merge would put its stamp on the commit that creates the log.
            write()
            return []
        return [write]

    def _merge(
        self, window_changes: WindowChanges, changes: DataFrame, options: CommitOptions
    ) -> None:
        spark = changes.sparkSession
        source = changes.select(*map(quoted_column, self.keys), "old", "new")
        old = quoted_column_in(_CHANGED, "old")
        new = quoted_column_in(_CHANGED, "new")
        values: dict[str, str | Column] = {
            quote_name(name): new[name] for name in (*self.aggregation.aggs, *STATE_COLUMNS)
        }
        unchanged = quoted_column_in(_STORED, VERSION).eqNullSafe(old[VERSION])
        guarded_version = raise_if_changed(new[VERSION], unchanged, "bigint")
        keys: dict[str, str | Column] = {
            quote_name(name): quoted_column_in(_CHANGED, name) for name in self.keys
        }
        in_range = window_changes.is_in_batch_range(quoted_column_in(_STORED, WINDOW))
        same = same_key(self.keys, _STORED, _CHANGED) & in_range
        merge = (
            DeltaTable.forPath(spark, self.path)
            .alias(_STORED)
            .merge(source.alias(_CHANGED), same)
            .whenMatchedDelete(new.isNull())
            .whenMatchedUpdate(set={**values, quote_name(VERSION): guarded_version})
            .whenNotMatchedInsert(new.isNotNull(), values={**values, **keys})
        )
        options.merge(spark, self.path, merge)


def windows_from_log(log: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Return the current results from a log of corrected windows.

    These are the final rows of the current table.

    Args:
        log: the log of a `CorrectedWindows` sink.
        by: the key columns of the windows.

    Returns:
        window, keys, one column per result, version.

    Raises:
        ColumnError: at the call.

    >>> log = spark.createDataFrame(
    ...     [("w", 1, (2,)), ("w", 2, (3,))], "window string, version int, new struct<views: int>"
    ... )
    >>> [tuple(row) for row in windows_from_log(log).collect()]
    [('w', 3, 2)]
    """
    require_columns(log, [WINDOW, *by], "by")
    keys = [quoted_column(name) for name in (WINDOW, *by)]
    latest_first = Window.partitionBy(*keys).orderBy(F.desc(VERSION))
    ranked = log.withColumn(_RANK, F.row_number().over(latest_first))
    latest = ranked.where((quoted_column(_RANK) == 1) & quoted_column("new").isNotNull())
    return latest.select(*keys, "new.*", VERSION)
