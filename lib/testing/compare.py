"""Whether a transform gives the same rows as a stream and as a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted
from ..commit import EPOCH
from ..differences import Differences, differences
from ..errors import ArgumentError
from ._fed import EVENTS, FedInput, fed_inputs
from .driver import Rows, StreamDriver

_FAR = timedelta(days=3_650)


def compare(
    spark: SparkSession,
    schema: str | StructType | Mapping[str, str | StructType],
    transform: Callable[..., DataFrame],
    batches: Iterable[Rows | Mapping[str, Rows]],
    *,
    lateness: str | timedelta | Mapping[str, str | timedelta | None] | None,
    time: str | Mapping[str, str] = "event_time",
    keys: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Differences:
    """Feed a stream batch by batch, and compare what comes out with the batch over all rows.

    What is expected is the transform's answer as a batch, over the rows that are not late: those
    that a transform such as `Windowed` leaves out by its `late_at` count as `late`. A plain
    function does not say what is late, so that a row which Spark drops behind the watermark shows
    as a difference. After the last batch the watermark is moved on until all results are out.

    Args:
        spark: a classic session.
        schema: the events' columns, by input where there are several, as for `StreamDriver`.
        transform: a function, or a value such as `Windowed` or `IntervalJoin`.
        batches: what is fed, in this order: rows, or for several inputs rows by name.
        lateness: the watermark's delay, as for `StreamDriver`.
        time: the event-time column, as for `StreamDriver`.
        keys: columns that tell results apart, by which one that differs is told from one that is
            not there.
        ignore: columns of the result that are not compared, such as estimates.

    Returns:
        the differences, without one where `agree` is true.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling, Windowed
    >>> views = Windowed(Tumbling("1 minute"), aggs={"n": count()})
    >>> at = lambda second: datetime(2026, 1, 1, 10, 3, second, tzinfo=UTC)
    >>> batches = [[(at(1),), (at(59),)], [(at(2),)]]
    >>> print(compare(spark, "event_time timestamp", views, batches, lateness="1 minute"))
    1 rows expected, all of them found and no other
    """
    inputs = fed_inputs(schema, lateness, time)
    fed = [_by_name(each, inputs) for each in batches]
    if not fed:
        raise ArgumentError("batches is empty.", "one batch of rows or more.")
    log = _Log(spark, inputs, getattr(transform, "late_at", None))
    with StreamDriver(spark, schema, transform, lateness=lateness, time=time) as stream:
        for rows in fed:
            given = log.take(rows)
            if isinstance(schema, Mapping):
                stream.feed(**given)
            else:
                stream.feed(given[EVENTS])
        last = log.newest()
        if last is not None:
            stream.advance_to(last + _FAR)
        expected = transform(*log.in_time())
        found = stream.results()
        return differences(expected, found, keys=keys, ignore=ignore, late=log.late)


class _Log:
    """What was fed, with the rows that were in time."""

    def __init__(
        self,
        spark: SparkSession,
        inputs: Mapping[str, FedInput],
        late_at: Callable[[Column], Column | None] | None,
    ) -> None:
        self._spark = spark
        self._inputs = inputs
        self._late_at = late_at
        self._newest: dict[str, int] = {}
        self._kept: dict[str, list[DataFrame]] = {name: [] for name in inputs}
        self.late = 0

    def take(self, rows: Mapping[str, Rows]) -> dict[str, DataFrame]:
        """Take note of one batch, and return its frames."""
        watermark = self._watermark()
        frames = {}
        for name, each in rows.items():
            fed = self._inputs[name]
            frames[name] = fed.frame(self._spark, each, f"batches, {name}")
            late = self._is_late(fed, watermark)
            self._kept[name].append(frames[name].where(~late))
            at = F.lit(None) if fed.lateness is None else quoted(fed.time)
            at = at.cast("timestamp")
            seen = frames[name].agg(F.max(F.unix_micros(at)), F.count_if(late))
            newest, number = seen.collect()[0]
            self.late += number
            if newest is not None:
                self._newest[name] = max(newest, self._newest.get(name, newest))
        return frames

    def newest(self) -> datetime | None:
        """Return the newest event time; None of streams without a watermark."""
        newest = max(self._newest.values(), default=None)
        return None if newest is None else EPOCH + timedelta(microseconds=newest)

    def in_time(self) -> list[DataFrame]:
        """Return the rows of each input that were not late."""
        return [
            reduce(DataFrame.unionByName, parts)
            if parts
            else self._spark.createDataFrame([], self._inputs[name].schema)
            for name, parts in self._kept.items()
        ]

    def _watermark(self) -> int | None:
        """Return the watermark behind which the next batch drops rows; in whole milliseconds."""
        marked = {name: fed for name, fed in self._inputs.items() if fed.lateness is not None}
        if not marked or self._newest.keys() != marked.keys():
            return None
        marks = [
            self._newest[name] // 1000 - (fed.lateness or 0) // 1000 for name, fed in marked.items()
        ]
        return max(0, min(marks)) * 1000

    def _is_late(self, fed: FedInput, watermark: int | None) -> Column:
        known = None if fed.lateness is None else self._late_at
        at = None if known is None else known(quoted(fed.time))
        if at is None:
            return F.lit(False)
        # Spark's first watermark is 0.
        reached = F.timestamp_micros(F.lit(watermark or 0))
        return F.coalesce(at <= reached, F.lit(False))


def _by_name(rows: Any, inputs: Mapping[str, FedInput]) -> dict[str, Rows]:
    """Return a batch's rows by the names of the inputs."""
    if list(inputs) == [EVENTS] and not isinstance(rows, Mapping):
        return {EVENTS: rows}
    if not isinstance(rows, Mapping) or not rows or not rows.keys() <= inputs.keys():
        raise ArgumentError(
            f"a batch is {type(rows).__name__}"
            f"{' of ' + ', '.join(map(str, rows)) if isinstance(rows, Mapping) else ''}.",
            f"rows by the inputs' names: {', '.join(inputs)}.",
        )
    return dict(rows)
