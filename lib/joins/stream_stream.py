"""Joins of two streams by key and time, such as clicks that belong to a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..errors import ArgumentError
from ._early import EarlyJoin
from ._final import FinalJoin
from ._panes import Panes, Within, panes
from ._sides import RESULT_TIME, sides

How = Literal["inner", "left", "right", "full", "semi", "anti"]
JoinEmission = Literal["early", "final"]


@dataclass(frozen=True)
class IntervalJoin:
    """The join of two streams whose times lie within an interval of each other: a job's transform.

    The function `stream_stream` says what matches, and what comes out when.

    Args:
        on: the columns whose values must be equal.
        within: how far before and how far after the left row's time a right row may be.
        how: which rows come out.
        time: the event-time column, or (left's, right's).
        suffixes: what is put after a column's name that both sides have.
        emission: when rows of a stream come out: "early" or "final".

    Raises:
        ArgumentError, ColumnTypeError: at construction; and by the call, for frames that do not
            fit.

    >>> near = IntervalJoin("user", within=("0 seconds", "1 second"), how="semi")
    >>> near(clicks, clicks.where("ms > 6").withColumnRenamed("ms", "slow")).count()
    2
    """

    on: str | Sequence[str]
    within: Within = field(kw_only=True)
    how: How = field(kw_only=True)
    time: str | tuple[str, str] = "event_time"
    suffixes: tuple[str, str] = ("_left", "_right")
    emission: JoinEmission = "early"

    def __post_init__(self) -> None:
        _ = self._panes
        if self.how not in get_args(How):
            raise ArgumentError(
                f"how is {self.how!r}.",
                "'inner', 'left', 'right', 'full', 'semi' or 'anti'.",
                "how='left'",
            )
        if self.emission not in get_args(JoinEmission):
            raise ArgumentError(f"emission is {self.emission!r}.", "'early' or 'final'.")

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the rows that match, and those that match nothing, as `how` has it."""
        ours, theirs = sides(left, right, self.on, self.time)
        # A batch has all rows at once, and its panes cost less than Spark's join.
        join = EarlyJoin if left.isStreaming and self.emission == "early" else FinalJoin
        if self.how == "right":
            swapped = join(theirs, ours, self._panes.swapped(), "left")
            return swapped.answer(swapped.rows(), ours, theirs, self.suffixes)
        made = join(ours, theirs, self._panes, self.how)
        return made.answer(made.rows(), ours, theirs, self.suffixes)

    def late_at(self, time: Column) -> Column:
        """Return the instant from which a row of either side is late.

        With "early" emission that is a microsecond after the row: a row at the watermark is in
        time. With "final" it is the end of the slice that holds the row's time. A slice is an
        eighth of the farther bound long, and at least an eighth of a second.
        """
        if self.emission == "early":
            return F.timestamp_micros(F.unix_micros(time) + F.lit(1))
        return self._panes.slice_of(time)["end"]

    @property
    def reach(self) -> timedelta:
        """How far before an instant a row can be that still matters to a later result."""
        return max(self.reaches)

    @property
    def reaches(self) -> tuple[timedelta, timedelta]:
        """How far before an instant a left row, and a right row, can be that still matters.

        A pair is as late as the later of its rows. That a row is alone is known only with all rows
        of the other side that it could have matched.
        """
        panes = self._panes
        after = max(0, panes.after)
        before = max(0, panes.before)
        left = before + after if self.how in ("right", "full") else after
        right = before if self.how in ("inner", "right") else before + after
        return timedelta(microseconds=left), timedelta(microseconds=right)

    @property
    def result_time(self) -> Column:
        """The later of a pair's two times; of a row alone the last instant for a match to come.

        The rows of semi and anti joins are rows alone.
        """
        if self.how not in ("semi", "anti"):
            return quoted(RESULT_TIME)
        left = self.time if isinstance(self.time, str) else self.time[0]
        last_match = F.unix_micros(quoted(left)) + F.lit(max(0, self._panes.after))
        return F.timestamp_micros(last_match)

    @property
    def _panes(self) -> Panes:
        return panes(self.within)


def stream_stream(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    within: Within,
    how: How,
    time: str | tuple[str, str] = "event_time",
    suffixes: tuple[str, str] = ("_left", "_right"),
    emission: JoinEmission = "early",
) -> DataFrame:
    """Join two streams, or two batches, where keys are equal and times are near each other.

    A right row matches a left row if its `on` columns are equal and its time is in [left - before,
    left + after], both ends inclusive; `within` is (before, after). Either may be negative: ("-10
    minutes", "1 hour") means from 10 minutes to an hour after the left row. Several rows of a key
    match as in SQL, each with each. A key with a null matches nothing, whatever the kind. Rows with
    a null time are left out, whatever the kind.

    how: "inner" gives the pairs; "left", "right" and "full" also the rows of that side, or of both,
    that match nothing; "semi" the left rows that match, once each, and "anti" those that do not.
    What comes out is the batch join of all rows that were not late: the order of arrival, batches
    and restarts change nothing.

    emission: when rows of a stream come out, once each, in append mode. With "early" a pair comes
    out in the batch in which the second of its rows arrives, as does a row of a semi join with its
    first match. A row that matches nothing comes out when the watermark is three milliseconds past
    the last instant at which a match could come, and at once where its key has a null. With "final"
    all rows of a left row come out together, when nothing can match any more: when the watermark
    has passed it by at most `after`, a pane and a slice. A pane is as long as the farther bound,
    and at least a second; a slice is its eighth. Both give the same rows, "final" at less cost.

    A row is late, and left out, once the watermark has reached `IntervalJoin.late_at`, on either
    side alike: with "early" emission once the watermark has passed the row, with "final" at the end
    of its slice. With two inputs the watermark is the smaller of both.

    State on a stream, "early": each row until no row to come can match it. "final": the rows of the
    open slices, and those of the closed slices of open panes, right rows twice or three times; with
    "full" left rows too. A pane's rows are kept in 64 parts by key; a part, in one row of state,
    must stay below 2 GB. The result has no watermark of its own. A checkpoint is bound to on,
    within, how, emission and both sides' columns.

    Args:
        left: a batch, or a stream with a watermark on its time.
        right: the same; both may be made of one stream.
        on: the columns whose values must be equal: text, binary, whole numbers, decimals, booleans,
            dates, timestamps.
        within: how far before and how far after the left row's time a right row may be.
        how: which rows come out.
        time: the event-time column, or (left's, right's).
        suffixes: what is put after a column's name that both sides have, or that is "event_time".
        emission: when rows of a stream come out: "early" or "final".

    Returns:
        for semi and anti the columns of `left`. Else the `on` columns; `event_time`, the later of a
        pair's two times, and for a row that matches nothing the last instant at which a match could
        have come (its own time plus `after`, for right rows plus `before`, if that is positive);
        the other columns of `left`, its time included; those of `right`.

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
    join = IntervalJoin(on, within=within, how=how, time=time, suffixes=suffixes, emission=emission)
    return join(left, right)
