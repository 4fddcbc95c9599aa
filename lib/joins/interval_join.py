"""Interval joins of two streams, such as searches with the clicks of the next hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame

from ..columns import add_micros, quoted_column, require_choice, require_column_names
from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._buffered_join import FinalJoin
from ._sides import RESULT_TIME, Panes, validate_sides
from ._watermark_join import EarlyJoin

IntervalJoinType = Literal["inner", "left", "right", "full", "semi", "anti"]
JoinEmit = Literal["early", "final"]
Within = tuple[str | timedelta, str | timedelta]


@dataclass(frozen=True)
class IntervalJoin:
    """An interval join of two streams as the transform of a job; see `stream_stream`.

    Raises ArgumentError and ColumnTypeError at construction, and the errors of `stream_stream` when
    called.

    >>> near = IntervalJoin("user", within=("0 seconds", "1 second"), how="semi")
    >>> near(clicks, clicks.where("ms > 6").withColumnRenamed("ms", "slow")).count()
    2
    """

    plan_name: ClassVar[str] = "interval_join"
    on: str | Sequence[str]
    within: Within = field(kw_only=True)
    how: IntervalJoinType = field(kw_only=True)
    time: str | tuple[str, str] = "event_time"
    suffixes: tuple[str, str] = ("_left", "_right")
    emit: JoinEmit = "early"

    def __post_init__(self) -> None:
        _ = self._panes
        require_column_names(self.on, "on")
        require_choice(self.how, "how", IntervalJoinType)
        require_choice(self.emit, "emit", JoinEmit)

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the joined rows."""
        left_side, right_side = validate_sides(left, right, self.on, self.time)
        # On a batch the pane join costs less than Spark's join.
        join = EarlyJoin if left.isStreaming and self.emit == "early" else FinalJoin
        if self.how == "right":
            swapped = join(right_side, left_side, self._panes.swapped(), "left")
            return swapped.output_columns(swapped.rows(), left_side, right_side, self.suffixes)
        joined = join(left_side, right_side, self._panes, self.how)
        return joined.output_columns(joined.rows(), left_side, right_side, self.suffixes)

    def late_at(self, time: Column) -> Column:
        """Return the watermark at which a row of either side becomes late.

        With emit="early" this is a microsecond after the time of the row; with emit="final" it is
        the end of the slice that contains it. A slice is an eighth of the larger bound, at least
        an eighth of a second.
        """
        if self.emit == "early":
            return add_micros(time, 1)
        return self._panes.slice_of(time)["end"]

    @property
    def lookback(self) -> timedelta:
        """How far before the time of a result its rows can be."""
        return max(self.lookbacks)

    @property
    def lookbacks(self) -> tuple[timedelta, timedelta]:
        """How far before the time of a result its left rows and its right rows can be.

        The time of a pair is the later of its times. A row is known to be unmatched only after all
        rows of the other side that could match it.
        """
        panes = self._panes
        after = max(0, panes.after)
        before = max(0, panes.before)
        left = before + after if self.how in ("right", "full") else after
        right = before if self.how in ("inner", "right") else before + after
        return timedelta(microseconds=left), timedelta(microseconds=right)

    @property
    def result_time(self) -> Column:
        """The later time of a pair; for an unmatched row, the last time of a possible match.

        The latter also applies to the rows of semi and anti joins.
        """
        if self.how not in ("semi", "anti"):
            return quoted_column(RESULT_TIME)
        left = self.time if isinstance(self.time, str) else self.time[0]
        return add_micros(quoted_column(left), max(0, self._panes.after))

    @property
    def omits_incomplete_results(self) -> bool:
        """Whether missing rows remove results and change none: for inner and semi joins."""
        return self.how in ("inner", "semi")

    @property
    def _panes(self) -> Panes:
        within = self.within
        if isinstance(within, str) or not isinstance(within, Sequence) or len(within) != 2:
            raise ColumnTypeError(
                f"invalid within: {within!r}",
                "two durations: how far before and how far after a left row a right row can be",
                'within=("0 seconds", "1 hour")',
            )
        before, after = (microseconds(bound, "within", min_value=-(10**18)) for bound in within)
        if before + after < 0:
            raise ArgumentError(
                f"invalid within: {within!r}; the interval [left - before, left + after] is empty",
                "bounds of any sign with a sum of at least zero",
                'within=("-10 minutes", "1 hour") for 10 minutes to an hour after the left row',
            )
        if before + after == 0 and before:
            distances = [
                bound.lstrip(" -") if isinstance(bound, str) else abs(bound) for bound in within
            ]
            raise ArgumentError(
                f"invalid within: {within!r}; it accepts right rows of a single instant only",
                "how far before and how far after a left row a right row can be; a negative bound "
                "excludes rows on its side",
                f"within=({distances[0]!r}, {distances[1]!r}) for both sides of the left row",
            )
        return Panes(before, after)


def stream_stream(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    within: Within,
    how: IntervalJoinType,
    time: str | tuple[str, str] = "event_time",
    suffixes: tuple[str, str] = ("_left", "_right"),
    emit: JoinEmit = "early",
) -> DataFrame:
    """Join two streams, or two batches, by equal keys and an interval of event time.

    A right row matches a left row if its `on` columns are equal and its time is in [left - before,
    left + after], both ends inclusive; `within` is (before, after). Either bound can be negative:
    ("-10 minutes", "1 hour") means from 10 minutes to an hour after the left row. An interval of a
    single instant other than ("0 seconds", "0 seconds") is rejected. Rows with equal
    keys multiply, as in SQL. A key with a null matches nothing. Rows with a null time are dropped.

    how: "inner" returns the matching pairs; "left", "right" and "full" also return the unmatched
    rows of one or both sides; "semi" returns the left rows with a match, once each, and "anti" the
    left rows without a match. The result on a stream equals the batch join of all rows that are not
    late, regardless of order of arrival, batches and restarts.

    emit: when a stream emits rows; each row is emitted once, in append mode. With "early", a pair
    is emitted in the batch in which its second row arrives, and a row of a semi join with its first
    match. An unmatched row is emitted when the watermark is three milliseconds past the last time
    of a possible match, or at once if its key has a null. With "final", all results of a left row
    are emitted together, when no row can match any more: when the watermark has passed the left row
    by at most `after`, a pane and a slice. A pane is as long as the larger bound, at least a
    second; a slice is an eighth of it. Both settings return the same rows; "final" costs less.

    A row of either side is late, and dropped, once the watermark reaches `IntervalJoin.late_at`:
    with "early" when the watermark passes the row, with "final" at the end of its slice. With two
    inputs the watermark is the smaller one.

    State on a stream, "early": each row until no future row can match it. "final": the rows of open
    slices, and the rows of closed slices of open panes, with two or three copies of right rows and,
    with how="full", of left rows. A pane has 64 buckets by key; a bucket is one row of state and
    must be smaller than 2 GB. The result has no watermark. Changing on, within, how, emit or the
    columns of either side requires a new checkpoint.

    Args:
        left: a batch, or a stream with a watermark on its time column.
        right: a batch or a stream like `left`; both can be derived from one stream.
        on: the columns with equal values: strings, binary, integers, decimals, booleans, dates,
            timestamps.
        within: how far before and how far after the time of a left row a right row can be.
        how: the join type.
        time: the event-time column, or one column name for each side.
        suffixes: suffixes for the columns of each side that both sides have or that are named
            "event_time".
        emit: when a stream emits rows, "early" or "final".

    Returns:
        For semi and anti joins, the columns of `left`. Otherwise the `on` columns; `event_time`,
        which is the later time of a pair, or for an unmatched row the last time of a possible match
        (its time plus `after`, or plus `before` for right rows, if positive); the other columns of
        `left`, including its time; the other columns of `right`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes of "final" as in Li et al., No Pane, No Gain (2005).

    >>> seen = clicks.select("event_time", "user", "page")
    >>> slow = clicks.where("ms > 6").drop("page")
    >>> pairs = stream_stream(seen, slow, "user", within=("0 seconds", "1 second"), how="inner")
    >>> pairs.columns
    ['user', 'event_time', 'event_time_left', 'page', 'event_time_right', 'ms']
    >>> pairs.select("user", "page", "ms").orderBy("ms").collect()
    [Row(user='u1', page='/1', ms=7), Row(user='u0', page='/2', ms=8)]
    """
    join = IntervalJoin(on, within=within, how=how, time=time, suffixes=suffixes, emit=emit)
    return join(left, right)
