"""The records of the topics of a database: their input, and the topics of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from ..formats.avro import connect_declaration
from ..formats.connect_schema import schema_name
from ..formats.protobuf import protobuf_declaration
from ..formats.registered_schemas import RegisteredSchema, SchemaLookup
from ..formats.schema_header import schema_id
from ..sources import Input, KafkaSource

RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
ORIGIN = "__tidegate_origin"
"""Where a record comes from: the batch, or the topic before it."""
OF_BATCH, MISSED, COUNTED = 0, 1, 2
"""The origins; records of the last one were counted with an earlier batch."""
_SCHEMA_START = '{"schema":'
_PAYLOAD_START = ',"payload":'
_NO_SCHEMA = ""
_NOT_OF_TABLES = ("Heartbeat", "TransactionMetadataValue", "SchemaChangeValue")
"""The ends of the names of schemas of Debezium's records that are not of a table."""


@dataclass(frozen=True)
class RecordBytes:
    """Passes on the value of each record, also of a tombstone, for a sink that decodes it.

    >>> RecordBytes().schema.simpleString()
    'struct<value:binary>'
    """

    plan_name: ClassVar[str] = "record_bytes"
    schema: ClassVar[StructType] = StructType([StructField("value", BinaryType())])
    required_columns: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, and `bad`, which is false for every record."""
        return raw.withColumns({"record": F.struct("value"), "bad": F.lit(False)})

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`, which is null."""
        return dead_letters.withColumn("reason", F.lit(None).cast("string"))


def replicated_input(source: KafkaSource) -> Input:
    r"""Return the input of a job with the sink `ReplicatedTables`, which decodes the records.

    Records without a timestamp, which Kafka has not written since version 0.10, are dead letters.

    >>> source = KafkaSource("localhost:9092", pattern=r"shop\.public\..*")
    >>> replicated_input(source).columns
    ['value', 'event_time', 'topic', 'partition', 'offset', 'timestamp', 'key']
    """
    return Input(
        source,
        RecordBytes(),
        time=F.col("timestamp"),
        watermark_delay="0 seconds",
        kafka_columns=[name for name in RECORD_COLUMNS if name != "value"],
        future_tolerance=None,
    )


@dataclass(frozen=True, kw_only=True)
class TopicRecords:
    """The records of one topic in a batch, and those that a resuming table has missed.

    records, missed_records: the numbers of both, without those that were counted before.
    value_schemas, key_schemas: the distinct schema parts, in the order of the log. Those of Avro
        and Protobuf are the declarations of the schemas in the registry.
    has_rows: whether some record has a value that can be of a row.
    has_unknown_keys: whether the schema of some key is not in the registry, or is of another type.
    registered_schemas: the schemas of the ids in keys and values, by id, without unknown ones.
    """

    name: str
    records: int
    missed_records: int
    value_schemas: Sequence[str]
    key_schemas: Sequence[str]
    has_rows: bool
    has_unknown_keys: bool = False
    registered_schemas: Mapping[int, RegisteredSchema] = field(default_factory=dict)

    @property
    def new_records(self) -> int:
        """The number of records that are counted with this batch."""
        return self.records + self.missed_records


def find_topics(records: DataFrame, registry: SchemaLookup | None = None) -> list[TopicRecords]:
    """Return the topics of a batch with their schema parts, which records of a table share.

    registry: has the schemas of Avro or Protobuf; without one, records are JSON.

    Raises RegistryError.
    """
    schema_part = _schema_part if registry is None else _schema_id
    groups = (
        records.groupBy(
            "topic",
            schema_part("key").alias("key_schema"),
            schema_part("value").alias("value_schema"),
        )
        .agg(
            F.count_if(F.col(ORIGIN) == F.lit(OF_BATCH)).alias("records"),
            F.count_if(F.col(ORIGIN) == F.lit(MISSED)).alias("missed_records"),
            F.min(F.struct("offset", "partition")).alias("first"),
        )
        .orderBy("topic", "first")
        .collect()
    )
    by_topic: dict[str, list[Row]] = {}
    for group in groups:
        by_topic.setdefault(group["topic"], []).append(group)
    parts = {group[column] for group in groups for column in ("key_schema", "value_schema")}
    schemas: dict[str, RegisteredSchema | None] | None = None
    if registry is not None:
        schemas = {part: registry.by_id(int(part)) for part in sorted(filter(None, parts))}
    return [_topic_records(name, of_topic, schemas) for name, of_topic in by_topic.items()]


def _topic_records(
    name: str, groups: Sequence[Row], schemas: Mapping[str, RegisteredSchema | None] | None
) -> TopicRecords:
    """Return the records of a topic.

    schemas: the registered schemas by id; None for JSON, whose records have their own declarations.
    """
    keys, values = (
        list(dict.fromkeys(group[column] for group in groups if group[column] is not None))
        for column in ("key_schema", "value_schema")
    )
    known = {}
    if schemas is not None:
        found = {part: schemas[part] for part in (*keys, *values) if part != _NO_SCHEMA}
        known = {int(part): schema for part, schema in found.items() if schema is not None}
        declared = {number: _declaration(schema) for number, schema in known.items()}
        keys, values = (
            [declared.get(int(part)) if part != _NO_SCHEMA else part for part in parts]
            for parts in (keys, values)
        )
    is_of_table = [not schema_name(part).endswith(_NOT_OF_TABLES) for part in values if part]
    return TopicRecords(
        name=name,
        records=sum(group["records"] for group in groups),
        missed_records=sum(group["missed_records"] for group in groups),
        value_schemas=[part for part in values if part],
        key_schemas=[part for part in keys if part],
        has_rows=any(is_of_table) or _NO_SCHEMA in values,
        has_unknown_keys=None in keys,
        registered_schemas=known,
    )


def _declaration(schema: RegisteredSchema) -> str | None:
    """Return a schema as Kafka Connect declares the same type; None if no record has it."""
    return connect_declaration(schema) or protobuf_declaration(schema)


def _schema_id(column: str) -> Column:
    """Return the id of the schema as text; empty text without one, null without a value."""
    value = F.col(column)
    number = F.coalesce(schema_id(value).cast("string"), F.lit(_NO_SCHEMA))
    return F.when(value.isNotNull(), number)


def _schema_part(column: str) -> Column:
    """Return the text of the schema part; empty text without one, null without a value."""
    text = F.col(column).cast("string")
    start = F.substring_index(text, _PAYLOAD_START, 1)
    part = F.substring(start, len(_SCHEMA_START) + 1, 2**31 - 1)
    has_part = F.startswith(text, F.lit(_SCHEMA_START)) & F.contains(text, F.lit(_PAYLOAD_START))
    return F.when(text.isNotNull(), F.when(has_part, part).otherwise(F.lit(_NO_SCHEMA)))
