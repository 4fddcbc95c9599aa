"""Records that `Publish` sent, each handed on once, whatever copies the topic holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import names, quoted, require, same_key
from ..commit.batch import Batch
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..commit.table import replacing
from ..errors import ArgumentError, ReplayMismatchError
from ..frames import ROWS, sole
from ..jvm import delta_state
from ._records import ID
from ._targets import require_target
from ._wrapping import Wrapping

SEEN = "seen"
_PLACE = ("__tidegate_topic", "__tidegate_partition", "__tidegate_sender")
_BATCH = "__tidegate_batch"
_ROW = "__tidegate_row"
_MARKS = (*_PLACE, _BATCH, _ROW)
_STORED = ("topic", "partition", "sender", "batch", "row")
_ID = r"^(.+)/(\d+)/([0-9a-f]+-\d+)$"


@dataclass(frozen=True, kw_only=True)
class Once(Wrapping):
    """Hand the records of a topic that `Publish` filled on to `sink`, without the copies.

    A copy is told by the header `tidegate-id`. A sender begins a batch only when the batch before
    is in the topic as a whole. So in each partition a record of a batch before the sender's newest
    is a copy, and of the newest batch the ids that were seen tell. Records without the header are
    handed on as they are.

    State: the table `seen`, with the ids of each sender's newest batch, by partition. It is no
    larger than one batch of each sender, and is written anew by each batch that has such records. A
    sender that is gone leaves its last batch there. The table is written after the sink's: a batch
    that runs again finds what it found before, until the sink has it.

    The rows need the topic, partition, offset and headers of their records; `headers` is not handed
    on: `Reading(..., keep=["topic", "partition", "offset", "headers"])`. The job's transform sees
    the copies, so this is for a job without one, or with one that works row by row.

    place: the columns of topic, partition and offset. headers: that of the headers.

    Raises:
        ArgumentError: at construction.
        ColumnError: for rows without these columns.
        ReplayMismatchError: for a batch where `seen` does not hold what the sink has.
        And what the sink raises.

    >>> from tidegate.sinks import Append
    >>> Once(sink=Append("/data/totals"), seen="/data/totals.seen").tables()
    [('/data/totals', 'append'), ('/data/totals.seen', 'seen')]
    """

    seen: str
    _: KW_ONLY
    place: Sequence[str] = ("topic", "partition", "offset")
    headers: str = "headers"

    def __post_init__(self) -> None:
        require_target(self.seen, SEEN)
        if len(names(self.place, "place")) != 3:
            raise ArgumentError(
                f"place is {self.place!r}.", "the columns of topic, partition and offset."
            )
        names(self.headers, "headers")
        if any(path.rstrip("/") == self.seen.rstrip("/") for path, _ in self.sink.tables()):
            raise ArgumentError(f"seen is {self.seen!r}, a table of the sink.", "its own table.")

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of the sink, and that of the ids."""
        return [*self.sink.tables(), (self.seen, SEEN)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the records that are no copies, and then remember the newest ids."""
        frame = sole(frames)
        require(frame, [*self.place, self.headers], "place and headers")
        spark = frame.sparkSession
        marked = self._marked(frame).persist()
        try:
            known = self._known(spark)
            if not self._has(spark, batch):
                self._require_whole(spark, batch)
            kept = unrepeated(marked, known, self.place[2]).drop(*_MARKS, self.headers)
            outcome = self.sink.write({ROWS: kept}, batch)
            self._remember(marked, known, batch)
            return outcome
        finally:
            marked.unpersist()

    def _marked(self, frame: DataFrame) -> DataFrame:
        """Return the rows with the parts of their ids; nulls where a record has none."""
        ids = F.filter(quoted(self.headers), lambda header: header["key"] == ID)
        told = F.get(ids, F.lit(0))["value"].cast("string")

        def part(number: int) -> Column:
            return F.nullif(F.regexp_extract(told, _ID, number), F.lit(""))

        topic, partition, _ = self.place
        parts = [quoted(topic), quoted(partition), part(1), part(2).cast("bigint"), part(3)]
        return frame.withColumns(dict(zip(_MARKS, parts, strict=True)))

    def _known(self, spark: SparkSession) -> DataFrame | None:
        if delta_state(spark, self.seen).version < 0:
            return None
        return spark.read.format("delta").load(self.seen).select(*_STORED).toDF(*_MARKS)

    def _has(self, spark: SparkSession, batch: Batch) -> bool:
        last = last_batch(spark, self.path, batch, self.step)
        return last is not None and last >= batch.number

    def _require_whole(self, spark: SparkSession, batch: Batch) -> None:
        """Refuse a table of ids that lacks what the sink has, or has more."""
        written = last_batch(spark, self.path, batch, self.step)
        seen = last_batch(spark, self.seen, batch, SEEN)
        if seen != written:
            raise ReplayMismatchError(
                f"{self.seen} has batch {seen} of this query, and {self.path} has batch {written}.",
                "two tables that hold the same batches.",
                "restore both from one copy; nothing was written.",
            )

    def _remember(self, marked: DataFrame, known: DataFrame | None, batch: Batch) -> None:
        def commit(options: CommitOptions) -> None:
            table = newest(marked, known).toDF(*_STORED)
            options.on(replacing(table.write.format("delta"))).save(self.seen)

        commit_once(marked.sparkSession, self.seen, batch, SEEN, commit, {})


def unrepeated(marked: DataFrame, known: DataFrame | None, offset: str) -> DataFrame:
    """Return the rows that are no copy of another one, or of one that is known."""
    told = quoted(_ROW).isNotNull()
    first = Window.partitionBy(*map(quoted, _MARKS)).orderBy(quoted(offset))
    alone = marked.where(told).withColumn("__tidegate_nth", F.row_number().over(first))
    fresh = alone.where(quoted("__tidegate_nth") == 1).drop("__tidegate_nth")
    if known is not None:
        last = known.groupBy(*map(quoted, _PLACE)).agg(F.max(_BATCH).alias(_BATCH))
        older = F.col(f"new.{_BATCH}") < F.col(f"old.{_BATCH}")
        there = same_key(_PLACE)
        fresh = fresh.alias("new").join(last.alias("old"), there & older, "left_anti")
        fresh = fresh.alias("new").join(known.alias("old"), same_key(_MARKS), "left_anti")
    return fresh.unionByName(marked.where(~told))


def newest(marked: DataFrame, known: DataFrame | None) -> DataFrame:
    """Return the ids of each sender's newest batch, by partition."""
    ids = marked.where(quoted(_ROW).isNotNull()).select(*map(quoted, _MARKS))
    whole = (ids if known is None else ids.unionByName(known)).distinct()
    last = F.max(_BATCH).over(Window.partitionBy(*map(quoted, _PLACE)))
    return whole.withColumn("last", last).where(quoted("last") == quoted(_BATCH)).drop("last")
