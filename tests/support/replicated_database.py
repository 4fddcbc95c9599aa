"""A database of topics as Debezium writes them, and the job that replicates it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.connect_avro import AvroConverter
from tests.support.connect_protobuf import ProtobufConverter
from tests.support.delta_tables import rows
from tests.support.replicated_topics import send_changes
from tidegate import Job, KafkaSource, run
from tidegate.formats import SchemaRegistry
from tidegate.replication import ReplicatedTables, replicated_input
from tidegate.telemetry.stats import Summary
from tidegate.testing import Broker


class Database:
    """The topics of one database, and the job that replicates them.

    converter: converts the records that are sent to Avro or Protobuf.
    """

    def __init__(
        self,
        broker: Broker,
        root: Path,
        *,
        converter: AvroConverter | ProtobufConverter | None = None,
        **options: Any,
    ) -> None:
        self.servers, self.broker, self.root = broker.bootstrap_servers, broker, root
        self.server = f"db{uuid.uuid4().hex[:8]}"
        self.options = options
        self.converter = converter
        if converter is not None:
            registry = SchemaRegistry(converter.registry.url, attempts=1)
            is_avro = isinstance(converter, AvroConverter)
            encoding = "avro" if is_avro else "protobuf"
            self.options |= {"encoding": encoding, "registry": registry}
        self.control = root / "replication"

    def topic(self, table: str) -> str:
        return f"{self.server}.public.{table}"

    def send(self, table: str, *records: tuple[bytes | None, bytes | None]) -> None:
        if self.topic(table) not in self.broker.topics():
            self.broker.create_topic(self.topic(table), partitions=1)
        topic = self.topic(table)
        if self.converter is not None:
            records = tuple(self.converter.convert_change(*each, topic) for each in records)
        send_changes(self.servers, topic, records)

    def job(self) -> Job:
        source = KafkaSource(self.servers, pattern=rf"{self.server}\.public\..*")
        sink = ReplicatedTables(
            str(self.control),
            source=source,
            root=str(self.root / "tables"),
            **self.options,
        )
        changes = replicated_input(source)
        return Job(name="replicate", inputs={"changes": changes}, sink=sink)

    def run(self, spark: SparkSession) -> Summary:
        return run(self.job(), spark)

    def rows(self, table: str) -> list[dict[str, Any]]:
        stored = rows(self.root / "tables" / f"public.{table}")
        state = ("changed_at", "position")
        plain = [{k: v for k, v in row.items() if k not in state} for row in stored]
        return sorted(plain, key=lambda row: next(iter(row.values())))

    def states(self) -> dict[str, dict[str, Any]]:
        stored = rows(self.control)
        return {row["topic"].rpartition(".")[2]: row for row in stored}
