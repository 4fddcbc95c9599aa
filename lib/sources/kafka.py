"""Kafka topics as raw rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from ..errors import ArgumentError

Offsets: TypeAlias = dict[str, dict[int, int]]

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
RAW = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_OURS = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topics",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "startingoffsetsbytimestamp": "start",
    "endingoffsets": "between()",
    "endingtimestamp": "between()",
    "endingoffsetsbytimestamp": "between()",
    "maxoffsetspertrigger": "max_rows",
    "includeheaders": "nothing: headers are always read",
}
# Kafka's 500 records a poll make Spark ask so often that it costs a tenth of a simple query's CPU
# time.
_DEFAULTS = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "5000",
    "failOnDataLoss": "true",
}
_STREAM_ONLY = ("minoffsetspertrigger", "maxtriggerdelay", "startingoffsetsbytimestampstrategy")


@dataclass(frozen=True)
class KafkaSource:
    """Which topics are read, from where on, and how much at a time.

    Exactly one of `topics` (one name, or several), `pattern` (a Java regular expression) and `partitions` ({topic:
    [partition, ...]}) names the input. `start` counts for the first batch of a new checkpoint only:
    "earliest", "latest", {topic: {partition: offset}} with every partition named (-2 is its
    earliest, -1 its latest offset), or an aware datetime, from which on each partition is read by
    its records' timestamps; a partition without a newer record starts at its end.

    `max_rows` bounds a micro-batch over all partitions; None reads whatever there is. It counts
    offsets, some of which a transaction or compaction may have left empty. `options` go to Spark's
    Kafka source as they are: every `kafka.*` setting (SASL, TLS) and every option of the reader
    that is not an argument here. Their values never show in a repr.

    Aborted transactions are not read (`kafka.isolation.level` is read_committed), offsets that the
    broker has deleted before they were read stop the query (`failOnDataLoss`), and a poll takes up
    to 5,000 records (`kafka.max.poll.records`); `options` can change all three. Not supported: ends
    of a stream, other than by the query's trigger.

    Raises ArgumentError, at construction, for arguments that do not fit together.

    >>> KafkaSource("localhost:9092", "clicks", options={"kafka.sasl.jaas.config": "secret"})
    KafkaSource(servers='localhost:9092', topics=['clicks'], pattern=None, partitions=None, start='earliest', \
max_rows=1000000)
    """

    servers: str
    topics: str | Sequence[str] = ()
    _: KW_ONLY
    pattern: str | None = None
    partitions: Mapping[str, Sequence[int]] | None = None
    start: Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]] | datetime = "earliest"
    max_rows: int | None = 1_000_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.servers:
            raise ArgumentError(
                "servers is empty.",
                "host:port, several joined by commas.",
                'servers="localhost:9092"',
            )
        if isinstance(self.topics, str):
            if "," in self.topics:
                raise ArgumentError(
                    f"topics is the text {self.topics!r}, which no topic can be called.",
                    "one name, or a list of names.",
                    f"topics={[name.strip() for name in self.topics.split(',')]}",
                )
            object.__setattr__(self, "topics", [self.topics] if self.topics else [])
        given = [name for name in ("topics", "pattern", "partitions") if getattr(self, name)]
        if len(given) != 1:
            raise ArgumentError(
                f"{' and '.join(given) or 'no input'} given.", "one of topics, pattern, partitions."
            )
        if self.max_rows is not None and self.max_rows < 1:
            raise ArgumentError(f"max_rows is {self.max_rows}.", "1 or more, or None for no bound.")
        self._check_start()
        for name in self.options:
            if name.lower() in _OURS:
                raise ArgumentError(f"options holds {name!r}.", hint=f"use {_OURS[name.lower()]}.")

    def _check_start(self) -> None:
        start, allowed = (
            self.start,
            '"earliest", "latest", {topic: {partition: offset}} or an aware datetime.',
        )
        if isinstance(start, datetime):
            if start.utcoffset() is None:
                raise ArgumentError(
                    f"start is {start!r}, which has no time zone.",
                    allowed,
                    "start.replace(tzinfo=timezone.utc)",
                )
        elif isinstance(start, Mapping):
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
        elif start not in ("earliest", "latest"):
            raise ArgumentError(f"start is {start!r}.", allowed)

    @property
    def named(self) -> list[str]:
        """The topics, or the pattern, that this source reads."""
        return [self.pattern] if self.pattern else [*self.topics, *(self.partitions or {})]

    def shares(self, partitions: Mapping[str, int], number: int | None) -> list[KafkaSource]:
        """Divide the source into so many of it, or one for each partition, that together read the same.

        `partitions` tells how many each topic has. A partition goes to the share of its number,
        counted over and over: one that is added later goes to a share that is there already."""
        given = [
            (topic, part) for topic, parts in self._partitions(partitions).items() for part in parts
        ]
        number = number or len(given)
        return [self._only(given[index::number], number) for index in range(number)]

    def _partitions(self, counts: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        return self.partitions or {topic: range(count) for topic, count in sorted(counts.items())}

    def _only(self, given: Sequence[tuple[str, int]], number: int) -> KafkaSource:
        mine: dict[str, list[int]] = {}
        for topic, part in given:
            mine.setdefault(topic, []).append(part)
        start = self.start
        if isinstance(start, Mapping):
            start = {
                topic: {part: start[topic][part] for part in parts} for topic, parts in mine.items()
            }
        rows = None if self.max_rows is None else -(-self.max_rows // number)
        return replace(self, topics=(), pattern=None, partitions=mine, start=start, max_rows=rows)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topics as a stream of raw rows: topic, partition, offset, timestamp, key,
        value, headers."""
        options = self._common() | self._input() | self._start()
        if self.max_rows is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_rows)
        return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)

    def between(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return exactly one offset range, start inclusive and end exclusive, as a batch of the same columns.

        The partitions of `end` are read; one that `start` does not name is read from offset 0 on,
        as the stream reads a partition that appears while it runs. Raises ArgumentError for a range
        that ends before it starts."""
        first = {t: {p: start.get(t, {}).get(p, 0) for p in ends} for t, ends in end.items()}
        for topic, ends in end.items():
            for partition, stop in ends.items():
                if stop < first[topic][partition]:
                    raise ArgumentError(
                        f"{topic}-{partition} is to be read from {first[topic][partition]} to "
                        f"{stop}."
                    )
        filled = {
            t: [p for p, stop in ends.items() if stop > first[t][p]] for t, ends in end.items()
        }
        filled = {t: partitions for t, partitions in filled.items() if partitions}
        if not filled:
            return spark.createDataFrame([], RAW)
        options = {k: v for k, v in self._common().items() if k.lower() not in _STREAM_ONLY} | {
            "assign": json.dumps(filled),
            "startingOffsets": json.dumps(
                {t: {p: first[t][p] for p in ps} for t, ps in filled.items()}
            ),
            "endingOffsets": json.dumps(
                {t: {p: end[t][p] for p in ps} for t, ps in filled.items()}
            ),
        }
        return spark.read.format("kafka").options(**options).load().select(*COLUMNS)

    def _common(self) -> dict[str, str]:
        given = {name.lower() for name in self.options}
        defaults = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
        ours = {"kafka.bootstrap.servers": self.servers, "includeHeaders": "true"}
        return defaults | dict(self.options) | ours

    def _input(self) -> dict[str, str]:
        if self.topics:
            return {"subscribe": ",".join(self.topics)}
        if self.pattern:
            return {"subscribePattern": self.pattern}
        return {"assign": json.dumps({t: list(p) for t, p in (self.partitions or {}).items()})}

    def _start(self) -> dict[str, str]:
        if isinstance(self.start, str):
            return {"startingOffsets": self.start}
        if isinstance(self.start, datetime):
            given = {name.lower() for name in self.options}
            late = {} if "startingoffsetsbytimestampstrategy" in given else {_STRATEGY: "latest"}
            return {"startingTimestamp": str(int(self.start.timestamp() * 1000))} | late
        return {"startingOffsets": json.dumps({t: dict(p) for t, p in self.start.items()})}


_STRATEGY = "startingOffsetsByTimestampStrategy"
