"""Which dead letters went back to Kafka: sent in one transaction, and noted before and after it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import SourceError, TopicError
from ..jvm import delta_state
from .headers_behind import headers_behind
from .kafka import Cluster

HEADER = "tidegate-redriven"
PLACE = ("topic", "partition", "offset")
INTENDED, SENT, UNSENT = "intended", "sent", "unsent"
NOTED = (*PLACE, "destination", "run", "state", "ends", "topic_id")
NOTES = (
    "topic STRING, partition INT, offset BIGINT, destination STRING, run STRING, state STRING, "
    "ends MAP<INT, BIGINT>, topic_id STRING"
)
_SECONDS = 60.0
_LONGEST_MS = 900_000
_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "log_level": 0,
    # Kafka's own clients in Java choose the partition of a key so.
    "partitioner": "murmur2_random",
    "transaction.timeout.ms": _LONGEST_MS,
    "message.timeout.ms": 300_000,
    # The broker alone decides what is too large.
    "message.max.bytes": 100_000_000,
}


@dataclass(frozen=True)
class Redriven:
    """The notes of a table of dead letters: a Delta table beside it, `<table>.redriven`.

    A run notes which letters it is about to send, with the ends and ids of the topics; sends them
    in one Kafka transaction; and notes that they are sent. Whether a run that died in between has
    sent them is read from those topics, behind those ends, by the header `tidegate-redriven`.
    """

    spark: SparkSession
    table: str
    cluster: Cluster

    @property
    def path(self) -> str:
        """Where the notes are."""
        return f"{self.table.rstrip('/')}.redriven"

    def notes(self) -> DataFrame:
        """Return all notes."""
        if delta_state(self.spark, self.path).version < 0:
            return self.spark.createDataFrame([], NOTES)
        return self.spark.read.format("delta").load(self.path)

    def note(self, letters: DataFrame) -> None:
        """Add notes, all in one commit."""
        letters.select(*NOTED).write.format("delta").mode("append").save(self.path)

    def unsent(self, dead: DataFrame) -> DataFrame:
        """Return the dead letters that no run has sent."""
        sent = self.notes().where(F.col("state") == SENT).select(*PLACE).distinct()
        return dead.join(sent, [*PLACE], "left_anti")

    @contextmanager
    def turn(self) -> Iterator[Producer]:
        """Return a producer whose transactions no other run's can cross; settle what is open.

        An older run that still lives can commit nothing from here on.
        """
        settings = {
            "bootstrap.servers": self.cluster.servers,
            **_SETTINGS,
            **self.cluster.options,
            "transactional.id": f"tidegate-redrive-{self._id}",
        }
        producer = Producer(settings)
        try:
            producer.init_transactions(_SECONDS)
            self._settle()
            yield producer
        except KafkaException as error:
            raise TopicError(
                f"nothing is known to be sent: {error.args[0].str()}.",
                hint="run the command again: it looks in the topics for what was sent.",
            ) from error

    def send(self, producer: Producer, letters: DataFrame) -> int:
        """Send letters with the columns of a record and `destination`; return their number."""
        run = uuid.uuid4().hex
        ends = self._ends(row[0] for row in letters.select("destination").distinct().collect())
        literals = {topic: _literal(by_part) for topic, by_part in ends.items()}
        ids = {topic: F.lit(self.cluster.topic_id(topic)) for topic in ends}
        noted = letters.withColumns({
            "run": F.lit(run), "ends": _by_destination(literals), "topic_id": _by_destination(ids),
        })  # fmt: skip
        self.note(noted.withColumn("state", F.lit(INTENDED)))
        number = self._transaction(producer, letters)
        self.note(noted.withColumn("state", F.lit(SENT)))
        return number

    def _transaction(self, producer: Producer, letters: DataFrame) -> int:
        failures: list[KafkaError] = []

        def answered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failures.append(error)

        producer.begin_transaction()
        number = 0
        try:
            for row in letters.toLocalIterator():
                self._produce(producer, row, answered)
                number += 1
            producer.flush(_SECONDS)
            if failures or len(producer):
                reason = failures[0].str() if failures else "no answer in time"
                raise TopicError(
                    f"a dead letter was not taken: {reason}. None of them is sent.",
                    hint="leave it out with --where, or see to the topic; then run this again.",
                )
        except BaseException:
            producer.abort_transaction(_SECONDS)
            raise
        producer.commit_transaction(_SECONDS)
        return number

    def _produce(self, producer: Producer, row: Any, answered: Any) -> None:
        own = f"{self._id}/{row.topic}/{row.partition}/{row.offset}"
        kept = [(each.key, _bytes(each.value)) for each in row.headers or () if each.key != HEADER]
        record: dict[str, Any] = {"value": _bytes(row.value), "key": _bytes(row.key)}
        if row.destination == row.topic:
            record["partition"] = row.partition
        record |= {"headers": [*kept, (HEADER, own.encode())], "on_delivery": answered}
        while True:
            try:
                producer.produce(row.destination, **record)
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)

    def _settle(self) -> None:
        """Note of runs that died what they have sent, and what not."""
        notes = self.notes()
        settled = notes.where(F.col("state") != INTENDED).select("run").distinct()
        pending = notes.join(settled, "run", "left_anti").persist()
        try:
            told = [F.first(name).alias(name) for name in ("ends", "topic_id")]
            runs = pending.groupBy("run", "destination").agg(*told).collect()
            found: set[str] = set()
            for run in runs:
                self._require_same(run.destination, run.topic_id, run.run)
                found |= self._arrived(run.destination, run.ends, run.run)
            if not pending.isEmpty():
                held = self.spark.createDataFrame([(one,) for one in found], "id STRING")
                place = F.concat_ws("/", F.lit(self._id), *PLACE)
                there = pending.join(held, place == F.col("id"), "left")
                state = F.when(F.col("id").isNull(), UNSENT).otherwise(SENT)
                self.note(there.withColumn("state", state))
        finally:
            pending.unpersist()

    def _require_same(self, topic: str, noted: str, run: str) -> None:
        """Refuse a topic that is not the one that a run was sending to when it died."""
        self.cluster.require(topic)
        found = self.cluster.topic_id(topic)
        if noted != found:
            raise SourceError(
                f"the run {run} died while it sent letters to the topic {topic} with the id "
                f"{noted}; {topic} at {self.cluster.servers} has the id {found}.",
                "the brokers that it was sending to.",
                f"--servers of those; where that topic is gone, delete the run's notes from "
                f"{self.path}: its letters are then sent again.",
            )

    def _arrived(self, topic: str, since: Mapping[int, int], run: str) -> set[str]:
        """Return the ids of the letters that a topic has behind some offsets."""
        ends = self._ends([topic])[topic]
        try:
            return headers_behind(self.cluster, topic, HEADER, since, ends)
        except KafkaException as error:
            raise SourceError(
                f"whether the run {run} has sent its letters to {topic} cannot be read: "
                f"{error.args[0].str()}.",
                "a topic that still has what was sent.",
                f"look for the header {HEADER} in it; where none went, delete the run's notes from "
                f"{self.path}.",
            ) from error

    def _ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        there = self.cluster.topics()
        ends: dict[str, dict[int, int]] = {}
        for topic in topics:
            self.cluster.require(topic)
            found = self.cluster.ends({topic: range(there[topic])})
            ends[topic] = {part: end for (_, part), end in found.items()}
        return ends

    @cached_property
    def _id(self) -> str:
        """The table's own id, which each record's header begins with."""
        return delta_state(self.spark, self.table).table_id()


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    """Return what Spark may give as a bytearray, which Kafka's client refuses."""
    return None if value is None else bytes(value)


def _by_destination(values: Mapping[str, Column]) -> Column:
    """Return the value of a letter's destination."""
    pairs = [part for topic, value in values.items() for part in (F.lit(topic), value)]
    return F.create_map(*pairs)[F.col("destination")]


def _literal(offsets: Mapping[int, int]) -> Column:
    parts = [F.lit(number) for pair in offsets.items() for number in pair]
    return F.create_map(*parts).cast("map<int,bigint>")
