"""Joins of two streams by key and time, such as clicks that belong to a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..columns import WATERMARK_KEY, interval, quoted
from ..errors import ArgumentError
from ._matching import Kind, Matching
from ._panes import Panes, Within, panes, span
from ._sides import RESULT_TIME, Side, named, sides

How = Literal["inner", "left", "right", "full", "semi", "anti"]

BUCKETS = 64
"""Into how many parts the keys of a pane are put: few large rows of state are quicker than many
small ones."""

_AT = "__tidegate_at"
_BUCKET = "__tidegate_bucket"
_SPAN = "__tidegate_span"
_PANE = "__tidegate_pane"
_LEFT = "__tidegate_left"
_RIGHT = "__tidegate_right"
# Spark knows a window by a mark on its column, whatever has computed the column, and closes the
# window when its end has passed.
_IS_WINDOW = {"spark.timeWindow": True}


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

    def __post_init__(self) -> None:
        _ = self._panes
        if self.how not in ("inner", "left", "right", "full", "semi", "anti"):
            raise ArgumentError(
                f"how is {self.how!r}.",
                "'inner', 'left', 'right', 'full', 'semi' or 'anti'.",
                "how='left'",
            )

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the rows that match, and those that match nothing, as `how` has it."""
        ours, theirs = sides(left, right, self.on, self.time)
        if self.how == "right":
            join = _Join(theirs, ours, self._panes.swapped(), "left")
        else:
            join = _Join(ours, theirs, self._panes, self.how)
        return join.answer(join.rows(), ours, theirs, self.suffixes)

    def late_at(self, time: Column) -> Column:
        """Return the end of the slice that holds an instant, an eighth of the farther bound long.

        It counts for either side alike. A slice is at least an eighth of a second.
        """
        return self._panes.slice_of(time)["end"]

    @property
    def reach(self) -> timedelta:
        """How far before an instant a row can be that still matters to a later result."""
        panes = self._panes
        return timedelta(microseconds=max(0, panes.before) + max(0, panes.after))

    @property
    def result_time(self) -> Column | None:
        """The later of a pair's two times; None for semi and anti joins."""
        return None if self.how in ("semi", "anti") else quoted(RESULT_TIME)

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
) -> DataFrame:
    """Join two streams, or two batches, where keys are equal and times are near each other.

    A right row matches a left row if its `on` columns are equal and its time is in [left - before,
    left + after], both ends inclusive; `within` is (before, after). Either may be negative: ("-10
    minutes", "1 hour") means from 10 minutes to an hour after the left row. Several rows of a key
    match as in SQL, each with each. A key with a null matches nothing, whatever the kind. Rows with
    a null time are left out, whatever the kind.

    how: "inner" gives the pairs; "left", "right" and "full" also the rows of that side, or of both,
    that match nothing; "semi" the left rows that match, once each, and "anti" those that do not.
    What comes out is the batch join of all
    rows that were not late: the order of arrival, batches and restarts change nothing.

    A row is late, and left out, once the watermark has reached the end of its slice
    (`IntervalJoin.late_at`), on either side alike; with two inputs the watermark is the smaller of
    both. Rows come out once, in append mode, when nothing can match any more: all rows of a left
    row together, when the watermark has passed it by at most `after`, a pane and a slice. A pane is
    as long as the farther bound, and at least a second; a slice is its eighth.

    State on a stream: the rows of the open slices, and those of the closed slices of open panes,
    right rows twice or three times; with "full" left rows too. A pane's rows are kept in 64 parts
    by key; a part, in one row of state, must stay below 2 GB. The result has no watermark of its
    own. A checkpoint is bound to on, within, how and both sides' columns.

    Args:
        left: a batch, or a stream with a watermark on its time.
        right: the same; both may be made of one stream.
        on: the columns whose values must be equal: text, binary, whole numbers, decimals, booleans,
            dates, timestamps.
        within: how far before and how far after the left row's time a right row may be.
        how: which rows come out.
        time: the event-time column, or (left's, right's).
        suffixes: what is put after a column's name that both sides have, or that is "event_time".

    Returns:
        for semi and anti the columns of `left`. Else the `on` columns; `event_time`, the later of a
        pair's two times, and for a row that matches nothing the last instant at which a match could
        have come (its own time plus `after`, for right rows plus `before`, if that is positive);
        the other columns of `left`, its time included; those of `right`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes as in Li et al., No Pane, No Gain (2005).

    >>> seen = clicks.select("event_time", "user", "page")
    >>> slow = clicks.where("ms > 6").drop("page")
    >>> pairs = stream_stream(seen, slow, "user", within=("0 seconds", "1 second"), how="inner")
    >>> pairs.columns
    ['user', 'event_time', 'event_time_left', 'page', 'event_time_right', 'ms']
    >>> pairs.select("user", "page", "ms").orderBy("ms").collect()
    [Row(user='u1', page='/1', ms=7), Row(user='u0', page='/2', ms=8)]
    """
    join = IntervalJoin(on, within=within, how=how, time=time, suffixes=suffixes)
    return join(left, right)


@dataclass(frozen=True)
class _Join:
    """A join whose left side is the one by whose panes the rows come out."""

    left: Side
    right: Side
    panes: Panes
    kind: Kind

    def rows(self) -> DataFrame:
        """Return the rows that match, and those that match nothing, pane by pane."""
        groups = self._panes(self._slices())
        matching = Matching(
            before=self.panes.before,
            after=self.panes.after,
            length=self.panes.length,
            keys=len(self.left.on),
            kind=self.kind,
        )
        schema = self._schema()

        def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from (found.rename_columns(schema.names) for found in matching.match(batch))

        return groups.mapInArrow(match, schema)

    def _slices(self) -> DataFrame:
        """Return the rows of both sides, collected by slice and bucket."""
        left = self._tagged(self.left, _LEFT)
        right = self._tagged(self.right, _RIGHT)
        tagged = left.unionByName(right, allowMissingColumns=True)
        slices = F.window(_AT, interval(self.panes.slice)).alias(_SPAN)
        return _collected(tagged.groupBy(slices, _BUCKET))

    def _tagged(self, side: Side, name: str) -> DataFrame:
        """Return a side's rows as structs under `name`, each with its time and bucket."""
        has_null = reduce(or_, [quoted(key).isNull() for key in side.on])
        # Rows whose key has a null match nothing, and are spread by their time.
        hashed = F.when(has_null, F.xxhash64(side.at)).otherwise(F.xxhash64(*map(quoted, side.on)))
        bucket = F.pmod(hashed, F.lit(BUCKETS)).cast("int")
        columns = [quoted(column).alias(f"column:{column}") for column in self._carried(side)]
        row = F.struct(side.at.alias("time"), *columns)
        frame = side.frame
        if not self._keeps_unmatched(side):
            # Naming the time keeps the filter above the watermark, which such a row moves like any
            # other.
            frame = frame.where(~has_null | side.at.isNull())
        return frame.select(side.at.alias(_AT), bucket.alias(_BUCKET), row.alias(name))

    def _keeps_unmatched(self, side: Side) -> bool:
        """Return whether a row of the side comes out though it matches nothing."""
        if side is self.left:
            return self.kind in ("left", "full", "anti")
        return self.kind == "full"

    def _carried(self, side: Side) -> list[str]:
        """Return the columns of a side that matching and the result need."""
        if side is self.right and self.kind in ("semi", "anti"):
            return list(side.on)
        return [*side.on, *side.others]

    def _panes(self, slices: DataFrame) -> DataFrame:
        """Return the rows that each pane needs, out of the slices that hold them."""
        full = self.kind == "full"
        start = F.unix_micros(F.col(_SPAN)["start"])
        home = self.panes.home(start)
        # A pane needs its own left rows, and the right rows that they may match; for "full" also
        # its own right rows, and the left rows that these may match.
        right_in = self.panes.met(start)
        left_in = self.panes.swapped().met(start)
        edges = [home, *right_in, *(left_in if full else ())]
        needing = F.sequence(F.least(*edges), F.greatest(*edges), F.lit(self.panes.length))
        spread = slices.select("*", F.explode(needing).alias(_PANE))
        pane = F.col(_PANE)
        needs_left = pane == home
        needs_right = pane.between(*right_in)
        if full:
            needs_left = needs_left | pane.between(*left_in)
            needs_right = needs_right | (pane == home)
        parts = spread.select(
            span(pane, pane + F.lit(self.panes.until(full=full))).alias(_SPAN),
            _BUCKET,
            F.when(needs_left & (F.size(_LEFT) > 0), F.col(_LEFT)).alias(_LEFT),
            F.when(needs_right & (F.size(_RIGHT) > 0), F.col(_RIGHT)).alias(_RIGHT),
        )
        needed = parts.where(F.col(_LEFT).isNotNull() | F.col(_RIGHT).isNotNull())
        grouped = needed.withMetadata(_SPAN, self._mark()).groupBy(_SPAN, _BUCKET)
        return _collected(grouped).select(_SPAN, _LEFT, _RIGHT)

    def _mark(self) -> dict[str, Any]:
        """Return the metadata of a column of windows with the left side's watermark."""
        metadata = self.left.frame.schema[self.left.time].metadata or {}
        delay = metadata.get(WATERMARK_KEY)
        return _IS_WINDOW if delay is None else {**_IS_WINDOW, WATERMARK_KEY: delay}

    def _schema(self) -> StructType:
        """Return the columns of joined rows: times, keys, then the other columns of each side."""
        times = [(_LEFT, self.left, self.left.time)]
        keys = [(name, self.left, name) for name in self.left.on]
        others = [(f"{_LEFT}{name}", self.left, name) for name in self.left.others]
        if self.kind not in ("semi", "anti"):
            times.append((_RIGHT, self.right, self.right.time))
            others += [(f"{_RIGHT}{name}", self.right, name) for name in self.right.others]
        named = [*times, *keys, *others]
        return StructType(
            [StructField(name, side.frame.schema[of].dataType) for name, side, of in named]
        )

    def answer(
        self, rows: DataFrame, left: Side, right: Side, suffixes: tuple[str, str]
    ) -> DataFrame:
        """Return the columns of the result, for the sides as the caller has named them."""

        def value(side: Side, name: str) -> Column:
            prefix = _LEFT if side is self.left else _RIGHT
            if name in side.on:
                return quoted(name)
            return quoted(prefix if name == side.time else f"{prefix}{name}")

        if self.kind in ("semi", "anti"):
            return rows.select(*[value(left, name).alias(name) for name in left.frame.columns])
        columns = named(left, right, suffixes)
        return rows.select(
            *map(quoted, left.on),
            self._result_time().alias(RESULT_TIME),
            *[value(side, given).alias(name) for side, given, name in columns],
        )

    def _result_time(self) -> Column:
        """Return the later of a pair's times, or the last instant at which a match could come."""
        left = F.unix_micros(_LEFT)
        right = F.unix_micros(_RIGHT)
        left_alone = left + F.lit(max(0, self.panes.after))
        right_alone = right + F.lit(max(0, self.panes.before))
        is_pair = left.isNotNull() & right.isNotNull()
        later = F.when(is_pair, F.greatest(left, right))
        return F.timestamp_micros(later.otherwise(F.coalesce(left_alone, right_alone)))


def _collected(groups: GroupedData) -> DataFrame:
    return groups.agg(F.collect_list(_LEFT).alias(_LEFT), F.collect_list(_RIGHT).alias(_RIGHT))
