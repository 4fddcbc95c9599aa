"""Duplicates within a horizon, exactly: the earliest event of a key stays, whatever order they come
in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import interval, microseconds, names, quoted, require, require_event_time
from ..errors import ArgumentError, ColumnTypeError

MOST_PANES = 100
_WINDOW, _KEY, _ALONE, _FIRST, _BEFORE = (
    f"__tidegate_{name}" for name in ("window", "key", "alone", "first", "before")
)


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

    State on a stream: for each key its first event in each open pane, and one time in each of the
    horizon / hold panes that follow, while they are open; so the horizon bounds it, not the
    watermark's delay. The cost grows with their number. A row is late, and is left out, once its
    pane has closed (`decided`); later events of its key still count it as seen. A checkpoint is
    bound to key, horizon, hold and order.

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

    >>> deduplicate(clicks, "user", "10 seconds", hold="2 seconds").select("user", F.second("event_time")).collect()
    [Row(user='u0', second(event_time)=0), Row(user='u1', second(event_time)=1)]
    """
    require_event_time(events, time)
    keys, placed = names(key, "key"), names(order, "order")
    require(events, keys, "key")
    require(events, placed, "order")
    if not keys:
        raise ArgumentError("key names no column.", "one column or more.", 'key="event_id"')
    width, panes = _panes(horizon, hold)
    return _kept(
        events,
        keys,
        _ordered(events, time, placed),
        time,
        microseconds(horizon, "horizon"),
        width,
        panes,
    )


def decided(time: Column, hold: str | timedelta) -> Column:
    """Return the instant at which an event is late for `deduplicate`: once the watermark has reached it, it is left out.

    >>> late = decided(F.col("event_time"), "2 seconds") <= F.lit(datetime(2026, 1, 1, 10, 5, tzinfo=UTC))
    """
    width = microseconds(hold, "hold")
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(width)) + F.lit(width))


def _panes(horizon: str | timedelta, hold: str | timedelta) -> tuple[int, int]:
    """Return the length of a pane, and how many panes before its own an event's horizon reaches
    into."""
    reach, width = microseconds(horizon, "horizon"), microseconds(hold, "hold")
    panes = -(-reach // width)
    if width > reach or panes > MOST_PANES:
        raise ArgumentError(
            f"hold is {hold!r}, and horizon {horizon!r}.",
            f"a hold of at most the horizon, and of at least a {MOST_PANES}th of it.",
            f"hold=timedelta(microseconds={max(1, reach // 4)}), a quarter of the horizon.",
        )
    return width, panes


def _ordered(events: DataFrame, time: str, placed: list[str]) -> list[str]:
    """Return all columns in the order in which they tell events apart; it is checked that all of
    them have one."""
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


def _kept(
    events: DataFrame,
    keys: list[str],
    ordered: list[str],
    time: str,
    reach: int,
    width: int,
    panes: int,
) -> DataFrame:
    at = quoted(time)
    # Without a key an event is a group of its own, told apart by all that it has.
    keyless = F.lit(False)
    for name in keys:
        keyless = keyless | quoted(name).isNull()
    event = F.struct(*map(quoted, ordered))
    opening = F.timestamp_micros(F.unix_micros(quoted(_WINDOW)["end"]) - F.lit(width))
    inside = at >= opening
    grouped = (
        events.withColumn(_WINDOW, F.window(at, interval((panes + 1) * width), interval(width)))
        .groupBy(
            _WINDOW,
            F.struct(*map(quoted, keys)).alias(_KEY),
            F.when(keyless, event).alias(_ALONE),
        )
        .agg(
            F.min(F.when(inside, event)).alias(_FIRST),
            F.max(F.when(~inside, F.unix_micros(at))).alias(_BEFORE),
        )
    )
    first = F.unix_micros(quoted(_FIRST)[time])
    unseen = quoted(_BEFORE).isNull() | (first - quoted(_BEFORE) > F.lit(reach))
    return grouped.where(quoted(_FIRST).isNotNull() & unseen).select(
        *[quoted(_FIRST)[name].alias(name) for name in events.columns]
    )
