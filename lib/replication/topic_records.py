"""The records of the topics of a database: their input, and the topics of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from ..formats.connect_schema import schema_name
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
    value_schemas, key_schemas: the distinct schema parts, in the order of the log.
    has_rows: whether some record has a value that can be of a row.
    """

    name: str
    records: int
    missed_records: int
    value_schemas: Sequence[str]
    key_schemas: Sequence[str]
    has_rows: bool

    @property
    def new_records(self) -> int:
        """The number of records that are counted with this batch."""
        return self.records + self.missed_records


def find_topics(records: DataFrame) -> list[TopicRecords]:
    """Return the topics of a batch with their schema parts, which records of a table share."""
    groups = (
        records.groupBy(
            "topic",
            _schema_part("key").alias("key_schema"),
            _schema_part("value").alias("value_schema"),
        )
        .agg(
            F.count_if(F.col(ORIGIN) == F.lit(OF_BATCH)).alias("records"),
            F.count_if(F.col(ORIGIN) == F.lit(MISSED)).alias("missed_records"),
            F.min(F.struct("offset", "partition")).alias("first"),
        )
        .orderBy("topic", "first")
        .collect()
    )
    topics = []
    for name in dict.fromkeys(row["topic"] for row in groups):
        of_topic = [row for row in groups if row["topic"] == name]
        values = [row["value_schema"] for row in of_topic]
        schemas = [schema for schema in dict.fromkeys(values) if schema]
        is_of_table = [not schema_name(each).endswith(_NOT_OF_TABLES) for each in schemas]
        topics.append(
            TopicRecords(
                name=name,
                records=sum(row["records"] for row in of_topic),
                missed_records=sum(row["missed_records"] for row in of_topic),
                value_schemas=schemas,
                key_schemas=[row["key_schema"] for row in of_topic if row["key_schema"]],
                has_rows=any(is_of_table) or _NO_SCHEMA in values,
            )
        )
    return topics


def _schema_part(column: str) -> Column:
    """Return the text of the schema part; empty text without one, null without a value."""
    text = F.col(column).cast("string")
    start = F.substring_index(text, _PAYLOAD_START, 1)
    part = F.substring(start, len(_SCHEMA_START) + 1, 2**31 - 1)
    has_part = F.startswith(text, F.lit(_SCHEMA_START)) & F.contains(text, F.lit(_PAYLOAD_START))
    return F.when(text.isNotNull(), F.when(has_part, part).otherwise(F.lit(_NO_SCHEMA)))
