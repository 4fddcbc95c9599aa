"""Comparison of the tables of a replay with those of its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from rich.console import Group
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from ...checkpoint.lineage import CheckpointLineage, RecordedTable
from ...checkpoint.lineage_files import LineageFiles
from ...columns import quoted_column, quoted_column_in
from ...commit.batch import BatchPlan
from ...commit.delta_commit import read_table_log
from ...delta.delta_table import read_table_version
from ...errors import ColumnTypeError, ComparisonError, TableMismatchError
from ...frame_diff import FrameDiff, diff_frames
from ...job.job import Job
from ...sinks import CorrectedWindows
from ..compare import exact_window_keys, innermost_sink, max_result_delay
from .manifest import ReplayManifest, final_replay_batch


@dataclass(frozen=True, kw_only=True)
class ReplayComparison:
    """The differences between the target of a replay and the target of its job.

    Attributes:
        target, replay_target: the paths of the two tables.
        differences: the differences; the job's rows are expected, the replay's rows actual.
        compared_until: later results are not compared, since they may be incomplete in one of the
            tables; None if all are compared.
        late_differences: the number of rows that were late only in the job, and only in the replay.
        unexplained_differences: the differences in windows without such rows; None if the windows
            of a row are unknown.
        row_counts: by output, the rows of the job's table and of the replay's table.
        uncompared_columns: the columns of only one of the tables.
    """

    target: str
    replay_target: str
    differences: FrameDiff
    compared_until: datetime | None
    late_differences: tuple[int, int]
    unexplained_differences: FrameDiff | None
    row_counts: Mapping[str, tuple[int, int]]
    uncompared_columns: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON; times are in ISO 8601."""
        until, unexplained = self.compared_until, self.unexplained_differences
        return {
            "target": self.target,
            "replay_target": self.replay_target,
            "is_equal": self.differences.is_empty,
            "differences": asdict(self.differences),
            "compared_until": None if until is None else until.isoformat(),
            "late_differences": _count_by_side(self.late_differences),
            "unexplained_differences": None if unexplained is None else asdict(unexplained),
            "row_counts": {name: _count_by_side(each) for name, each in self.row_counts.items()},
            "uncompared_columns": list(self.uncompared_columns),
        }


def _count_by_side(counts: tuple[int, int]) -> dict[str, int]:
    return dict(zip(("job", "replay"), counts, strict=True))


def require_replay_agreement(job: Job, comparison: ReplayComparison) -> None:
    """Raise ComparisonError if there are differences."""
    differences = comparison.differences
    if not differences.is_empty:
        raise ComparisonError(
            f"the replay of {job.name!r} differs from its table: {differences.missing:,} rows are "
            f"only in {comparison.target}, {differences.extra:,} only in "
            f"{comparison.replay_target}, and {differences.different:,} differ",
            "the job or its log has changed",
            "inspect the differences; if they are intended: tidegate replay JOB --swap",
        )


_BATCH_COLUMNS = ("version", "final", "partials")
"""Columns of corrected windows that depend on batch boundaries."""


def compare_tables(
    job: Job,
    replay_job: Job,
    manifest: ReplayManifest,
    spark: SparkSession,
    *,
    ignore: Sequence[str] = (),
) -> ReplayComparison:
    """Compare the target of a replay with the target of the job at the start of the replay.

    Final results are compared up to the time that both have reached; other rows completely.

    Raises:
        ColumnTypeError: for tables without common columns, or without the time of a result.
    """
    last_batch = final_replay_batch(replay_job, manifest, spark)
    lineage = LineageFiles(spark, replay_job.locations.checkpoint).read()
    assert lineage is not None  # It has a last batch.
    return _ReplayPair(job, replay_job, manifest, last_batch, lineage, spark).compare(ignore)


@dataclass(frozen=True)
class _ReplayPair:
    job: Job
    replay_job: Job
    manifest: ReplayManifest
    last_batch: BatchPlan
    lineage: CheckpointLineage
    spark: SparkSession

    def compare(self, ignore: Sequence[str]) -> ReplayComparison:
        job_rows, replay_rows = self._tables(self.replay_job.sink.output)
        columns = [name for name in replay_rows.columns if name in job_rows.columns]
        if not columns:
            raise ColumnTypeError(
                f"cannot compare {self.job.sink.path} with its replay: they share no column",
                f"common columns; the job has {', '.join(job_rows.columns)}, the replay "
                f"{', '.join(replay_rows.columns)}",
            )
        all_columns = dict.fromkeys([*job_rows.columns, *replay_rows.columns])
        sink = innermost_sink(self.replay_job.sink)
        batch_columns = _BATCH_COLUMNS if isinstance(sink, CorrectedWindows) else ()
        ignored = [*ignore, *(name for name in batch_columns if name in columns)]
        window_keys = exact_window_keys(self.replay_job)
        all_keys = sink.result_keys or window_keys
        keys = [name for name in all_keys if name in columns and name not in ignored]
        until = self._compared_until()
        compared = [self._comparable_rows(each, until, columns) for each in (job_rows, replay_rows)]
        differences = diff_frames(*compared, keys=keys, ignore=ignored)
        late_in_job, late_in_replay = self._late_differences()
        unexplained = None
        if window_keys and not differences.is_empty and set(window_keys) <= set(columns):
            windows = self._windows_of([*late_in_job, *late_in_replay], window_keys)
            if windows is not None:
                others = [_rows_outside_windows(each, windows, window_keys) for each in compared]
                unexplained = diff_frames(*others, keys=keys, ignore=ignored)
        outputs = sorted({*self.manifest.tables, *self.lineage.tables})
        return ReplayComparison(
            target=self.job.sink.path,
            replay_target=self.replay_job.sink.path,
            differences=differences,
            compared_until=until,
            late_differences=(
                sum(rows.count() for rows in late_in_job),
                sum(rows.count() for rows in late_in_replay),
            ),
            unexplained_differences=unexplained,
            row_counts={output: self._row_counts(output) for output in outputs},
            uncompared_columns=[name for name in all_columns if name not in columns],
        )

    def _tables(self, output: str) -> tuple[DataFrame, DataFrame]:
        """Return a table of the job at the start of the replay, and the replay's table."""
        recorded = self.manifest.tables.get(output)
        if recorded is not None and read_table_log(self.spark, recorded.path).id != recorded.id:
            raise TableMismatchError(
                f"cannot compare {recorded.path} with its replay",
                f"it was the table {recorded.id} at the start of the replay, and has been replaced",
                "put the table back; or delete the replay, and replay again",
            )
        return self._read_rows(recorded), self._read_rows(self.lineage.tables.get(output))

    def _row_counts(self, output: str) -> tuple[int, int]:
        job_rows, replay_rows = self._tables(output)
        return job_rows.count(), replay_rows.count()

    def _read_rows(self, table: RecordedTable | None) -> DataFrame:
        """Return the rows of a table; no columns if it does not exist."""
        if table is None:
            return self.spark.createDataFrame([], StructType([]))
        return read_table_version(self.spark, table.path, table.version)

    def _compared_until(self) -> datetime | None:
        """Return the time up to which results must be in both tables."""
        transform = self.replay_job.transform
        if transform is None or transform.result_time is None or self.replay_job.emit != "final":
            return None
        job_watermark = datetime.fromtimestamp(self.manifest.watermark_ms / 1000, UTC)
        return min(self.last_batch.watermark, job_watermark) - max_result_delay(self.replay_job)

    def _comparable_rows(
        self, rows: DataFrame, until: datetime | None, columns: Sequence[str]
    ) -> DataFrame:
        transform = self.replay_job.transform
        if until is not None and transform is not None and transform.result_time is not None:
            rows = rows.where(transform.result_time <= F.lit(until))
        return rows.select(*map(quoted_column, columns))

    def _late_differences(self) -> tuple[list[DataFrame], list[DataFrame]]:
        """Return the rows of each input that were late only in the job, or only in the replay."""
        late_in_job, late_in_replay = [], []
        for name, side_table in self.replay_job.locations.late_rows.items():
            job_rows, replay_rows = self._tables(side_table.output)
            position = list(self.replay_job.inputs[name].position_columns)
            # A table that does not exist has no columns to join by.
            if job_rows.columns and replay_rows.columns:
                job_rows, replay_rows = (
                    job_rows.join(replay_rows, position, "left_anti"),
                    replay_rows.join(job_rows, position, "left_anti"),
                )
            late_in_job.append(job_rows)
            late_in_replay.append(replay_rows)
        return late_in_job, late_in_replay

    def _windows_of(
        self, late_frames: Sequence[DataFrame], window_keys: Sequence[str]
    ) -> DataFrame | None:
        """Return the windows of rows that were late in only one of the two; None without tables."""
        columns = next(iter(self.replay_job.inputs.values())).columns
        late_rows = [
            rows.select(*map(quoted_column, columns))
            for rows in late_frames
            if set(columns) <= set(rows.columns)
        ]
        if not late_rows or self.replay_job.transform is None:
            return None
        results = self.replay_job.transform(reduce(DataFrame.unionByName, late_rows))
        return results.select(*map(quoted_column, window_keys)).distinct()


def _rows_outside_windows(
    rows: DataFrame, windows: DataFrame, window_keys: Sequence[str]
) -> DataFrame:
    """Return the rows outside of some windows; null equals null."""
    own, other = rows.alias("own"), windows.alias("other")
    conditions = [
        quoted_column_in("own", name).eqNullSafe(quoted_column_in("other", name))
        for name in window_keys
    ]
    return own.join(other, reduce(Column.__and__, conditions), "left_anti")


def render_comparison(comparison: ReplayComparison) -> Group:
    """Return the row counts, the differences and their explanation for a terminal."""
    row_differences = comparison.differences
    columns = [TableColumn(name, justify="right") for name in ("job", "replay")]
    rows = Table("table", *columns, box=None)
    for output, (job_count, replay_count) in comparison.row_counts.items():
        rows.add_row(output, f"{job_count:,}", f"{replay_count:,}")
    until = comparison.compared_until
    lines = [
        f"{comparison.target} and {comparison.replay_target}, results"
        f"{'' if until is None else f' up to {until.isoformat()}'}: "
        f"{row_differences.expected_rows:,} rows of the job, {row_differences.missing:,} only in "
        f"the job, {row_differences.extra:,} only in the replay, "
        f"{row_differences.different:,} different."
    ]
    if sum(comparison.late_differences):
        job_count, replay_count = comparison.late_differences
        lines.append(
            f"Late only in the job: {job_count:,} rows; late only in the replay: {replay_count:,}."
        )
    unexplained = comparison.unexplained_differences
    if unexplained is not None and unexplained.is_empty:
        lines.append("All differences are in windows of these late rows.")
    elif unexplained is not None:
        lines.append(
            f"In other windows: {unexplained.missing:,} only in the job, {unexplained.extra:,} "
            f"only in the replay, {unexplained.different:,} different."
        )
    if comparison.uncompared_columns:
        lines.append(
            f"Not compared, columns of only one table: {', '.join(comparison.uncompared_columns)}."
        )
    side_names = {"expected": "job", "actual": "replay"}
    for sample in row_differences.samples:
        side, _, values = sample.partition(": ")
        lines.append(f"  {side_names[side]}: {values}")
    return Group(rows, *map(Text, lines))
