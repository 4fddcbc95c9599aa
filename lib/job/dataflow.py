"""The DataFrames of a job: the query over its inputs, and the frames that the sink gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted_column
from ..commit.batch import CommitContext
from ..errors import ArgumentError, ColumnTypeError
from ..event_time.batch_literal import batch_literal
from ..input_frames import ROWS
from ..jvm import frame_in_session
from ..sinks import SideOutputTable
from ..sources.event_time_column import EVENT_TIME
from ..windows import WindowAggregation
from .job import Job

INPUT_COLUMN = "__tidegate_input"


@dataclass(frozen=True)
class LateRows:
    """The late rows of one input in a batch.

    count: the number of late rows. corrected_count: how many of them are within the allowed
    lateness and correct their windows.
    correctable_after: a row that was late at or before this instant is past the allowed lateness;
    None where late rows correct nothing.
    rows: the rows, with `final_at`, the instant from which each is late, and `watermark`.
    """

    count: int = 0
    corrected_count: int = 0
    correctable_after: datetime | None = None
    rows: DataFrame | None = None

    def correcting_rows(self) -> DataFrame | None:
        """Return the rows that correct their windows; None if there are none."""
        if self.rows is None or self.correctable_after is None or not self.corrected_count:
            return None
        final_at = F.col("final_at")
        return self.rows.where(final_at > batch_literal(self.correctable_after, final_at))

    def write_uncorrected(self, table: SideOutputTable, batch: CommitContext) -> None:
        """Write the rows that correct no window to their side output."""
        uncorrected_count = self.count - self.corrected_count
        if self.rows is None or not uncorrected_count:
            return
        rows = self.rows
        if self.correctable_after is not None and self.corrected_count:
            final_at = F.col("final_at")
            rows = rows.where(final_at <= batch_literal(self.correctable_after, final_at))
        table.write(rows, batch, expected=uncorrected_count)


def build_query(
    job: Job,
    inputs: Mapping[str, DataFrame],
    *,
    complete_after: int | None = None,
    names_overflows: bool = False,
) -> DataFrame:
    """Return the rows of the job's query over its inputs.

    Windows that are written while they are open (emit="changes") are built per batch; the query
    then returns the input rows unchanged.

    complete_after: drops results at or before this instant, in microseconds since 1970, because
        their state was lost with a checkpoint.
    names_overflows: whether the results of windows have the column OVERFLOW, if one can overflow.
    """
    if job.transform is None or job.emit == "changes":
        return tag_and_union(**inputs) if len(inputs) > 1 else next(iter(inputs.values()))
    transform = partial_windows(job) if job.merges_windows else job.transform
    spark = next(iter(inputs.values())).sparkSession
    compute: Callable[..., DataFrame] = transform
    if names_overflows and isinstance(transform, WindowAggregation):
        compute = transform.with_overflows
    rows = _returned_frame(compute(*inputs.values()), "the transform", spark)
    if complete_after is None or transform.result_time is None:
        return rows
    return rows.where(transform.result_time > F.timestamp_micros(F.lit(complete_after)))


@contextmanager
def sink_frames(
    job: Job, batch: DataFrame, late_rows: Sequence[LateRows]
) -> Iterator[dict[str, DataFrame]]:
    """Yield the frames of a batch that the sink gets, by name.

    Rows that are built per batch stay persisted within the block, because a sink may read them
    several times.
    """
    batch_rows = _per_batch_rows(job, batch, late_rows)
    if batch_rows is not None:
        rows = batch_rows.persist()
        try:
            yield {ROWS: rows}
        finally:
            rows.unpersist()
    elif job.merges_windows:
        # The windows that have closed, and those that late rows correct.
        rows = batch
        for each in late_rows:
            correcting_rows = each.correcting_rows()
            if correcting_rows is not None:
                rows = rows.unionByName(partial_windows(job)(correcting_rows))
        yield {ROWS: rows}
    else:
        yield _frames_by_name(job, batch)


def partial_windows(job: Job) -> WindowAggregation:
    """Return the job's windows with partial aggregates, which `CorrectedWindows` merges."""
    if not isinstance(job.transform, WindowAggregation):
        raise ArgumentError(f"invalid transform: {job.transform!r}", "a WindowAggregation")
    return job.transform.partials()


def tag_and_union(**frames: DataFrame) -> DataFrame:
    """Return the union of several frames, each row tagged with the name of its frame.

    Columns: `INPUT_COLUMN`, and for each name a struct of that frame's columns, which is null in
    the rows of the other frames. Stateless; a checkpoint depends on the names and their order.

    >>> both = tag_and_union(clicks=clicks, users=clicks.select("user").distinct())
    >>> both.columns, both.count() == clicks.count() + rows_tagged(both, "users").count()
    (['__tidegate_input', 'clicks', 'users'], True)
    """
    tagged_frames = []
    for own_name, own_frame in frames.items():
        row = F.struct(*[quoted_column(column) for column in own_frame.columns])
        structs = [
            (row if name == own_name else F.lit(None).cast(frame.schema)).alias(name)
            for name, frame in frames.items()
        ]
        tagged_frames.append(own_frame.select(F.lit(own_name).alias(INPUT_COLUMN), *structs))
    return reduce(DataFrame.unionByName, tagged_frames)


def rows_tagged(frame: DataFrame, name: str) -> DataFrame:
    """Return the rows of one frame of a tagged union, with that frame's columns."""
    return frame.where(quoted_column(INPUT_COLUMN) == F.lit(name)).select(f"{name}.*")


def _per_batch_rows(job: Job, batch: DataFrame, late_rows: Sequence[LateRows]) -> DataFrame | None:
    """Return the rows that are built per batch; None where the query's rows reach the sink."""
    if job.emit == "changes":
        windows = partial_windows(job)
        late_at = windows.late_at(F.col(EVENT_TIME))
        rows = batch
        for each in late_rows:
            if each.count:
                rows = rows.where(late_at > F.lit(each.correctable_after))
        return windows(rows)
    if job.each_batch is None:
        return None
    frames = _frames_by_name(job, batch)
    rows = job.each_batch(*frames.values()) if len(frames) == 1 else job.each_batch(**frames)
    return _returned_frame(rows, "each_batch", batch.sparkSession)


def _frames_by_name(job: Job, batch: DataFrame) -> dict[str, DataFrame]:
    if job.transform is not None:
        return {ROWS: batch}
    if len(job.inputs) == 1:
        return dict.fromkeys(job.inputs, batch)
    return {name: rows_tagged(batch, name) for name in job.inputs}


def _returned_frame(value: object, label: str, spark: SparkSession) -> DataFrame:
    """Return the frame that a function of the job has returned, in the session of the job.

    A frame is computed and written with the settings of the session of its first input, which can
    be a table of the caller's session.
    """
    if not isinstance(value, DataFrame):
        raise ColumnTypeError(f"invalid result of {label}: {value!r}", "a DataFrame")
    return frame_in_session(value, spark)
