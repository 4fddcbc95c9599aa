"""Sequences of events, key by key: the transform of a job, and a function for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import WATERMARK_KEY, names, quoted
from ..durations import interval, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._arguments import columns
from ._search.automaton import automaton
from ._search.matching import Matching, Skip
from ._search.waiting import BUCKET, BUCKETS, FOUND, PACKED, STATE, Sorted, Waiting, pack, unpack
from .measures import Measure
from .pattern import Pattern

LATEST = "latest"
LATEST_SECONDS = 9_214_646_400
"""The year 2262, after which pandas has no times."""


@dataclass(frozen=True)
class Sequences:
    """A sequence, the keys and the measures: the transform of a job.

    The function `match_sequence` says what comes out, and when.

    Args:
        pattern: what `sequence` returns.
        by: key columns; without one all events are of one key.
        measures: by its name, what each result column tells of the events of a match.
        skip: where the next match may begin.
        timeouts: whether beginnings that the time has ended come out too.
        time: the event-time column, a timestamp.
        order: columns that order the events of one instant, such as their place in the log.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction; and by the call, for events
            that do not fit.

    >>> from tidegate.patterns import of, sequence, step
    >>> twice = sequence(step("one", "page = '/'"), step("two", "page = '/'"), within="1 minute")
    >>> back = Sequences(twice, by="user", measures={"clicks": of().count()})
    >>> back(clicks).columns
    ['user', 'started', 'ended', 'decided', 'clicks']
    """

    pattern: Pattern
    by: str | Sequence[str] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    skip: Skip = "past_last"
    timeouts: bool = False
    time: str = "event_time"
    order: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, Pattern):
            raise ColumnTypeError(
                f"pattern is {self.pattern!r}, a {type(self.pattern).__name__}.",
                "what sequence returns.",
                "sequence(step('a', ...), then(step('b', ...)), within='10 minutes')",
            )
        if self.skip not in get_args(Skip):
            raise ArgumentError(f"skip is {self.skip!r}.", f"{' or '.join(get_args(Skip))}.")
        if not isinstance(self.timeouts, bool):
            raise ColumnTypeError(f"timeouts is {self.timeouts!r}.", "True or False.")
        if not isinstance(self.measures, Mapping):
            raise ColumnTypeError(
                f"measures is {self.measures!r}, a {type(self.measures).__name__}.",
                "measures by the names of their columns.",
                "measures={'items': of('add').count()}",
            )
        object.__setattr__(self, "by", tuple(names(self.by)))
        object.__setattr__(self, "order", tuple(names(self.order, "order")))

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the matches."""
        machine, asked = automaton(self.pattern)
        checked = columns(
            events,
            self.pattern,
            asked,
            by=self.by,
            measures=self.measures,
            time=self.time,
            order=self.order,
        )
        read = checked.read(skips=machine.skips)
        matching = Matching(
            machine,
            within=microseconds(self.pattern.within),
            keys=len(checked.by),
            orders=len(checked.order),
            skip=self.skip,
            timeouts=self.timeouts,
            readings=checked.readings,
        )
        schema = checked.found(read)
        if events.isStreaming:
            mark = events.schema[self.time].metadata[WATERMARK_KEY]
            found = _of_a_stream(read, matching, mark).mapInArrow(unpack, schema)
        else:
            found = _of_a_batch(read, matching).mapInArrow(Sorted(matching), schema)
        return checked.answers(found, timeouts=self.timeouts)

    def late_at(self, time: Column) -> Column:
        """Return the instant just after a row's own time.

        What is decided before the watermark comes out, and each event may decide something at its
        own time.
        """
        return time + F.expr(f"INTERVAL {interval(1)}")

    @property
    def reach(self) -> timedelta | None:
        """How far before what is decided an event can be that belongs to it.

        None with skip="past_last": each match depends on where the one before it ended.
        """
        if self.skip == "past_last":
            return None
        return timedelta(microseconds=microseconds(self.pattern.within))

    @property
    def result_time(self) -> Column:
        """The instant from which a match is certain."""
        return quoted("decided")


def match_sequence(
    events: DataFrame,
    pattern: Pattern,
    *,
    by: str | Sequence[str] = (),
    measures: Mapping[str, Measure] | None = None,
    skip: Skip = "past_last",
    timeouts: bool = False,
    time: str = "event_time",
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Find the sequences of a pattern among the events of each key, by event time.

    `sequence` tells what a pattern matches. With `skip="past_last"` a match begins after the last
    event of the one before it; with "to_next" each event that the first step takes begins one,
    whatever matches hold it already. With `timeouts` a beginning that found no match because its
    time was over comes out as well, with what it had found: of its attempts, the one that came
    farthest, and of these the preferred one. A beginning that an event has ended (one that `not_`
    forbids, or that stands where another should have followed directly) is no time-out.

    Events are ordered by their time, then by `order`; events of one instant that these leave equal
    are ordered by a hash of all that the sequence reads of them, so that the answer is the same
    however they arrive. Events with a null time are in no match; a null key is a key of its own.

    State on a stream: the events that a match may still hold which is not decided yet, at most
    those of `within` and of the watermark's delay. Events of which no condition holds are not held,
    unless a step is `directly` or `consecutive`. They are kept in 64 parts by key, each in one row
    of state, which is written anew when events of it come and must stay below 2 GB. A match comes
    out once, in append mode, as soon as the watermark has passed `decided`. A row is late once the
    watermark has passed its time. The result has no watermark of its own. A checkpoint is bound to
    all arguments.

    Every event that the first step can take is tried as a beginning, also within other matches. So
    the cost grows with the beginnings and the events that each of them takes: a step that repeats,
    over n events of one key within the time, costs n * n in time and memory where it is the first.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        pattern: what `sequence` returns.
        by: key columns, of plain types; without one all events are of one key.
        measures: by its name, what each result column tells of the events of a match: `of`.
        skip: where the next match may begin, "past_last" or "to_next".
        timeouts: whether beginnings that the time has ended come out too.
        time: the event-time column, a timestamp.
        order: columns that order the events of one instant, such as their place in the log
            ("topic", "partition", "offset").

    Returns:
        the by columns; `started` and `ended`, the times of the first and the last event; `decided`,
        the time up to which events had to be known: that of the last event where nothing later
        could have changed the match, and up to `within` after the first otherwise; with `timeouts`,
        `outcome`: "match" or "timeout"; one column a measure.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: row pattern recognition of SQL:2016; contiguity and negation as in Agrawal et al.,
    Efficient Pattern Matching over Event Streams (2008).

    >>> from tidegate.patterns import of, sequence, step, then
    >>> home, cart = step("home", "page = '/'"), step("cart", "page = '/cart'")
    >>> pattern = sequence(home, then(cart), within="10 minutes")
    >>> match_sequence(clicks, pattern, by="user", measures={"ms": of("cart").last("ms")}).columns
    ['user', 'started', 'ended', 'decided', 'ms']
    """
    found = Sequences(pattern, by, measures or {}, skip, timeouts, time, order)
    return found(events)


def _of_a_batch(read: DataFrame, matching: Matching) -> DataFrame:
    keys = [quoted(f"key:{at}") for at in range(matching.keys)]
    order = ["time", *[f"order:{at}" for at in range(matching.orders)], "tie"]
    parted = read.repartition(*keys) if keys else read.repartition(1)
    return parted.sortWithinPartitions(*keys, *map(quoted, order))


def _of_a_stream(read: DataFrame, matching: Matching, watermark: int) -> DataFrame:
    keys = [quoted(f"key:{at}") for at in range(matching.keys)]
    hashed = F.pmod(F.xxhash64(*keys), F.lit(BUCKETS)) if keys else F.lit(0)
    rows = read.select(hashed.cast("int").alias(BUCKET), "*").mapInArrow(pack, PACKED)
    # Spark asks for a column that bears the watermark, and drops rows by it; ours are never late.
    mark = {WATERMARK_KEY: watermark}
    timed = rows.withColumn(LATEST, F.timestamp_seconds(F.lit(LATEST_SECONDS)))
    return (
        timed.withMetadata(LATEST, mark)
        .groupBy(BUCKET)
        .applyInPandasWithState(Waiting(matching), FOUND, STATE, "append", "EventTimeTimeout")
    )
