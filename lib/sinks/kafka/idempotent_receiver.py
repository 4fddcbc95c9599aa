"""Remove the copies from a topic that a KafkaSink wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...columns import quoted_column, require_column_names, require_columns, same_key
from ...commit.batch import CommitContext
from ...commit.delta_commit import commit_once, last_batch
from ...commit.protocol import Outcome
from ...delta.commit_options import CommitOptions
from ...delta.delta_table import overwrite, read_table
from ...errors import ArgumentError, TableMismatchError
from ...input_frames import ROWS, only_frame
from ..base import Sink, WrappingSink, require_sink, require_target
from .kafka_sink import ID_HEADER

SEEN_OUTPUT = "seen"
_SENDER_COLUMNS = ("__tidegate_topic", "__tidegate_partition", "__tidegate_sender")
_BATCH = "__tidegate_batch"
_ROW = "__tidegate_row"
_LATEST = "__tidegate_latest"
_COPY_NUMBER = "__tidegate_copy"
_ID_COLUMNS = (*_SENDER_COLUMNS, _BATCH, _ROW)
_STORED_COLUMNS = ("topic", "partition", "sender", "batch", "row")
_ID_PATTERN = r"^(.+)/(\d+)/([0-9a-f]+-\d+)$"


@dataclass(frozen=True, kw_only=True)
class IdempotentReceiver(WrappingSink):
    """Drop duplicates of records that a `KafkaSink` sent, and write the others to `sink`.

    The header `tidegate-id` identifies copies. A sender starts a batch only after the topic
    contains the complete previous batch. Therefore, in each partition, a record of an older batch
    than the sender's newest is a copy, and within the newest batch the stored ids identify copies.
    Records without the header are passed on.

    State: the table `seen_ids` with the ids of each sender's newest batch by partition: at most one
    batch per sender. Each batch that contains such records rewrites it, after the tables of `sink`,
    so that a batch that runs again finds the same ids. The last batch of a retired sender remains.

    The input needs the columns topic, partition, offset and headers of its records:
    `Input(..., kafka_columns=["topic", "partition", "offset", "headers"])`. `headers` is dropped.
    The transform of the job processes copies, so use none, or one that works row by row.

    Args:
        sink: writes the records.
        seen_ids: path of the table of ids.
        log_position: the columns of topic, partition and offset.
        headers: the column of the headers.

    Raises:
        ArgumentError: at construction.
        ColumnError: for a batch without these columns.
        TableMismatchError: for a batch, if `seen_ids` and the target are at different batches.
        TidegateError: as the sink raises.

    >>> from tidegate.sinks import Append
    >>> receiver = IdempotentReceiver(sink=Append("/data/totals"), seen_ids="/data/totals.seen")
    >>> receiver.tables()
    [('/data/totals', 'append'), ('/data/totals.seen', 'seen')]
    """

    plan_name: ClassVar[str] = "idempotent_receiver"
    sink: Sink
    seen_ids: str
    log_position: Sequence[str] = ("topic", "partition", "offset")
    headers: str = "headers"

    def __post_init__(self) -> None:
        require_sink(self.sink)
        require_target(self.seen_ids, SEEN_OUTPUT)
        if len(require_column_names(self.log_position, "log_position")) != 3:
            raise ArgumentError(
                f"invalid log_position: {self.log_position!r}",
                "the columns of topic, partition and offset",
            )
        require_column_names(self.headers, "headers")
        if any(path.rstrip("/") == self.seen_ids.rstrip("/") for path, _ in self.sink.tables()):
            raise ArgumentError(
                f"invalid seen_ids: {self.seen_ids!r}", "a table that the sink does not write"
            )

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of the sink and the table of ids."""
        return [*self.sink.tables(), (self.seen_ids, SEEN_OUTPUT)]

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the inner sink cannot store a row, by the columns that the row has."""
        return self.sink.rejection(rows)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the records that are not copies, then store the newest ids."""
        frame = only_frame(frames)
        require_columns(frame, [*self.log_position, self.headers], "log_position and headers")
        spark = frame.sparkSession
        records = self._with_id_parts(frame).persist()
        try:
            seen_ids = read_table(spark, self.seen_ids)
            if seen_ids is not None:
                seen_ids = seen_ids.select(*_STORED_COLUMNS).toDF(*_ID_COLUMNS)
            if not self._is_committed(spark, batch):
                self._require_same_batches(spark, batch)
            new_records = drop_repeats(records, seen_ids, self.log_position[2]).drop(
                *_ID_COLUMNS, self.headers
            )
            outcome = self.sink.write({ROWS: new_records}, batch)

            def commit(options: CommitOptions) -> None:
                latest_ids = latest_batch_ids(records, seen_ids).toDF(*_STORED_COLUMNS)
                overwrite(latest_ids, self.seen_ids, options)

            commit_once(spark, self.seen_ids, batch, SEEN_OUTPUT, commit, {})
            return outcome
        finally:
            records.unpersist()

    def _with_id_parts(self, frame: DataFrame) -> DataFrame:
        """Add the parts of the record's id as columns; null if a record has no id."""
        ids = F.filter(quoted_column(self.headers), lambda header: header["key"] == ID_HEADER)
        record_id = F.get(ids, F.lit(0))["value"].cast("string")

        def id_part(number: int) -> Column:
            return F.nullif(F.regexp_extract(record_id, _ID_PATTERN, number), F.lit(""))

        partition = map(quoted_column, self.log_position[:2])
        parts = [*partition, id_part(1), id_part(2).cast("bigint"), id_part(3)]
        return frame.withColumns(dict(zip(_ID_COLUMNS, parts, strict=True)))

    def _require_same_batches(self, spark: SparkSession, batch: CommitContext) -> None:
        """Refuse a table of ids that is not at the same batch as the target."""
        sink_batch = last_batch(spark, self.path, batch, self.output)
        seen_batch = last_batch(spark, self.seen_ids, batch, SEEN_OUTPUT)
        if seen_batch != sink_batch:
            raise TableMismatchError(
                f"tables differ: {self.seen_ids} is at batch {seen_batch} of this query, "
                f"{self.path} at batch {sink_batch}; nothing was written.",
                "one of the tables was restored or written by another query.",
                "restore both tables from the same backup.",
            )


def drop_repeats(records: DataFrame, seen_ids: DataFrame | None, offset: str) -> DataFrame:
    """Return the rows that are neither copies of another row nor of a stored id."""
    has_id = quoted_column(_ROW).isNotNull()
    by_id = Window.partitionBy(*_ID_COLUMNS).orderBy(quoted_column(offset))
    numbered = records.where(has_id).withColumn(_COPY_NUMBER, F.row_number().over(by_id))
    new_records = numbered.where(quoted_column(_COPY_NUMBER) == 1).drop(_COPY_NUMBER)
    if seen_ids is not None:
        latest_batches = seen_ids.groupBy(*_SENDER_COLUMNS).agg(F.max(_BATCH).alias(_BATCH))
        is_older = F.col(f"new.{_BATCH}") < F.col(f"old.{_BATCH}")
        for old, is_copy in (
            (latest_batches, same_key(_SENDER_COLUMNS) & is_older),
            (seen_ids, same_key(_ID_COLUMNS)),
        ):
            new_records = new_records.alias("new").join(old.alias("old"), is_copy, "left_anti")
    return new_records.unionByName(records.where(~has_id))


def latest_batch_ids(records: DataFrame, seen_ids: DataFrame | None) -> DataFrame:
    """Return the ids of each sender's newest batch by partition."""
    ids = records.where(quoted_column(_ROW).isNotNull()).select(*_ID_COLUMNS)
    all_ids = (ids if seen_ids is None else ids.unionByName(seen_ids)).distinct()
    latest_batch = F.max(_BATCH).over(Window.partitionBy(*_SENDER_COLUMNS))
    with_latest = all_ids.withColumn(_LATEST, latest_batch)
    return with_latest.where(quoted_column(_LATEST) == quoted_column(_BATCH)).drop(_LATEST)
