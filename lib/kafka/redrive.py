"""Exactly-once redrive of dead letters to Kafka: one transaction, and a log before and after it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import SourceError, TopicError
from ..jvm import delta_state, refuse_missing_files
from .admin import Cluster

_TIMEOUT_S = 60.0


def read_header_values(
    cluster: Cluster,
    topic: str,
    header: str,
    start_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
) -> set[str]:
    """Return the values of a header in the committed records of an offset range.

    start_offsets: the first offset by partition; 0 for a partition that is not listed.
    end_offsets: the offset after the last one, by partition.

    Raises KafkaException if the records are no longer available, and SourceError if a transaction
    before the end remains open.
    """
    consumer = Consumer({
        "bootstrap.servers": cluster.servers, "group.id": "tidegate-redrive",
        "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0,
        "enable.partition.eof": True, "auto.offset.reset": "error", **cluster.options,
    })  # fmt: skip
    starts = {part: start_offsets.get(part, 0) for part in end_offsets}
    unfinished = {part for part, end in end_offsets.items() if end > starts[part]}
    values: set[str] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, part, starts[part]) for part in unfinished])
        while unfinished:
            message = consumer.poll(1.0)
            if time.monotonic() > deadline:
                raise SourceError(
                    f"topic {topic} not read to its end within {_TIMEOUT_S:g} s",
                    "probably an open transaction.",
                )
            if message is None:
                continue
            error = message.error()
            if error is None:
                deadline = time.monotonic() + _TIMEOUT_S
                headers: Any = message.headers() or ()
                values |= {bytes(value).decode() for name, value in headers if name == header}
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # Before the end there may be an open transaction, then the records of the redrive.
            elif (message.offset() or 0) >= end_offsets[message.partition() or 0]:
                unfinished.discard(message.partition() or 0)
    finally:
        consumer.close()
    return values


REDRIVE_HEADER = "tidegate-redriven"
OFFSET_COLUMNS = ("topic", "partition", "offset")
INTENDED, SENT, UNSENT = "intended", "sent", "unsent"
LOG_COLUMNS = (*OFFSET_COLUMNS, "destination", "run", "state", "ends", "topic_id")
LOG_SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, destination STRING, run STRING, state STRING, "
    "ends MAP<INT, BIGINT>, topic_id STRING"
)
_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "log_level": 0,
    # The default partitioner of Kafka's Java client.
    "partitioner": "murmur2_random",
    "transaction.timeout.ms": 900_000,
    "message.timeout.ms": 300_000,
    # Only the broker limits the size of a message.
    "message.max.bytes": 100_000_000,
}


@dataclass(frozen=True)
class RedriveLog:
    """The redrive log of a dead letter table: the Delta table `<table>.redriven`.

    A run logs the letters that it intends to send, with the end offsets and ids of the topics;
    sends them in one Kafka transaction; and logs them as sent. If a run dies in between, the next
    run searches the topics after these offsets for the header `tidegate-redriven`.
    """

    spark: SparkSession
    table: str
    cluster: Cluster

    @property
    def path(self) -> str:
        """The path of the log."""
        return f"{self.table.rstrip('/')}.redriven"

    def read_entries(self) -> DataFrame:
        """Return all entries of the log."""
        if delta_state(self.spark, self.path).version < 0:
            return self.spark.createDataFrame([], LOG_SCHEMA)
        return self.spark.read.format("delta").load(self.path)

    def append_entries(self, letters: DataFrame) -> None:
        """Append entries in one commit."""
        with refuse_missing_files(self.spark):
            letters.select(*LOG_COLUMNS).write.format("delta").mode("append").save(self.path)

    def open_entries(self) -> DataFrame:
        """Return the entries of runs that have not logged which of their letters were sent."""
        entries = self.read_entries()
        settled = entries.where(F.col("state") != INTENDED).select("run").distinct()
        return entries.join(settled, "run", "left_anti")

    def unsent_letters(self, dead_letters: DataFrame) -> DataFrame:
        """Return the dead letters that are not logged as sent."""
        sent = self.read_entries().where(F.col("state") == SENT).select(*OFFSET_COLUMNS).distinct()
        return dead_letters.join(sent, [*OFFSET_COLUMNS], "left_anti")

    @contextmanager
    def exclusive_producer(self) -> Iterator[Producer]:
        """Return a transactional producer that fences other runs, after settling open runs.

        An older run that is still alive can no longer commit.
        """
        settings = {
            "bootstrap.servers": self.cluster.servers,
            **_SETTINGS,
            **self.cluster.options,
            "transactional.id": f"tidegate-redrive-{self._table_id}",
        }
        producer = Producer(settings)
        try:
            producer.init_transactions(_TIMEOUT_S)
            self._settle_open_runs()
            yield producer
        except KafkaException as error:
            raise TopicError(
                "redrive failed in an unknown state",
                f"{error.args[0].str()}.",
                "run the command again; it searches the topics for records that were sent.",
            ) from error

    def send_letters(self, producer: Producer, letters: DataFrame) -> int:
        """Send letters, with the columns of a record and `destination`; return their number."""
        run = uuid.uuid4().hex
        destinations = letters.select("destination").distinct().collect()
        ends = self._end_offsets(row[0] for row in destinations)
        end_maps = {
            topic: _literal_map(offsets).cast("map<int,bigint>") for topic, offsets in ends.items()
        }
        topic_ids = {topic: self.cluster.topic_id(topic) for topic in ends}
        destination = F.col("destination")
        entries = letters.withColumns(
            {
                "run": F.lit(run),
                "ends": _literal_map(end_maps)[destination],
                "topic_id": _literal_map(topic_ids)[destination],
            }
        )
        self.append_entries(entries.withColumn("state", F.lit(INTENDED)))
        number = self._send_in_transaction(producer, letters)
        self.append_entries(entries.withColumn("state", F.lit(SENT)))
        return number

    def _send_in_transaction(self, producer: Producer, letters: DataFrame) -> int:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failures.append(error)

        producer.begin_transaction()
        number = 0
        try:
            for row in letters.toLocalIterator():
                self._produce_letter(producer, row, on_delivery)
                number += 1
            producer.flush(_TIMEOUT_S)
            if failures or len(producer):
                cause = failures[0].str() if failures else "no response in time"
                raise TopicError(
                    "redrive aborted, no dead letter sent",
                    f"the broker rejected a dead letter: {cause}.",
                    "exclude it with --where, or fix the topic, then run the command again.",
                )
        except BaseException:
            producer.abort_transaction(_TIMEOUT_S)
            raise
        producer.commit_transaction(_TIMEOUT_S)
        return number

    def _produce_letter(self, producer: Producer, row: Any, on_delivery: Any) -> None:
        letter_id = f"{self._table_id}/{row.topic}/{row.partition}/{row.offset}"
        others = [each for each in row.headers or () if each.key != REDRIVE_HEADER]
        headers = [(each.key, _as_bytes(each.value)) for each in others]
        record: dict[str, Any] = {
            "value": _as_bytes(row.value),
            "key": _as_bytes(row.key),
            "headers": [*headers, (REDRIVE_HEADER, letter_id.encode())],
            "on_delivery": on_delivery,
        }
        if row.destination == row.topic:
            record["partition"] = row.partition
        while True:
            try:
                producer.produce(row.destination, **record)
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)

    def _settle_open_runs(self) -> None:
        """Log for each run that died which of its letters were sent."""
        pending = self.open_entries().persist()
        try:
            run_columns = [F.first(name).alias(name) for name in ("ends", "topic_id")]
            runs = pending.groupBy("run", "destination").agg(*run_columns).collect()
            delivered_ids: set[str] = set()
            for run in runs:
                self._require_same_topic(run.destination, run.topic_id, run.run)
                delivered_ids |= self._delivered_ids(run.destination, run.ends, run.run)
            if not pending.isEmpty():
                rows = [(letter_id,) for letter_id in delivered_ids]
                delivered = self.spark.createDataFrame(rows, "id STRING")
                id_column = F.concat_ws("/", F.lit(self._table_id), *OFFSET_COLUMNS)
                matched = pending.join(delivered, id_column == F.col("id"), "left")
                state = F.when(F.col("id").isNull(), UNSENT).otherwise(SENT)
                self.append_entries(matched.withColumn("state", state))
        finally:
            pending.unpersist()

    def _require_same_topic(self, topic: str, recorded_id: str, run: str) -> None:
        self.cluster.require_topic(topic)
        current_id = self.cluster.topic_id(topic)
        if recorded_id != current_id:
            raise SourceError(
                f"unfinished redrive {run} cannot be settled: topic {topic} has another id",
                f"the run was sending to topic id {recorded_id}; {topic} at {self.cluster.servers} "
                f"has the id {current_id}.",
                "pass the brokers of that run with --servers. If its topic was deleted, delete the "
                f"entries of the run from {self.path}; its letters are then sent again.",
            )

    def _delivered_ids(self, topic: str, start_offsets: Mapping[int, int], run: str) -> set[str]:
        """Return the ids of the letters in a topic from the start offsets on."""
        ends = self._end_offsets([topic])[topic]
        try:
            return read_header_values(self.cluster, topic, REDRIVE_HEADER, start_offsets, ends)
        except KafkaException as error:
            raise SourceError(
                f"unfinished redrive {run} cannot be settled: records of topic {topic} are lost",
                f"{error.args[0].str()}.",
                f"search the topic for the header {REDRIVE_HEADER}; if it has no letters of the "
                f"run, delete the entries of the run from {self.path}.",
            ) from error

    def _end_offsets(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        partition_counts = self.cluster.topics()
        ends: dict[str, dict[int, int]] = {}
        for topic in topics:
            self.cluster.require_topic(topic)
            offsets = self.cluster.end_offsets({topic: range(partition_counts[topic])})
            ends[topic] = {part: end for (_, part), end in offsets.items()}
        return ends

    @cached_property
    def _table_id(self) -> str:
        """The id of the table, with which the header of each record begins."""
        return delta_state(self.spark, self.table).table_id()


def _as_bytes(value: bytearray | bytes | None) -> bytes | None:
    """Return bytes for a bytearray of Spark, which Kafka's client rejects."""
    return None if value is None else bytes(value)


def _literal_map(values: Mapping[Any, Any]) -> Column:
    return F.create_map(*[F.lit(part) for pair in values.items() for part in pair])
