"""Joins of two streams by key and time, such as clicks that belong to a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
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

_AT, _BUCKET, _SPAN, _PANE, _HOME, _MET = (
    f"__tidegate_{name}" for name in ("at", "bucket", "span", "pane", "home", "met")
)
_LEFT, _RIGHT = "__tidegate_left", "__tidegate_right"


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
        left, right: two batches, or two streams, each with a watermark on its time. Both may be
            made of one stream.
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
        """Match each pane's rows."""
        groups = self._panes(self._slices())
        matching = Matching(
            self.panes.before, self.panes.after, self.panes.length, len(self.left.on), self.kind
        )
        schema = self._schema()

        def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from (found.rename_columns(schema.names) for found in matching.match(batch))

        return groups.mapInArrow(match, schema)

    def _slices(self) -> DataFrame:
        """Collect the rows of both sides by slice and bucket."""
        tagged = self._tagged(self.left, _LEFT).unionByName(
            self._tagged(self.right, _RIGHT), allowMissingColumns=True
        )
        slices = F.window(_AT, interval(self.panes.slice)).alias(_SPAN)
        return tagged.groupBy(slices, _BUCKET).agg(
            F.collect_list(_LEFT).alias(_LEFT), F.collect_list(_RIGHT).alias(_RIGHT)
        )

    def _tagged(self, side: Side, name: str) -> DataFrame:
        known = reduce(or_, [quoted(key).isNull() for key in side.on])
        bucket = F.when(known, F.xxhash64(side.at)).otherwise(F.xxhash64(*map(quoted, side.on)))
        frame = side.frame
        if not self._kept(side):
            # Naming the time keeps the filter above the watermark, which such a row moves like any
            # other.
            frame = frame.where(~known | side.at.isNull())
        row = F.struct(
            side.at.alias("time"),
            *[quoted(column).alias(f"column:{column}") for column in self._carried(side)],
        )
        return frame.select(
            side.at.alias(_AT),
            F.pmod(bucket, F.lit(BUCKETS)).cast("int").alias(_BUCKET),
            row.alias(name),
        )

    def _kept(self, side: Side) -> bool:
        """Whether a row of the side comes out though it matches nothing."""
        return self.kind in (("left", "full", "anti") if side is self.left else ("full",))

    def _carried(self, side: Side) -> list[str]:
        alone = side is self.right and self.kind in ("semi", "anti")
        return [*side.on, *([] if alone else side.others)]

    def _panes(self, slices: DataFrame) -> DataFrame:
        """Bring each slice's rows to the panes that need them."""
        pane, own, full = F.col(_PANE), F.unix_micros(F.col(_SPAN)["start"]), self.kind == "full"
        met, meets = self.panes.met(own), self.panes.swapped().met(own)
        home, length = self.panes.home(own), self.panes.length
        reached = [home, *met, *(meets if full else ())]
        spread = slices.select(
            "*",
            F.explode(F.sequence(F.least(*reached), F.greatest(*reached), F.lit(length))).alias(
                _PANE
            ),
        )
        lefts = (pane == home) | (pane.between(*meets) if full else F.lit(False))
        rights = pane.between(*met) | ((pane == home) if full else F.lit(False))
        parts = spread.select(
            span(pane, pane + F.lit(self.panes.until(full=full))).alias(_SPAN),
            _BUCKET,
            F.when(lefts & (F.size(_LEFT) > 0), F.col(_LEFT)).alias(_LEFT),
            F.when(rights & (F.size(_RIGHT) > 0), F.col(_RIGHT)).alias(_RIGHT),
        ).where(F.col(_LEFT).isNotNull() | F.col(_RIGHT).isNotNull())
        # Spark knows a window by a mark on its column, whatever has computed it, and closes it when
        # its end has passed.
        mark = {"spark.timeWindow": True}
        delay = (self.left.frame.schema[self.left.time].metadata or {}).get(WATERMARK_KEY)
        marked = parts.withMetadata(
            _SPAN, mark if delay is None else {**mark, WATERMARK_KEY: delay}
        )
        grouped = marked.groupBy(_SPAN, _BUCKET).agg(
            F.collect_list(_LEFT).alias(_LEFT), F.collect_list(_RIGHT).alias(_RIGHT)
        )
        return grouped.select(_SPAN, _LEFT, _RIGHT)

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
        places = {id(self.left): _LEFT, id(self.right): _RIGHT}

        def found(side: Side) -> dict[str, Column]:
            mark = places[id(side)]
            return {
                side.time: quoted(mark),
                **{name: quoted(f"{mark}{name}") for name in side.others},
            }

        keys = {name: quoted(name) for name in left.on}
        if self.kind in ("semi", "anti"):
            return rows.select(
                *[(keys | found(left))[name].alias(name) for name in left.frame.columns]
            )
        mine, its = F.unix_micros(_LEFT), F.unix_micros(_RIGHT)
        alone = F.coalesce(
            mine + F.lit(max(0, self.panes.after)), its + F.lit(max(0, self.panes.before))
        )
        later = F.when(mine.isNull() | its.isNull(), alone).otherwise(F.greatest(mine, its))
        return rows.select(
            *keys.values(),
            F.timestamp_micros(later).alias("event_time"),
            *[found(side)[given].alias(name) for side, given, name in named(left, right, suffixes)],
        )
