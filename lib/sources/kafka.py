"""Kafka topics as raw rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from ..errors import ArgumentError
from ..offsets import Offsets
from ._kafka_options import (
    for_a_batch,
    require_options,
    require_servers,
    topic_names,
    with_defaults,
)
from ._ranges import by_topic, firsts, lasts, ranges_of
from ._shares import (
    Place,
    Start,
    dealt_on,
    dealt_out,
    partitions_of,
    require_starts,
    start_of,
)
from ._tasks import in_few_tasks

HEADERS = "headers"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", HEADERS)
RAW = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_STRATEGY = "startingOffsetsByTimestampStrategy"


@dataclass(frozen=True)
class KafkaSource:
    """Which topics are read, from where on, and how much at a time.

    Exactly one of `topics`, `pattern` (a Java regular expression) and `partitions` ({topic:
    [partition, ...]}) names the input; `topics` may be one as text. `start` counts for the first
    batch of a new checkpoint only: "earliest", "latest", {topic: {partition: offset}} with every
    partition named (-2 is its earliest, -1 its latest offset), or an aware datetime, from which on
    each partition is read by its records' timestamps; a partition without a newer record starts at
    its end.

    `max_rows` bounds a micro-batch over all partitions; None reads whatever there is. It counts
    offsets, some of which a transaction or compaction may have left empty.

    `on_data_loss` says what becomes of a stream whose topic has lost records before they were read,
    by its retention or otherwise: "stop" names the offsets that are gone; "record" goes on, and a
    job writes them to its gap table. A checkpoint is bound to neither.

    `options` go to Spark's
    Kafka source as they are: every `kafka.*` setting (SASL, TLS) and every option of the reader
    that is not an argument here. Their values never show in a repr.

    On one machine there are four tasks for each core at most, of which each may read several
    partitions; `minPartitions` or `maxRecordsPerPartition` among the options leaves that to Spark.

    Aborted transactions are not read (`kafka.isolation.level` is read_committed), a poll takes up
    to 5,000 records (`kafka.max.poll.records`), at a topic's end it waits 1 ms for more
    (`kafka.fetch.max.wait.ms`), and consumers keep no metrics for JMX or the broker
    (`kafka.auto.include.jmx.reporter`, `kafka.enable.metrics.push`); `options` can change each of
    these. Not supported: ends of a stream, other than by the query's trigger.

    Raises ArgumentError and ColumnTypeError, at construction, for arguments that do not fit
    together, and for options that Spark would ignore: `security.protocol` without `kafka.`.

    >>> secret = {"kafka.sasl.jaas.config": "secret"}
    >>> KafkaSource("localhost:9092", "clicks", max_rows=None, options=secret)
    KafkaSource(servers='localhost:9092', topics=('clicks',), pattern=None, partitions=None,
        start='earliest', max_rows=None, on_data_loss='stop')
    """

    servers: str
    topics: str | Sequence[str] = ()
    _: KW_ONLY
    pattern: str | None = None
    partitions: Mapping[str, Sequence[int]] | None = None
    start: Start = "earliest"
    max_rows: int | None = 1_000_000
    on_data_loss: Literal["stop", "record"] = "stop"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        require_servers(self.servers)
        object.__setattr__(self, "topics", topic_names(self.topics))
        given = [name for name in ("topics", "pattern", "partitions") if getattr(self, name)]
        if len(given) != 1:
            raise ArgumentError(
                f"{' and '.join(given) or 'no input'} given.", "one of topics, pattern, partitions."
            )
        counted = isinstance(self.max_rows, int) and not isinstance(self.max_rows, bool)
        if self.max_rows is not None and (not counted or self.max_rows < 1):
            raise ArgumentError(
                f"max_rows is {self.max_rows!r}.", "1 or more, or None for no bound."
            )
        if self.on_data_loss not in ("stop", "record"):
            raise ArgumentError(f"on_data_loss is {self.on_data_loss!r}.", "'stop' or 'record'.")
        self._require_start()
        require_options(self.options)

    def _require_start(self) -> None:
        allowed = '"earliest", "latest", {topic: {partition: offset}} or an aware datetime.'
        if isinstance(self.start, datetime):
            if self.start.utcoffset() is None:
                raise ArgumentError(
                    f"start is {self.start!r}, which has no time zone.",
                    allowed,
                    "start.replace(tzinfo=timezone.utc)",
                )
        elif isinstance(self.start, Mapping):
            self._require_offsets(self.start)
        elif self.start not in ("earliest", "latest"):
            raise ArgumentError(f"start is {self.start!r}.", allowed)

    def _require_offsets(self, start: Mapping[str, Mapping[int, int]]) -> None:
        named = set(self.topics or self.partitions or start)
        if not start or set(start) != named:
            raise ArgumentError(
                f"start names the topics {sorted(start)}.",
                f"just {sorted(named)}, and all of them.",
            )
        if any(offset < -2 for offsets in start.values() for offset in offsets.values()):
            raise ArgumentError(
                f"start is {dict(start)!r}.", "offsets from 0 on, -2 (earliest) or -1 (latest)."
            )

    @property
    def named(self) -> list[str]:
        """The topics, or the pattern, that this source reads."""
        return [self.pattern] if self.pattern else [*self.topics, *(self.partitions or {})]

    @property
    def place(self) -> Place:
        """The one partition that this source reads, of one that names just one."""
        ((topic, parts),) = (self.partitions or {}).items()
        (part,) = parts
        return topic, part

    def shares(
        self,
        partitions: Mapping[str, int],
        number: int | None,
        before: Sequence[Mapping[str, Iterable[int]]] = (),
    ) -> list[KafkaSource]:
        """Divide the source into `number` shares, or one a partition, that together read the same.

        `partitions` tells how many each topic has. `before` are the shares' partitions as a
        checkpoint has them: these stay where they are, and one that was added to a topic goes to
        the share that has the fewest.

        Raises ArgumentError for a start that leaves out a partition.
        """
        named = self.partitions or {name: range(partitions[name]) for name in sorted(partitions)}
        given = [(topic, part) for topic, parts in named.items() for part in parts]
        if before:
            dealt = dealt_on(given, before)
        else:
            require_starts(self.start, given)
            dealt = dealt_out(given, number or len(given))
        return [self._only(places, len(dealt)) for places in dealt]

    def _only(self, given: Sequence[Place], shares: int) -> KafkaSource:
        """Return the source of some partitions alone, with its share of `max_rows`."""
        rows = None if self.max_rows is None else math.ceil(self.max_rows / shares)
        start = start_of(self.start, given)
        mine = partitions_of(given)
        return replace(self, topics=(), pattern=None, partitions=mine, start=start, max_rows=rows)

    def stream(self, spark: SparkSession, *, headers: bool = True) -> DataFrame:
        """Return the topics as a stream of raw rows, whose columns are COLUMNS.

        headers: whether `headers` is among them, which takes time for each row.
        """
        ours = with_defaults(self.options, self.servers, headers=headers)
        options = ours | self._input() | self._start()
        options["failOnDataLoss"] = str(self.on_data_loss == "stop").lower()
        if self.max_rows is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_rows)
        rows = spark.readStream.format("kafka").options(**options).load()
        return in_few_tasks(rows, options).select(*_columns(headers))

    def between(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        *,
        headers: bool = True,
        apart: bool = False,
    ) -> DataFrame:
        """Return one offset range, start inclusive and end exclusive, as a batch of raw rows.

        The partitions of `end` are read. One that `start` does not name is read from offset 0 on,
        as the stream reads a partition that appears while it runs. Whatever `on_data_loss` says, a
        range of which the topic has lost a part is an error of Spark's. Raises ArgumentError for a
        range that ends before it starts.

        headers: as in `stream`. apart: whether each partition is read by a task of its own.
        """
        ranges = ranges_of(start, end)
        if not ranges:
            return spark.createDataFrame([], RAW).select(*_columns(headers))
        ours = with_defaults(self.options, self.servers, headers=headers)
        options = for_a_batch(ours) | {
            "failOnDataLoss": "true",
            "assign": by_topic(ranges, list),
            "startingOffsets": by_topic(ranges, firsts),
            "endingOffsets": by_topic(ranges, lasts),
        }
        rows = spark.read.format("kafka").options(**options).load()
        few = rows if apart else in_few_tasks(rows, options, ranges)
        return few.select(*_columns(headers))

    def _input(self) -> dict[str, str]:
        if self.topics:
            return {"subscribe": ",".join(self.topics)}
        if self.pattern:
            return {"subscribePattern": self.pattern}
        return {"assign": json.dumps({t: list(p) for t, p in (self.partitions or {}).items()})}

    def _start(self) -> dict[str, str]:
        if isinstance(self.start, str):
            return {"startingOffsets": self.start}
        if isinstance(self.start, Mapping):
            return {"startingOffsets": json.dumps({t: dict(p) for t, p in self.start.items()})}
        options = {"startingTimestamp": str(int(self.start.timestamp() * 1000))}
        if _STRATEGY.lower() not in {name.lower() for name in self.options}:
            # A partition without a record that is new enough would else be an error.
            options[_STRATEGY] = "latest"
        return options


def _columns(headers: bool) -> list[str]:
    return [name for name in COLUMNS if headers or name != HEADERS]
