"""Kafka topics as raw rows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from ..columns import require_choice, require_integer
from ..errors import ArgumentError
from ..kafka.client_options import (
    parse_topic_names,
    require_bootstrap_servers,
    require_options,
    with_defaults,
    without_stream_options,
)
from ..offsets import Offsets, count_offsets, iterate_partitions, partition_offset
from ..spark.presets import local_cores

HEADERS = "headers"
RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", HEADERS)
RAW_SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
StartPosition = Literal["earliest", "latest"] | Mapping[str, Mapping[int, int]] | datetime
"""Where a source starts."""
OnDataLoss = Literal["stop", "record"]
_EARLIEST = -2
_NO_TIMESTAMP = -1
TopicPartition: TypeAlias = tuple[str, int]
_RECORDS_PER_TASK = 10_000
"""Reading this number takes a task about twice as long as its overhead."""
_PARTITIONS_PER_TASK = 8
"""The maximum number of partitions for which a task may wait one after the other."""
_TASKS_PER_CORE = 4
"""Enough tasks to balance partitions of different lengths."""
SPLIT_OPTIONS = {"minpartitions", "maxrecordsperpartition"}
"""The options that set the number of tasks explicitly."""
_TIMESTAMP_STRATEGY = "startingOffsetsByTimestampStrategy"


@dataclass(frozen=True)
class KafkaSource:
    """Kafka topics as a source: the topics, the start position, and the size of batches.

    Args:
        bootstrap_servers: the brokers, as "host:port,host:port".
        topics: one topic or several. Exactly one of topics, pattern and partitions is required.
        pattern: a Java regular expression that matches the whole name of each topic.
        partitions: the partitions to read, as {topic: [partition, ...]}.
        start: where the first batch of a new checkpoint starts: "earliest", "latest", offsets as
            {topic: {partition: offset}} for every partition (-2 is the earliest, -1 the latest
            offset), or an aware datetime, which is compared with the Kafka timestamps. A partition
            without a record since then starts at its end.
        max_records_per_batch: the maximum number of offsets in a micro-batch over all partitions,
            some of which a transaction or compaction can have left empty; None for no maximum.
        on_data_loss: the action if the topic has lost records before they were read. "stop"
            raises an error with the missing offsets; "record" continues, and a job writes them to
            its table of offset gaps. It can change from run to run.
        options: options of Spark's Kafka source: `kafka.*` settings (SASL, TLS) and reader options
            that are not arguments here. A repr does not show them.

    Defaults that `options` can change: aborted transactions are not read
    (`kafka.isolation.level`=read_committed), a poll returns up to 5,000 records
    (`kafka.max.poll.records`) and waits 1 ms at the end of a topic (`kafka.fetch.max.wait.ms`), and
    consumers publish no metrics to JMX or the broker (`kafka.auto.include.jmx.reporter`,
    `kafka.enable.metrics.push`). On one machine there are at most four tasks per core, so that a
    task can read several partitions, unless `minPartitions` or `maxRecordsPerPartition` is set.
    The end of a stream is defined by the trigger of the query only.

    Raises ArgumentError and ColumnTypeError, at construction, for arguments that do not fit
    together and for options that Spark would ignore, such as `security.protocol` without `kafka.`.

    >>> secret = {"kafka.sasl.jaas.config": "secret"}
    >>> KafkaSource("localhost:9092", "clicks", max_records_per_batch=None, options=secret)
    KafkaSource(bootstrap_servers='localhost:9092', topics=('clicks',), pattern=None,
        partitions=None, start='earliest', max_records_per_batch=None, on_data_loss='stop')
    """

    bootstrap_servers: str
    topics: str | Sequence[str] = ()
    _: KW_ONLY
    pattern: str | None = None
    partitions: Mapping[str, Sequence[int]] | None = None
    start: StartPosition = "earliest"
    max_records_per_batch: int | None = 1_000_000
    on_data_loss: OnDataLoss = "stop"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        require_bootstrap_servers(self.bootstrap_servers)
        object.__setattr__(self, "topics", parse_topic_names(self.topics))
        if self.pattern is not None:
            _require_pattern(self.pattern)
        if self.partitions is not None:
            _require_partitions(self.partitions)
            parse_topic_names(list(self.partitions))
        arguments = [name for name in ("topics", "pattern", "partitions") if getattr(self, name)]
        if len(arguments) != 1:
            raise ArgumentError(
                f"invalid topics: {' and '.join(arguments) or 'none of the arguments'}",
                "exactly one of topics, pattern and partitions",
                'topics="clicks"',
            )
        if self.max_records_per_batch is not None:
            hint = "max_records_per_batch=1_000_000, or None for no maximum"
            require_integer(self.max_records_per_batch, "max_records_per_batch", 1, 2**63 - 1, hint)
        require_choice(self.on_data_loss, "on_data_loss", OnDataLoss)
        self._require_start()
        require_options(self.options)

    def _require_start(self) -> None:
        expected = '"earliest", "latest", {topic: {partition: offset}} or an aware datetime'
        if isinstance(self.start, datetime):
            if self.start.utcoffset() is None:
                raise ArgumentError(
                    f"invalid start: {self.start!r} without a time zone",
                    expected,
                    "start.replace(tzinfo=timezone.utc)",
                )
        elif isinstance(self.start, Mapping):
            self._require_offsets(self.start)
        elif self.start not in ("earliest", "latest"):
            raise ArgumentError(f"invalid start: {self.start!r}", expected, 'start="earliest"')

    def _require_offsets(self, start: Mapping[str, Mapping[int, int]]) -> None:
        topics = set(self.topics or self.partitions or start)
        if not start or set(start) != topics:
            raise ArgumentError(
                f"invalid start: offsets of the topics {sorted(start)}",
                f"offsets of exactly the topics {sorted(topics)}",
            )
        if any(offset < -2 for offsets in start.values() for offset in offsets.values()):
            raise ArgumentError(
                f"invalid start: {dict(start)!r}",
                "offsets of 0 or more, -2 (earliest) or -1 (latest)",
            )

    @property
    def topic_names(self) -> list[str]:
        """The topics, or the pattern, of the source."""
        return [self.pattern] if self.pattern else [*self.topics, *(self.partitions or {})]

    @property
    def only_partition(self) -> TopicPartition:
        """The only partition of a source that names one."""
        ((topic, parts),) = (self.partitions or {}).items()
        (part,) = parts
        return topic, part

    def partition_shares(
        self,
        partitions: Mapping[str, int],
        previous_shares: Sequence[Mapping[str, Iterable[int]]] = (),
    ) -> list[KafkaSource]:
        """Divide the source into one source per partition, which together read the same records.

        partitions: the number of partitions of each topic.
        previous_shares: the partitions of each stream in the checkpoint. They keep their stream;
            an added partition joins the stream with the fewest.

        Raises ArgumentError for a start that omits a partition.
        """
        named = self.partitions or {name: range(partitions[name]) for name in sorted(partitions)}
        topic_partitions = [(topic, part) for topic, parts in named.items() for part in parts]
        if previous_shares:
            shares = _deal_added_partitions(topic_partitions, previous_shares)
        else:
            self._require_start_of_all(topic_partitions)
            shares = [[partition] for partition in topic_partitions]
        return [self._with_partitions(share, len(shares)) for share in shares]

    def _require_start_of_all(self, topic_partitions: Sequence[TopicPartition]) -> None:
        if not isinstance(self.start, Mapping):
            return
        missing = [
            f"{topic}-{part}" for topic, part in topic_partitions if part not in self.start[topic]
        ]
        if missing:
            raise ArgumentError(
                f"invalid start: no offset of {', '.join(missing)}",
                "an offset of every partition: -2 is its earliest, -1 its latest",
            )

    def _with_partitions(self, share: Sequence[TopicPartition], share_count: int) -> KafkaSource:
        """Return the source of some partitions, with its share of `max_records_per_batch`."""
        partitions: dict[str, list[int]] = {}
        for topic, part in share:
            partitions.setdefault(topic, []).append(part)
        start = self.start
        if isinstance(start, Mapping):
            # An added partition is read from its first record on.
            start = {
                topic: {part: start[topic].get(part, _EARLIEST) for part in parts}
                for topic, parts in partitions.items()
            }
        total = self.max_records_per_batch
        return replace(
            self,
            topics=(),
            pattern=None,
            partitions=partitions,
            start=start,
            max_records_per_batch=None if total is None else ceil(total / share_count),
        )

    def stream(self, spark: SparkSession, *, headers: bool = True) -> DataFrame:
        """Return the topics as a stream of raw rows, with the columns RAW_COLUMNS.

        The timestamp of a record without one is null.

        headers: whether to include the column `headers`, which takes time for each row.
        """
        base_options = with_defaults(self.options, self.bootstrap_servers, headers=headers)
        options = base_options | self._topic_options() | self._start_options()
        options["failOnDataLoss"] = str(self.on_data_loss == "stop").lower()
        if self.max_records_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_records_per_batch)
        rows = spark.readStream.format("kafka").options(**options).load()
        return _coalesce_tasks(rows, options).select(*_columns(headers))

    def read_range(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        *,
        headers: bool = True,
        task_per_partition: bool = False,
    ) -> DataFrame:
        """Return an offset range, end exclusive, as a batch of raw rows.

        The range has the partitions of `end`. A partition without a start offset is read from
        offset 0, as a stream reads a new partition. With any `on_data_loss`, Spark raises an error
        if the topic has lost a part of the range. Raises ArgumentError for a range that ends before
        it starts.

        headers: as in `stream`. task_per_partition: whether one task reads each partition.
        """
        starts, ends = _non_empty_ranges(start, end)
        if not ends:
            return spark.createDataFrame([], RAW_SCHEMA).select(*_columns(headers))
        base_options = with_defaults(self.options, self.bootstrap_servers, headers=headers)
        options = without_stream_options(base_options) | {
            "failOnDataLoss": "true",
            "assign": json.dumps({topic: list(parts) for topic, parts in ends.items()}),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
        }
        rows = spark.read.format("kafka").options(**options).load()
        if not task_per_partition:
            # Beyond this number of tasks, their overhead exceeds the gain.
            by_records = ceil(count_offsets(starts, ends) / _RECORDS_PER_TASK)
            by_partitions = ceil(sum(map(len, ends.values())) / _PARTITIONS_PER_TASK)
            rows = _coalesce_tasks(rows, options, max(by_records, by_partitions))
        return rows.select(*_columns(headers))

    def _topic_options(self) -> dict[str, str]:
        if self.topics:
            return {"subscribe": ",".join(self.topics)}
        if self.pattern:
            # Spark looks for the pattern anywhere in a name, unlike Kafka's own consumer.
            return {"subscribePattern": f"^(?:{self.pattern})$"}
        partitions = self.partitions or {}
        return {"assign": json.dumps({topic: list(parts) for topic, parts in partitions.items()})}

    def _start_options(self) -> dict[str, str]:
        if isinstance(self.start, str):
            return {"startingOffsets": self.start}
        if isinstance(self.start, Mapping):
            offsets = {topic: dict(parts) for topic, parts in self.start.items()}
            return {"startingOffsets": json.dumps(offsets)}
        options = {"startingTimestamp": str(int(self.start.timestamp() * 1000))}
        if _TIMESTAMP_STRATEGY.lower() not in {name.lower() for name in self.options}:
            # By default a partition without such a record is an error.
            options[_TIMESTAMP_STRATEGY] = "latest"
        return options


def _columns(headers: bool) -> list[Column]:
    names = [name for name in RAW_COLUMNS if headers or name != HEADERS]
    return [_record_timestamp() if name == "timestamp" else F.col(name) for name in names]


def _record_timestamp() -> Column:
    """Return the timestamp of a record; null for one without, which Spark reads as -1 ms."""
    has_timestamp = F.unix_millis("timestamp") != _NO_TIMESTAMP
    return F.when(has_timestamp, F.col("timestamp")).alias("timestamp")


def _non_empty_ranges(start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
    """Return the start and the end offsets of the partitions with a range that is not empty."""
    starts: Offsets = {}
    ends: Offsets = {}
    for topic, partition, stop in iterate_partitions(end):
        first = partition_offset(start, topic, partition)
        if stop < first:
            raise ArgumentError(
                f"invalid range of {topic}-{partition}: {first} to {stop}",
                "an end that is not before the start",
            )
        if stop > first:
            starts.setdefault(topic, {})[partition] = first
            ends.setdefault(topic, {})[partition] = stop
    return starts, ends


def _require_pattern(pattern: object) -> None:
    """Refuse a broken pattern; one with a backslash may be valid in Java and not in Python."""
    fault = "" if isinstance(pattern, str) and pattern else "no text"
    try:
        if isinstance(pattern, str) and "\\" not in pattern:
            re.compile(pattern)
    except re.error as error:
        fault = str(error)
    if fault:
        raise ArgumentError(
            f"invalid pattern: {pattern!r}; {fault}", "a regular expression", 'pattern="clicks-.*"'
        )


def _require_partitions(partitions: object) -> None:
    is_valid = isinstance(partitions, Mapping) and all(
        isinstance(numbers, Collection)
        and not isinstance(numbers, str)
        and numbers
        and all(isinstance(number, int) and number >= 0 for number in numbers)
        for numbers in partitions.values()
    )
    if not is_valid:
        raise ArgumentError(
            f"invalid partitions: {partitions!r}",
            "the numbers of at least one partition by topic",
            'partitions={"clicks": [0, 1]}',
        )


def _deal_added_partitions(
    partitions: Sequence[TopicPartition], previous_shares: Sequence[Mapping[str, Iterable[int]]]
) -> list[Sequence[TopicPartition]]:
    """Add new partitions to existing shares, the smallest share first."""
    shares = [
        [(topic, part) for topic, parts in share.items() for part in sorted(parts)]
        for share in previous_shares
    ]
    assigned = {partition for share in shares for partition in share}
    for partition in partitions:
        if partition not in assigned:
            min(shares, key=len).append(partition)
    return list(shares)


def _coalesce_tasks(
    rows: DataFrame, options: Iterable[str], max_tasks: int | None = None
) -> DataFrame:
    """Reduce the number of tasks, so that a task can read several short or many partitions.

    By default Spark reads each partition in a separate task, which costs about 25 ms of a core and
    writes a file. On a cluster, long ranges keep one task per partition, because cores can join
    later.

    options: the names of the reader's options.
    """
    if is_remote() or SPLIT_OPTIONS & {name.lower() for name in options}:
        return rows
    cores = local_cores(rows.sparkSession.conf.get("spark.master") or "")
    core_limit = _TASKS_PER_CORE * cores if cores else None
    limits = [limit for limit in (core_limit, max_tasks) if limit is not None]
    return rows.coalesce(min(limits)) if limits else rows
