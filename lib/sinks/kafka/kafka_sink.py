"""Send rows and dead letters to Kafka topics, at least once, with ids that identify copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from ...columns import (
    JSON_IN_UTC,
    first_reason,
    null_faults,
    quoted_column,
    require_column_names,
    require_columns,
    require_instance,
)
from ...commit.batch import CommitContext
from ...errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError, TopicError
from ...jvm import KafkaClient, error_text
from ...kafka.client_options import parse_topic_names, require_bootstrap_servers
from ..base import SendingSink, deletion_flag, require_target

SENT_SCHEMA = "topic STRING, batch BIGINT, rows BIGINT"
ID_HEADER = "tidegate-id"
"""Header that identifies a record and its copies: job/query/output/batch/row."""

_NULL_KEY = "a record's key is null"
_HASH_DIGITS = 32
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_HEADER_PREFIX = "tidegate-"
_HEADER_COLUMNS = ("topic", "partition", "offset", "stage", "reason", "value_bytes")
_RESERVED_OPTIONS = ("kafka.bootstrap.servers", "kafka.acks", "kafka.enable.idempotence")
_REQUIRED_OPTIONS = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
_TOO_LARGE_ERRORS = ("RecordTooLargeException", "RecordBatchTooLargeException")
_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.(\w+)|KafkaException): ([^\n]*)")
_MAX_KEY_SHOWN = 200


def as_json(columns: Sequence[str]) -> Column:
    """Return a JSON object of columns, with times in UTC to the microsecond and null fields.

    Binary values are written as Base64, NaN and infinity as text.
    """
    return F.to_json(F.struct(*map(quoted_column, columns)), JSON_IN_UTC)


def _as_key(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return the key of a record; evaluation fails if a single key column is null."""
    if len(columns) > 1:
        return as_json(columns).cast("binary")
    (name,) = columns
    key_column = quoted_column(name)
    if not isinstance(frame.schema[name].dataType, BinaryType):
        key_column = key_column.cast("string").cast("binary")
    return F.coalesce(
        key_column, F.raise_error(F.lit(f"{_NULL_KEY}: column {name}")).cast("binary")
    )


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), text.alias("value"))


def _with_record_ids(records: DataFrame, sender: str) -> DataFrame:
    """Return key, value and headers of records, ordered by `order` within each key.

    The id is a hash of the record, or of `identity` and the key. It does not depend on the order in
    which Spark computes rows: records with the same hash are numbered by their content.
    """
    # A tombstone has no content.
    content = F.coalesce(quoted_column("identity").cast("binary"), quoted_column("value"))
    hash_of_content = F.coalesce(F.sha2(content, 256), F.lit("tombstone"))
    record = F.concat(F.sha2("key", 256), hash_of_content)
    row_hash = F.substring(F.sha2(record, 256), 1, _HASH_DIGITS)
    hashed = records.withColumn("row", row_hash)
    # One shuffle by key serves both the numbers and the order of sending.
    same_record = Window.partitionBy("key", "row").orderBy("order", "value", "extra_headers")
    numbered = hashed.repartition("key").withColumn("copy", F.row_number().over(same_record))
    record_id = F.concat(F.lit(f"{sender}/"), "row", F.lit("-"), F.col("copy").cast("string"))
    headers = F.concat(F.array(_header(ID_HEADER, record_id)), "extra_headers")
    ordered = numbered.sortWithinPartitions("key", "order", "row", "copy")
    return ordered.select("key", "value", headers.alias("headers"))


class KafkaTarget:
    """Base class of sinks of a topic: the topic, and how to reach it."""

    bootstrap_servers: str
    topic: str
    options: Mapping[str, str]

    def _require_valid_target(self) -> None:
        """Refuse invalid names, and options that the library sets or Spark does not pass on."""
        require_bootstrap_servers(self.bootstrap_servers)
        require_instance(self.topic, "topic", str, 'topic="clicks"')
        parse_topic_names(self.topic)
        for name in self.options:
            if name.lower() in _RESERVED_OPTIONS:
                raise ArgumentError(
                    f"invalid options: {name!r} is set by the sink",
                    "other producer settings; servers are an argument, acks and idempotence fixed",
                )
            if not name.lower().startswith("kafka."):
                raise ArgumentError(
                    f"invalid options: {name!r}",
                    "settings of Kafka's producer with the prefix kafka.",
                    f"'kafka.{name}'",
                )

    def check_topic(self, spark: SparkSession) -> None:
        """Raise TopicError for a missing topic, which a broker might create with its defaults."""
        try:
            with KafkaClient(spark, self.bootstrap_servers, self.options) as client:
                topics = client.topic_states([self.topic])
        except OSError as error:
            raise TopicError(
                f"broker of topic {self.topic} unavailable: {self.bootstrap_servers}",
                str(error),
                "check bootstrap_servers and the options of the Kafka client.",
            ) from error
        if self.topic not in topics:
            raise TopicError(
                f"topic not found: {self.topic} at {self.bootstrap_servers}",
                "the sink does not create topics: choose partitions and retention.",
                f"tidegate topics --servers {self.bootstrap_servers} --create {self.topic}:4",
            )

    def _send_records(self, records: DataFrame) -> int:
        """Send records, acknowledged by all in-sync replicas; return their number."""
        persisted = records.persist()
        options = {
            **self.options,
            **_REQUIRED_OPTIONS,
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "topic": self.topic,
        }
        try:
            count = persisted.count()
            if count:
                persisted.write.format("kafka").options(**options).save()
            return count
        except Exception as error:
            translated = _translate_error(error, persisted, self.topic)
            if translated is None:
                raise
            raise translated from error
        finally:
            persisted.unpersist()


def _translate_error(error: Exception, records: DataFrame, topic: str) -> TidegateError | None:
    """Return the library's error for an error of Spark, or None if sending did not cause it."""
    text = error_text(error)
    null_key = re.search(rf"{_NULL_KEY}: column (\S+)", text)
    if null_key is not None:
        return ColumnError(
            f"null key: column {null_key[1]} is null in a row of the batch; nothing was sent",
            "a key in each row, which identifies copies and tombstones",
            "filter such rows in the transform, or use several columns as key",
        )
    if any(name in text for name in _TOO_LARGE_ERRORS):
        return _too_large_error(records, topic)
    kafka_error = _KAFKA_ERROR.search(text)
    if kafka_error is None:
        return None
    return TopicError(
        f"failed to send a batch to topic {topic}",
        f"{kafka_error[1]}: {kafka_error[2]}",
        "repair the broker or the topic and restart the job; it sends the batch with the same ids.",
    )


def _too_large_error(records: DataFrame, topic: str) -> TopicError:
    key_size, value_size = (F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value"))
    sizes = records.select("key", (key_size + value_size).alias("size"))
    largest = sizes.orderBy(F.desc("size")).head()
    key, size = (b"", 0) if largest is None else (bytes(largest["key"] or b""), largest["size"])
    return TopicError(
        f"record too large for topic {topic}: key and value of the record with the key "
        f"{key[:_MAX_KEY_SHOWN].decode(errors='replace')!r} have {size:,} bytes",
        "the producer's kafka.max.request.size or the topic's max.message.bytes is exceeded; both "
        "are 1 MiB by default.",
        "reduce the value in the transform, or raise both settings.",
    )


@dataclass(frozen=True)
class DeadLetterTopic(KafkaTarget):
    """Send each batch's dead letters to a Kafka topic before the table commits them, at least once.

    A record has the key and the value that could not be read; the value is truncated as in the
    table. A record without a key gets its position topic/partition/offset as the key. Headers:
    `tidegate-id` (see `KafkaSink`), `tidegate-topic`, `-partition`, `-offset`, `-stage`, `-reason`
    and `-value-bytes`, the full length of the value, followed by the headers of the original record
    except those that begin with `tidegate-`.

    A batch that the table contains is not sent again. A failure between sending and commit, or a
    task retry, sends letters twice with the same id; `IdempotentReceiver` removes the copies.

    Args:
        bootstrap_servers, options: as for `KafkaSink`.
        topic: the topic; it must exist, and the job must not read it.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        TopicError: if the topic does not exist or rejects a record, or a record is too large.

    >>> DeadLetterTopic("localhost:9092", topic="clicks.dead").topic
    'clicks.dead'
    """

    bootstrap_servers: str
    _: KW_ONLY
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._require_valid_target()

    def send(self, letters: DataFrame, sender: str) -> None:
        """Send letters; `sender`, job/query/output/batch, is the prefix of their ids."""
        self.check_topic(letters.sparkSession)
        self._send_records(self.records(letters, sender))

    def records(self, letters: DataFrame, sender: str) -> DataFrame:
        """Return the letters as records: key, value and headers."""
        position = [quoted_column(name).cast("string") for name in _HEADER_COLUMNS[:3]]
        # A row that the sink rejected has no position.
        log_position = F.when(F.col("topic").isNull(), F.sha2("value", 256)).otherwise(
            F.concat_ws("/", *position)
        )
        row_hash = F.substring(F.sha2(log_position, 256), 1, _HASH_DIGITS)
        # The key is the same when a letter is sent again, so copies are in the same partition.
        key = F.coalesce("key", log_position.cast("binary"))
        record_id = F.concat(F.lit(f"{sender}/"), row_hash, F.lit("-1"))
        headers = [_header(ID_HEADER, record_id)]
        headers += [
            _header(_HEADER_PREFIX + name.replace("_", "-"), quoted_column(name))
            for name in _HEADER_COLUMNS
        ]
        # A record that was a dead letter before has such headers already.
        prefix = F.lit(_HEADER_PREFIX)
        record_headers = F.filter("headers", lambda each: ~F.startswith(each["key"], prefix))
        other_headers = F.coalesce(record_headers, F.array()).cast(_HEADERS_TYPE)
        all_headers = F.concat(F.array(*headers), other_headers)
        return letters.select(key.alias("key"), "value", all_headers.alias("headers"))


@dataclass(frozen=True)
class KafkaSink(SendingSink, KafkaTarget):
    """Send each batch's rows to a Kafka topic, at least once, and record batches in a table.

    The table at `path` has one row (topic, batch, rows) per batch that the topic contains
    completely; such a batch is never sent again. A batch that fails in between is sent again
    completely, and a task that Spark retries sends its rows again, so the topic may contain copies.

    Each record has the header `tidegate-id`: job/query/output/batch/row, where row is a hash of key
    and value, and a number that distinguishes equal records of a batch. A record and its copy have
    the same id, in whatever order Spark sends them. `IdempotentReceiver` removes copies, and so can
    any consumer that stores the ids of the newest batch by partition. Requirement: a batch that
    runs again has the same rows. If values vary in the last digits, such as sums of doubles, name
    in `id_columns` the columns that identify rows. After a change of the job, a batch that failed
    before may have different rows.

    A batch is sent only after the topic contains the complete previous batch. Copies are in the
    same partition as their record, unless partitions are added in between.

    Args:
        path: path of the table that records the batches.
        bootstrap_servers: the brokers as host:port, separated by commas.
        topic: the topic; it must exist.
        key: the columns of the key. A single column is written as text, binary unchanged; several
            columns are written as a JSON object. A row whose single key column is null is a dead
            letter.
        deleted: a boolean column that is not sent; if it is true the value is null, a tombstone.
        headers: columns that are sent as headers, as text, and not in the value.
        order: columns that order the rows of a key within a batch; by default their order is
            arbitrary but reproducible.
        id_columns: columns that identify rows of a key within a batch; by default the complete
            record.
        value: function that returns the value from the names of all columns except `deleted` and
            `headers`; JSON by default, with times in UTC to the microsecond and null fields.
        output: name of the commits in the application id.
        options: `kafka.*` settings of the producer; a repr does not show their values. acks=all and
            idempotence are fixed.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        ColumnError: for a batch without the columns, or with a null key.
        TopicError: if the topic does not exist or rejects a record, or a record is too large.
        TableMismatchError, ConflictError: as for `Append`.

    >>> brokers = "localhost:9092"
    >>> KafkaSink("/data/sent", bootstrap_servers=brokers, topic="totals", key="page").tables()
    [('/data/sent', 'publish')]
    """

    plan_name: ClassVar[str] = "kafka_sink"
    destination: ClassVar[str] = "a topic"

    path: str
    _: KW_ONLY
    bootstrap_servers: str
    topic: str
    key: str | Sequence[str]
    deleted: str | None = None
    headers: Sequence[str] = ()
    order: Sequence[str] = ()
    id_columns: Sequence[str] = ()
    value: Callable[[Sequence[str]], Column] | None = None
    output: str = "publish"
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_target(self.path, self.output)
        self._require_valid_target()
        if not require_column_names(self.key, "key"):
            raise ArgumentError(f"invalid key: {self.key!r}", "at least one column", 'key="page"')
        for argument in ("headers", "order", "id_columns"):
            columns = getattr(self, argument)
            if isinstance(columns, str):
                raise ColumnTypeError(f"invalid {argument}: {columns!r}", "a list of columns")
            require_column_names(columns, argument)
        if self.value is not None and not callable(self.value):
            raise ColumnTypeError(
                f"invalid value: {self.value!r}", "a function of column names, or None"
            )

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why a row cannot be sent: its only key column is null."""
        keys = require_column_names(self.key, "key")
        return first_reason(null_faults(rows, keys, "key column") if len(keys) == 1 else [])

    def send(self, rows: DataFrame, batch: CommitContext) -> int:
        """Send the rows to the topic; return their number."""
        self.check_topic(rows.sparkSession)
        return self._send_records(self.records(rows, batch))

    def progress_row(self, batch: CommitContext, sent: int) -> tuple[tuple[object, ...], str]:
        """Return the row that records a sent batch, and the schema of the table."""
        return (self.topic, batch.plan.number, sent), SENT_SCHEMA

    def records(self, frame: DataFrame, batch: CommitContext) -> DataFrame:
        """Return the records of a batch in the order of sending: key, value and headers."""
        keys = require_column_names(self.key, "key")
        excluded = [*([self.deleted] if self.deleted else []), *self.headers]
        require_columns(
            frame,
            [*keys, *excluded, *self.order, *self.id_columns],
            "key, deleted, headers, order and id_columns",
        )
        value = (self.value or as_json)([name for name in frame.columns if name not in excluded])
        if self.deleted:
            value = F.when(~deletion_flag(frame, self.deleted), value)
        extra_headers = [_header(name, quoted_column(name)) for name in self.headers]
        row_identity = as_json(self.id_columns) if self.id_columns else F.lit(None)
        prepared = frame.select(
            _as_key(frame, keys).alias("key"),
            value.cast("binary").alias("value"),
            F.struct(F.lit(0), *map(quoted_column, self.order)).alias("order"),
            row_identity.alias("identity"),
            F.array(*extra_headers).cast(_HEADERS_TYPE).alias("extra_headers"),
        )
        return _with_record_ids(prepared, f"{batch.plan.app_id(self.output)}/{batch.plan.number}")
