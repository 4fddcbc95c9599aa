"""The states that a log of events gives: now, or as of a time or an offset."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted, require
from ..errors import ArgumentError, ColumnTypeError
from ..offsets import Offsets
from .fold import KEPT, MARK, MARKED, Fold, differing
from .folding import FAULT, SNAPSHOTS, WAS, advanced, sound

_RANK = "__tidegate_rank"
_AFTER = "__tidegate_after"


def folded(events: DataFrame, fold: Fold) -> DataFrame:
    """Return the state of each key after all of its events.

    The same rows as `tidegate.sinks.Folded` keeps of the same log. The events of a key are in
    memory together while it is folded.

    Args:
        events: a batch, with the columns that the fold names.
        fold: what each event makes of the state.

    Returns:
        the key, the state's columns, and the place of the last event as `topic`, `partition` and
        `offset`; `events`, how many the state is made of; `latest`, the largest of their times.

    Raises:
        ColumnError, ColumnTypeError, ArgumentError: at the call. A key with events in two
            partitions, and an unknown event that the fold refuses, are errors of the query.

    >>> log = clicks.selectExpr("*", "'log' topic", "0 partition", "CAST(ms AS BIGINT) offset")
    >>> seen = Fold(
    ...     key="user",
    ...     kind="page",
    ...     initial={"starts": (0, "BIGINT"), "last": (None, "INT")},
    ...     on={"/0": {"starts": "state.starts + 1"}, "/1": {"last": "event.ms"}},
    ...     unknown="ignore",
    ... )
    >>> folded(log, seen).select("user", "starts", "last", "offset", "events").sort("user").show()
    +----+------+----+------+------+
    |user|starts|last|offset|events|
    +----+------+----+------+------+
    |  u0|     2|   4|     6|     3|
    |  u1|     1|   7|     7|     3|
    +----+------+----+------+------+
    """
    return _states(advanced(_batch(events, fold), fold))


def folded_as_of(
    events: DataFrame,
    fold: Fold,
    *,
    time: datetime | None = None,
    offsets: Offsets | None = None,
    snapshots: DataFrame | None = None,
) -> DataFrame:
    """Return the state of each key as it was at a time or an offset.

    At a time: of the events whose time is not after it, in the order of the log, whenever they
    came. At offsets: of the events before them; a partition that is not named has none. A key
    without such an event is not there.

    Args:
        events: the log as a batch: read from Kafka, or from a table of all events.
        fold: what each event makes of the state.
        time: an instant, with its zone.
        offsets: by topic and partition, the offset before which events count.
        snapshots: those that `tidegate.sinks.Folded` has taken, or its table of states, or both.
            The newest that is in time is the start, and only the events after it are folded. The
            answer is the same without; the events before it need not be there then.

    Returns:
        the columns of `folded`.

    Raises:
        ArgumentError (not one of time and offsets), and as for `folded`.

    >>> log = clicks.selectExpr("*", "'log' topic", "0 partition", "CAST(ms AS BIGINT) offset")
    >>> seen = Fold(
    ...     key="user",
    ...     kind="page",
    ...     initial={"starts": (0, "BIGINT")},
    ...     on={"/0": {"starts": "state.starts + 1"}},
    ...     unknown="ignore",
    ... )
    >>> before = folded_as_of(log, seen, offsets={"log": {0: 6}})
    >>> before.select("user", "starts").sort("user").show()
    +----+------+
    |user|starts|
    +----+------+
    |  u0|     1|
    |  u1|     1|
    +----+------+
    """
    if (time is None) == (offsets is None):
        raise ArgumentError(
            f"time is {time!r}, and offsets is {offsets!r}.", "one of the two.", "time=..."
        )
    rows = _batch(events, fold)
    topic, partition, offset = map(quoted, fold.place)
    if offsets is not None:
        chosen = rows.where(_before(topic, partition, offset, offsets))
    else:
        chosen = rows.where(quoted(fold.time) <= _instant(time))
    if snapshots is None:
        return _states(advanced(chosen, fold))
    _require_snapshots(snapshots, fold)
    if offsets is not None:
        usable = _before(F.col("topic"), F.col("partition"), F.col("offset"), offsets)
    else:
        usable = F.col("latest") <= _instant(time)
    starts = _newest(snapshots.where(usable), fold)
    return _states(advanced(_after(chosen, starts, fold), fold, starts, whole=True))


def _states(rows: DataFrame) -> DataFrame:
    return sound(rows).drop(WAS, SNAPSHOTS, FAULT)


def _batch(events: DataFrame, fold: Fold) -> DataFrame:
    if not isinstance(fold, Fold):
        raise ColumnTypeError(f"fold is {fold!r}, a {type(fold).__name__}.", "a Fold.")
    checked = fold.checked(events)
    if events.isStreaming:
        raise ArgumentError(
            "the events are a stream.",
            "a batch.",
            "the sink Folded, which folds a stream's batches.",
        )
    return checked


def _require_snapshots(snapshots: DataFrame, fold: Fold) -> None:
    require(snapshots, [*fold.key, *fold.initial, *KEPT], "snapshots")
    told = (snapshots.schema[MARKED].metadata or {}).get(MARK)
    if told is not None and told != fold.told():
        raise ArgumentError(
            f"the snapshots are of another fold: {', '.join(differing(told, fold.told()))} differ.",
            "snapshots that this fold has made.",
            "no snapshots, which folds from the first event on.",
        )


def _instant(time: datetime | None) -> Column:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ArgumentError(
            f"time is {time!r}.", "an instant with its zone.", "datetime(2026, 3, 2, tzinfo=UTC)"
        )
    return F.lit(time)


def _before(topic: Column, partition: Column, offset: Column, ends: Offsets) -> Column:
    """Return whether a place is before the offset of its partition."""
    parts = [
        (topic == F.lit(name)) & (partition == F.lit(number)) & (offset < F.lit(end))
        for name, numbers in ends.items()
        for number, end in numbers.items()
    ]
    return reduce(or_, parts, F.lit(False))


def _newest(snapshots: DataFrame, fold: Fold) -> DataFrame:
    """Return the newest snapshot of each key."""
    key = Window.partitionBy(*map(quoted, fold.key)).orderBy(F.col("offset").desc())
    ranked = snapshots.withColumn(_RANK, F.row_number().over(key))
    return ranked.where(F.col(_RANK) == F.lit(1)).drop(_RANK)


def _after(events: DataFrame, starts: DataFrame, fold: Fold) -> DataFrame:
    """Return the events that the snapshots do not have yet."""
    ends = starts.select(*map(quoted, fold.key), F.col("offset").alias(_AFTER))
    joined = events.join(ends, list(fold.key), "left")
    is_new = quoted(_AFTER).isNull() | (quoted(fold.place[2]) > quoted(_AFTER))
    return joined.where(is_new).select(*map(quoted, events.columns))
