"""Duplicates within a horizon, exactly: the earliest event of a key stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import names, quoted, require, require_event_time
from ..durations import interval, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._grid import Grid
from ._grouping import SPAN, marked

MOST_PANES = 100
_PANE = "tidegate:pane"
_KEY = "tidegate:key"
_ALONE = "tidegate:alone"
_FIRST = "tidegate:first"
_LAST = "tidegate:last"
_BEFORE = "tidegate:before"
_LATER = "tidegate:later"


@dataclass(frozen=True)
class Deduplication:
    """Events of which no other of the same key came in the `horizon` before: a job's transform.

    The function `deduplicate` says which events stay.

    Args:
        key: the columns that make two events the same.
        horizon: how far back a duplicate is looked for.
        hold: how long an event may wait beyond the watermark; at most the horizon, and at least a
            hundredth of it.
        order: columns that tell which of two events at the same time is the first.
        time: the event-time column, a timestamp.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.

    >>> once = Deduplication("user", "10 seconds", hold="2 seconds")
    >>> once(clicks).count()
    2
    """

    key: str | Sequence[str]
    horizon: str | timedelta
    hold: str | timedelta
    order: str | Sequence[str] = ()
    time: str = "event_time"

    def __post_init__(self) -> None:
        names(self.order, "order")
        if not names(self.key, "key"):
            raise ArgumentError("key names no column.", "one column or more.", 'key="event_id"')
        horizon = microseconds(self.horizon, "horizon")
        hold = microseconds(self.hold, "hold")
        if hold > horizon or self._panes > MOST_PANES:
            raise ArgumentError(
                f"hold is {self.hold!r}, and horizon {self.horizon!r}.",
                f"a hold of at most the horizon, and of at least a {MOST_PANES}th of it.",
                f"hold=timedelta(microseconds={max(1, horizon // 4)}), a quarter of the horizon.",
            )

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the events that stay, with their columns."""
        require_event_time(events, self.time)
        keys = names(self.key, "key")
        placed = names(self.order, "order")
        require(events, keys, "key")
        require(events, placed, "order")
        panes = self._firsts(events, keys, _ordered(events, self.time, placed))
        return self._unseen(self._spread(panes), events.columns)

    def late_at(self, time: Column) -> Column:
        """Return the end of the pane of the length `hold` that holds an instant."""
        return Grid(microseconds(self.hold), 0).window(time)["end"]

    @property
    def reach(self) -> timedelta:
        """The horizon: how far before an event another one can be that makes it a duplicate."""
        return timedelta(microseconds=microseconds(self.horizon))

    @property
    def result_time(self) -> Column:
        """The event's own time."""
        return quoted(self.time)

    @property
    def _panes(self) -> int:
        """How many panes before its own an event's horizon reaches into."""
        return -(-microseconds(self.horizon) // microseconds(self.hold))

    def _firsts(self, events: DataFrame, keys: list[str], ordered: list[str]) -> DataFrame:
        """Return each key's first event and last time in each pane."""
        at = quoted(self.time)
        event = F.struct(*map(quoted, ordered))
        # Without a key an event is a group of its own, told apart by all that it has.
        keyless = reduce(or_, [quoted(name).isNull() for name in keys])
        return events.groupBy(
            F.window(at, interval(microseconds(self.hold))).alias(_PANE),
            F.struct(*map(quoted, keys)).alias(_KEY),
            F.when(keyless, event).alias(_ALONE),
        ).agg(F.min(event).alias(_FIRST), F.max(F.unix_micros(at)).alias(_LAST))

    def _spread(self, panes: DataFrame) -> DataFrame:
        """Return a pane's own first event, and the last time of the events before it."""
        hold = microseconds(self.hold)
        later = F.sequence(F.lit(0), F.lit(self._panes))
        copies = panes.select("*", F.explode(later).alias(_LATER))
        shift = quoted(_LATER).cast("bigint") * F.lit(hold)
        span = F.struct(
            *[
                F.timestamp_micros(F.unix_micros(quoted(_PANE)[edge]) + shift).alias(edge)
                for edge in ("start", "end")
            ]
        )
        own = quoted(_LATER) == 0
        grouped = marked(copies, _PANE, span).groupBy(SPAN, _KEY, _ALONE)
        return grouped.agg(
            F.any_value(F.when(own, quoted(_FIRST)), F.lit(True)).alias(_FIRST),
            F.max(F.when(~own, quoted(_LAST))).alias(_BEFORE),
        )

    def _unseen(self, panes: DataFrame, columns: list[str]) -> DataFrame:
        """Return the first events that are farther than the horizon from the last one before."""
        away = F.unix_micros(quoted(_FIRST)[self.time]) - quoted(_BEFORE)
        unseen = quoted(_BEFORE).isNull() | (away > F.lit(microseconds(self.horizon)))
        first = panes.where(quoted(_FIRST).isNotNull() & unseen)
        return first.select(*[quoted(_FIRST)[name].alias(name) for name in columns])


def deduplicate(
    events: DataFrame,
    key: str | Sequence[str],
    horizon: str | timedelta,
    *,
    hold: str | timedelta,
    order: str | Sequence[str] = (),
    time: str = "event_time",
) -> DataFrame:
    """Keep an event only if no other of its key came in the `horizon` before it.

    An event is a duplicate when another event of its key has a time from `horizon` before its own,
    included, up to its own; of events at the same time the first in `order` stays. The horizon
    counts from the event last seen, kept or
    not: a key that keeps coming back sooner stays out, and one that has rested longer comes out
    again. So the answer for an event depends on the events of one horizon before it and on nothing
    else: not on the order of arrival, on batches, on `hold`, or on where in the log the reading
    began. A key with a null is equal to nothing and never a duplicate (of such events that are
    equal in all columns, `order` included, one stays). Events with a null time are left out.

    Which event is the earliest is known only when the watermark has passed it. Events wait in panes
    of the length
    `hold`: each comes out once, in append mode, when the watermark reaches the end of its pane; it
    is final then. The result has no watermark of its own.

    State on a stream: for each key its first and last event of the open pane, and one time in each
    of the horizon / hold panes that follow, while they are open; so the horizon bounds it, not the
    watermark's delay. The cost grows with the number of panes. A row is late, and is left out, once
    its pane has closed: it is not seen by later events of its key either. A checkpoint is bound to
    key, horizon, hold and order.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        key: the columns that make two events the same, of any type that can be grouped by.
        horizon: how far back a duplicate is looked for.
        hold: how long an event may wait beyond the watermark; at most the horizon, and at least a
            hundredth of it.
        order: columns that tell which of two events at the same time is the first, such as their
            place in the log ("topic", "partition", "offset"); beyond them all other columns count,
            in their order.
        time: the event-time column, a timestamp.

    Returns:
        the columns of `events`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: panes as in Li et al., No Pane, No Gain (2005).

    >>> once = deduplicate(clicks, "user", "10 seconds", hold="2 seconds")
    >>> once.select("user", F.second("event_time")).collect()
    [Row(user='u0', second(event_time)=0), Row(user='u1', second(event_time)=1)]
    """
    return Deduplication(key, horizon, hold, order, time)(events)


def _ordered(events: DataFrame, time: str, placed: list[str]) -> list[str]:
    """Return all columns, in the order in which they tell events apart.

    Columns of a type without an order are refused.
    """
    first = [time, *[name for name in placed if name != time]]
    columns = first + [name for name in events.columns if name not in first]
    try:
        events.agg(F.min(F.struct(*map(quoted, columns)))).schema  # noqa: B018
    except AnalysisException as fault:
        raise ColumnTypeError(
            "a column is of a type whose values have no order, so that equal events could not be "
            "told apart.",
            "all types but maps and variants.",
            "F.map_entries or F.to_json turns such a column into one that has an order.",
        ) from fault
    return columns
