"""Dead letters into a Kafka topic too, each with an id by which a copy is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted
from ..errors import ColumnTypeError
from ..sources._kafka_options import require_servers, topic_names
from ._records import ID
from ._sending import require_producer_options, require_topic, send

_OURS = "tidegate-"
_TOLD = ("topic", "partition", "offset", "stage", "reason", "value_bytes")
_DIGITS = 32


@dataclass(frozen=True)
class DeadTopic:
    """Send each batch's dead letters to a Kafka topic before its table has them, at least once.

    A record has the key and the value that could not be read, the value cut short as in the table;
    without a key, its place, topic/partition/offset, as its key. It has the headers `tidegate-id`
    (see `Publish`), `tidegate-topic`, `-partition`, `-offset`, `-stage`, `-reason` and
    `-value-bytes`, the full length of the value; then the record's own headers, but for those that
    begin with `tidegate-`.

    The table notes the batch: one that it has is not sent again. A batch that died between the two,
    and a task that Spark runs again, send letters twice, with the same id; `Once` drops the copies.

    Args:
        servers: the brokers, as host:port with commas between.
        topic: the topic, which must exist, and which the job may not read.
        options: `kafka.*` settings of the producer, whose values never show in a repr.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        TopicError: for a topic that is not there or takes no record, and a record too large.

    >>> DeadTopic("localhost:9092", topic="clicks.dead").topic
    'clicks.dead'
    """

    servers: str
    _: KW_ONLY
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_servers(self.servers)
        if not isinstance(self.topic, str):
            raise ColumnTypeError(f"topic is {self.topic!r}.", "the name of one topic.")
        topic_names(self.topic)
        require_producer_options(self.options)

    def require(self, spark: SparkSession) -> None:
        """Refuse a topic that is not there, before a job begins and before each batch is sent."""
        require_topic(spark, self.servers, self.topic, self.options)

    def send(self, letters: DataFrame, sender: str) -> None:
        """Send letters, whose ids begin with the sender: job/query/step/batch."""
        self.require(letters.sparkSession)
        send(self.records(letters, sender), self)

    def records(self, letters: DataFrame, sender: str) -> DataFrame:
        """Return the letters as records: key, value and headers."""
        place = F.concat_ws("/", *(quoted(name).cast("string") for name in _TOLD[:3]))
        row = F.substring(F.sha2(place, 256), 1, _DIGITS)
        # A letter is the only one of its place, and its copy goes to the partition of its key.
        key = F.coalesce("key", place.cast("binary"))
        told = {ID: F.concat(F.lit(f"{sender}/"), row, F.lit("-1"))}
        for name in _TOLD:
            told[_OURS + name.replace("_", "-")] = quoted(name).cast("string")
        ours = F.array(*[_header(name, value) for name, value in told.items()])
        # What the record itself had; headers of an earlier time as a dead letter are made anew.
        own = F.filter("headers", lambda header: ~F.startswith(header["key"], F.lit(_OURS)))
        shaped = F.coalesce(own, F.array()).cast("array<struct<key:string,value:binary>>")
        headers = F.concat(ours, shaped)
        return letters.select(key.alias("key"), "value", headers.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
