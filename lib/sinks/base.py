"""Base classes of sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from ..columns import quoted_column, require_instance
from ..commit.batch import BatchPlan, CommitContext
from ..commit.delta_commit import commit_once, last_batch
from ..commit.protocol import Outcome
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..errors import ArgumentError, ColumnTypeError
from ..input_frames import only_frame


@dataclass(frozen=True)
class AcceptedRows:
    """The rows of a batch that a sink accepts, by the names of the frames, and the others.

    rejections: rows with their reasons; rows without a reason are not rejected.
    rejected_records: records with their reasons, as rows with the columns topic, partition, offset,
        timestamp, key and value, from a sink that decodes records itself.
    deferred_rows: the number of rows that the sink will write with a later batch, less the number
        of those of earlier batches that it writes with this one.
    """

    frames: Mapping[str, DataFrame]
    rejections: Sequence[tuple[DataFrame, Column]] = ()
    rejected_records: Sequence[tuple[DataFrame, Column]] = ()
    deferred_rows: int = 0

    def write(self, sink: Sink, batch: CommitContext, rows_out: int | None) -> Outcome:
        """Write the accepted rows; a sink can return rows that it writes in another way."""
        return sink.write(self.frames, batch, rows_out=rows_out)


class Sink(ABC):
    """Base class of all sinks: one or more Delta tables that store each batch exactly once.

    A subclass sets `path` and `output` and implements `write`, usually by
    `tidegate.commit.delta_commit.commit_once`. Every other method has a default.

    >>> from dataclasses import dataclass
    >>> from tidegate.sinks import Append, Sink
    >>> @dataclass(frozen=True)
    ... class LoggingSink(Sink):
    ...     path: str
    ...     output: str = "append"
    ...
    ...     def write(self, frames, batch, *, rows_out=None):
    ...         print("batch", batch.plan.number)
    ...         return Append(self.path, output=self.output).write(frames, batch)
    >>> LoggingSink("/data/clicks").tables()
    [('/data/clicks', 'append')]
    """

    path: str
    """Path of the target, the table that the job is for."""

    output: str
    """Name of the target in the application id of its commits; unique within a job."""

    external: ClassVar[bool] = False
    """Whether rows leave the Delta tables, so that a replay would send them again."""

    destination: ClassVar[str] = "an external system"
    """What receives the rows of an external sink, for messages."""

    fills_unavailable: ClassVar[bool] = False
    """Whether a change with values that were not sent gets those of the stored row of its key."""

    reads_changes: ClassVar[bool] = False
    """Whether the rows must be changes, as `debezium_format` and `maxwell_format` return them."""

    compacts_itself: ClassVar[bool] = False
    """Whether `compact` replaces Delta's OPTIMIZE for the tables of this sink."""

    @property
    def inner_sinks(self) -> Sequence[Sink]:
        """The sinks that this sink passes rows to."""
        return ()

    @property
    def reads_once(self) -> bool:
        """Whether `write` computes the rows only once, in its only commit; they are not cached."""
        return False

    @property
    def rebuildable_outputs(self) -> frozenset[str]:
        """Outputs whose missing table the sink rebuilds from its other tables.

        A job does not start if any other table is missing.
        """
        return frozenset()

    @property
    def repeatable_outputs(self) -> frozenset[str]:
        """Outputs whose rows can be applied again in another batch, without an effect.

        If the checkpoint is lost, a job can resume although these tables are ahead of the target.
        """
        return frozenset()

    @property
    def result_keys(self) -> Sequence[str] | None:
        """Columns that identify a result row in the target.

        Empty if each result is appended as a row; None if target rows are not results. Jobs with
        results as rows can be compared and replayed.
        """
        return None

    @property
    def adds_results(self) -> bool:
        """Whether a target row accumulates the results that have its key, instead of the last."""
        return False

    @property
    def supports_backfill(self) -> bool:
        """Whether a backfill batch and many small batches leave the same rows in the tables.

        Inner sinks and `result_keys` are checked separately.
        """
        return self.result_keys is not None

    def tables(self) -> list[tuple[str, str]]:
        """Return the path and the output of each table, in the order of writing."""
        return [(self.path, self.output)]

    def created_tables(self, spark: SparkSession) -> list[str]:
        """Return the paths of tables that batches have created, in addition to `tables`."""
        return []

    def check_schema(self, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
        """Check the columns of a batch against the tables, without reading or writing rows.

        A job calls this at its start, and before a batch writes its side outputs.

        Returns whether the schema was checked. The default checks nothing and does not call
        `frames`.

        Raises:
            ColumnError, TableError: if columns, types or the layout differ.
        """
        return False

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the sink cannot store a row, as text that is null for all other rows.

        A job writes rows with a reason to its dead letters, and the other rows to the sink. None,
        the default, if the sink can store every row of this schema.
        """
        return None

    def rejections(self, frames: Mapping[str, DataFrame]) -> dict[str, Column]:
        """Return why the sink cannot store a row, by the names of the frames that have such rows.

        The default is `rejection` of the only frame; a sink of several frames overrides this.
        """
        if len(frames) != 1:
            return {}
        ((name, rows),) = frames.items()
        reason = self.rejection(rows)
        return {} if reason is None else {name: reason}

    def accepted(
        self, frames: Mapping[str, DataFrame], plan: BatchPlan
    ) -> AbstractContextManager[AcceptedRows]:
        """Return the rows of a batch without those that the state of the tables does not accept.

        A job writes the others to its dead letters. The tables do not have the batch yet, or have
        it whole. By default all rows are accepted.
        """
        return nullcontext(AcceptedRows(frames))

    def compact(self, spark: SparkSession) -> None:  # noqa: B027
        """Compact the tables; by default Delta's OPTIMIZE does."""

    @abstractmethod
    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the rows of a batch, or skip the batch if the tables already contain it.

        frames: the result of the job's transform by the name "rows"; without a transform, the rows
            of each input by its name.
        batch: the batch, to pass on to `commit_once` or to another sink; `batch.plan` has its
            number and its watermarks.
        rows_out: the number of rows, if known.
        """

    def _is_committed(self, spark: SparkSession, batch: CommitContext) -> bool:
        """Return whether the target contains the batch or a later one."""
        last_number = last_batch(spark, self.path, batch, self.output)
        return last_number is not None and last_number >= batch.plan.number

    def _commit_once(
        self,
        spark: SparkSession,
        batch: CommitContext,
        write: Callable[[CommitOptions], None],
        rows_out: int | None,
    ) -> Outcome:
        """Make one commit to the target, unless it already contains the batch."""
        counts = {} if rows_out is None else {"out": rows_out}
        return commit_once(spark, self.path, batch, self.output, write, counts)


class TableSink(Sink):
    """Base class of sinks that write the only frame of a batch to one table, in one commit."""

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the rows, or skip the batch if the table already contains it."""
        frame = only_frame(frames)

        def commit(options: CommitOptions) -> None:
            self._write_rows(frame, batch, options)

        return self._commit_once(frame.sparkSession, batch, commit, rows_out)

    @abstractmethod
    def _write_rows(self, rows: DataFrame, batch: CommitContext, options: CommitOptions) -> None:
        """Write the rows of a batch in one commit; after a conflict it is called again."""


class WrappingSink(Sink):
    """Base class of sinks that pass rows to other sinks; the last inner sink writes the target.

    >>> from tidegate.sinks import Append, WrappingSink
    >>> class Distinct(WrappingSink):
    ...     def __init__(self, sink):
    ...         self.sink = sink
    ...
    ...     def write(self, frames, batch, *, rows_out=None):
    ...         return self.sink.write({"rows": frames["rows"].distinct()}, batch)
    >>> Distinct(Append("/data/clicks")).path
    '/data/clicks'
    """

    sink: Sink
    """The only inner sink, unless `inner_sinks` is overridden."""

    @property
    def inner_sinks(self) -> Sequence[Sink]:
        """The sinks that this sink passes rows to, in the order of writing."""
        return (self.sink,)

    @property
    def path(self) -> str:  # type: ignore[override]
        """Path of the target."""
        return self.inner_sinks[-1].path

    @property
    def output(self) -> str:  # type: ignore[override]
        """Output of the target."""
        return self.inner_sinks[-1].output

    @property
    def rebuildable_outputs(self) -> frozenset[str]:
        """The rebuildable outputs of all inner sinks."""
        return frozenset().union(*(sink.rebuildable_outputs for sink in self.inner_sinks))

    @property
    def repeatable_outputs(self) -> frozenset[str]:
        """The repeatable outputs of all inner sinks."""
        return frozenset().union(*(sink.repeatable_outputs for sink in self.inner_sinks))

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of all inner sinks."""
        return [each for sink in self.inner_sinks for each in sink.tables()]


class SendingSink(Sink):
    """Base class of sinks that send rows to an external system and record each batch in a table.

    A recorded batch is never sent again. A batch that fails between sending and recording is sent
    again after a restart, so a subclass must be idempotent or identify copies.

    >>> from tidegate.sinks import SendingSink
    >>> class Printer(SendingSink):
    ...     def __init__(self, path, output="printer"):
    ...         self.path, self.output = path, output
    ...
    ...     def send(self, rows, batch):
    ...         rows.show()
    ...         return rows.count()
    ...
    ...     def progress_row(self, batch, sent):
    ...         return (batch.plan.number, sent), "batch BIGINT, rows BIGINT"
    >>> Printer("/data/printed").external
    True
    """

    external: ClassVar[bool] = True

    @abstractmethod
    def send(self, rows: DataFrame, batch: CommitContext) -> int:
        """Send the rows of a batch; return their number."""

    @abstractmethod
    def progress_row(self, batch: CommitContext, sent: int) -> tuple[tuple[object, ...], str]:
        """Return the row that records a sent batch, and the schema of the table as DDL."""

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Send the rows and record the batch, or skip a batch that is already recorded."""
        frame = only_frame(frames)
        spark = frame.sparkSession
        sent_counts: list[int] = []

        def commit(options: CommitOptions) -> None:
            # A retry after a commit conflict must not send the rows again.
            if not sent_counts:
                # Sent rows cannot be recalled, so the side outputs must be written first.
                batch.wait_for_prior_commits()
                sent_counts.append(self.send(frame, batch))
            row, schema = self.progress_row(batch, sent_counts[0])
            table.append(spark.createDataFrame([row], schema), self.path, options)

        return self._commit_once(spark, batch, commit, rows_out)


def deletion_flag(frame: DataFrame, deleted: str) -> Column:
    """Return whether a row is deleted, by a boolean column; null is false.

    Raises ColumnTypeError for a column of another type.
    """
    if not isinstance(frame.schema[deleted].dataType, BooleanType):
        raise ColumnTypeError(f"invalid deleted: {deleted!r} is not boolean", "a boolean column")
    return F.coalesce(quoted_column(deleted), F.lit(False))


def require_distinct_paths(first: str, second: str, third: str) -> None:
    """Raise ArgumentError unless the paths are those of three tables."""
    if len({str(path).rstrip("/") for path in (first, second, third)}) < 3:
        raise ArgumentError(
            f"invalid paths: {first!r}, {second!r} and {third!r}", "three different tables"
        )


def require_sink(sink: object, label: str = "sink") -> None:
    """Raise ColumnTypeError unless the value is a sink."""
    require_instance(sink, label, Sink, f'{label}=Append("/tables/views")')


def require_target(
    path: object, output: object, layout: TableLayout = ANY_LAYOUT, rewriting_sink: object = None
) -> None:
    """Validate the path, the output and the layout of a table.

    rewriting_sink: the sink, if it changes stored rows; an append-only table is then invalid.

    Raises ArgumentError and ColumnTypeError.
    """
    for name, value, example in (("path", path, "/tables/views"), ("output", output, "append")):
        if not isinstance(value, str):
            raise ColumnTypeError(f"invalid {name}: {value!r}", "a string", f'{name}="{example}"')
        if not value.strip():
            raise ArgumentError(
                f"invalid {name}: {value!r}", "a string that is not empty", f'{name}="{example}"'
            )
    require_instance(layout, "layout", TableLayout, 'layout=TableLayout(partition_by=["date"])')
    if rewriting_sink is not None:
        layout.require_rewritable(type(rewriting_sink).__name__)
