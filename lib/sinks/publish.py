"""Rows into a Kafka topic, at least once, each with a key by which a copy is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit.batch import Batch
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnTypeError
from ..frames import sole
from ..sources._kafka_options import require_servers, topic_names
from ._records import as_headers, as_json, as_key, numbered
from ._sending import require_producer_options, require_topic, send
from ._targets import require_target
from ._told import told_once

SENT = "topic STRING, batch BIGINT, rows BIGINT"


@dataclass(frozen=True)
class Publish:
    """Send each batch's rows to a Kafka topic, at least once, and note the batch in a Delta table.

    The table at `path` has one row (topic, batch, rows) for each batch that the topic has as a
    whole. A batch that it has is never sent again. A batch that was cut short by a crash is sent
    again whole, and a task that Spark runs again sends its rows again: the topic may then hold
    some records twice.

    Each record has the header `tidegate-id`: job/query/step/batch/row. Row is a hash of its key and
    value, with a number where a batch has the same record several times, so that a record
    and its copy bear the same id, in whatever order Spark sends them. `Once` drops the copies; so
    can any reader that keeps, by partition, the ids of the newest batch. For this the rows of a
    batch must be the same each time that it runs. Where values are not the same to the last
    digit, such as sums of doubles, name in `identity` the columns that tell rows of a batch apart.
    A job that is changed before it has run such a batch again makes other rows of it.

    The next batch is sent only when the one before is in the topic as a whole. Copies are in the
    partition of the record that they are copies of, unless partitions were added between the two.

    Args:
        path: the table of what was sent.
        servers: the brokers, as host:port with commas between.
        topic: the topic, which must exist; the sink makes none.
        key: the columns of the record's key. One column is written as its text, bytes as they are,
            several as a JSON object. A row whose one key column is null is refused.
        deleted: a boolean column that is not sent: where it is true the value is null, a tombstone.
        headers: columns that are sent as the record's headers, as text, and not in its value.
        order: columns by which the rows that a batch has of one key are sent in order; without any
            their order is none in particular, but the same each time.
        identity: columns that tell rows of one key in one batch apart; by default the whole record.
        value: makes the value out of the names of all columns but `deleted` and `headers`; JSON by
            default, with times in UTC to the microsecond, and null fields written out.
        step: tells a job's writes apart.
        options: `kafka.*` settings of the producer, whose values never show in a repr. Ours are
            acks=all and idempotence, and cannot be changed.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        ColumnError: for a batch without the columns, or with a null key.
        TopicError: for a topic that is not there or takes no record, and a record too large.
        ReplayMismatchError, ConflictError: as for `Append`.

    >>> Publish("/data/totals.sent", servers="localhost:9092", topic="totals", key="page").tables()
    [('/data/totals.sent', 'publish')]
    """

    sends: ClassVar[str] = "a topic"

    path: str
    _: KW_ONLY
    servers: str
    topic: str
    key: str | Sequence[str]
    deleted: str | None = None
    headers: Sequence[str] = ()
    order: Sequence[str] = ()
    identity: Sequence[str] = ()
    value: Callable[[Sequence[str]], Column] | None = None
    step: str = "publish"
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_target(self.path, self.step)
        require_servers(self.servers)
        if not isinstance(self.topic, str):
            raise ColumnTypeError(f"topic is {self.topic!r}.", "the name of one topic.")
        topic_names(self.topic)
        if not names(self.key, "key"):
            raise ArgumentError("key names no column.", "one column or more.", 'key="page"')
        for what in ("headers", "order", "identity"):
            if isinstance(getattr(self, what), str):
                raise ColumnTypeError(f"{what} is {getattr(self, what)!r}.", "a list of columns.")
            names(getattr(self, what), what)
        if self.value is not None and not callable(self.value):
            raise ColumnTypeError(
                f"value is {self.value!r}.", "a function of the columns' names, or None."
            )
        require_producer_options(self.options)

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table, of what was sent."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Send the rows, or none of them when the table already has this batch."""
        frame = sole(frames)
        spark = frame.sparkSession

        def sent() -> int:
            require_topic(spark, self.servers, self.topic, self.options)
            return send(self.records(frame, batch), self)

        def note(rows: int) -> DataFrame:
            return spark.createDataFrame([(self.topic, batch.number, rows)], SENT)

        return told_once(spark, (self.path, self.step), batch, sent, note, rows_out)

    def records(self, frame: DataFrame, batch: Batch) -> DataFrame:
        """Return what is sent for the rows of a batch: key, value, headers, in their order."""
        keys = names(self.key, "key")
        require(
            frame,
            [*keys, *self._beside_value, *self.order, *self.identity],
            "key, deleted and the like",
        )
        if self.deleted and frame.schema[self.deleted].dataType.simpleString() != "boolean":
            raise ColumnTypeError(f"{self.deleted} is no boolean.", "a boolean column as deleted.")
        identity = as_json(self.identity) if self.identity else F.lit(None)
        made = frame.select(
            as_key(frame, keys).alias("key"),
            self._value(frame).cast("binary").alias("value"),
            F.struct(F.lit(0), *map(quoted, self.order)).alias("at"),
            identity.alias("told_by"),
            as_headers(self.headers).alias("also"),
        )
        return numbered(made, f"{batch.job}/{batch.query_id}/{self.step}/{batch.number}")

    @property
    def _beside_value(self) -> list[str]:
        """The columns that a record has beside its value: the mark of a deleted row, headers."""
        deleted = [self.deleted] if self.deleted else []
        return [*deleted, *self.headers]

    def _value(self, frame: DataFrame) -> Column:
        """Return a record's value: the other columns, or null for a deleted row, a tombstone."""
        encode = self.value or as_json
        beside = self._beside_value
        value = encode([name for name in frame.columns if name not in beside])
        if not self.deleted:
            return value
        is_deleted = F.coalesce(quoted(self.deleted), F.lit(False))
        return F.when(~is_deleted, value)
