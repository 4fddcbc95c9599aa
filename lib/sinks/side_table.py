"""Tables of side outputs: dead letters, late rows and offset gaps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructType

from ..commit.batch import CommitContext
from ..commit.delta_commit import commit_once
from ..commit.protocol import Outcome, require_counted_rows
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..errors import ColumnError
from ..jvm import delta_state
from .base import require_target
from .kafka.kafka_sink import DeadLetterTopic

_SHARED_COLUMNS = StructType().add("topic", StringType()).add("partition", IntegerType())


def require_shared_columns(layout: TableLayout, fields: StructType | None = None) -> None:
    """Refuse a layout of side outputs by columns that not every side table has.

    fields: the fields of an input. A late row has these columns, so an input field `topic` replaces
        the topic of the record in that table.

    Raises ColumnError and ColumnTypeError.
    """
    shared = _SHARED_COLUMNS.fieldNames()
    for argument in ("partition_by", "cluster_by"):
        unknown = [name for name in getattr(layout, argument) if name not in shared]
        if unknown:
            raise ColumnError(
                f"invalid {argument}: {', '.join(unknown)}",
                f"{' and '.join(shared)}: the columns that all side outputs have",
                f'{argument}=["topic"]',
            )
    own_fields = {field.name.lower(): field for field in fields or ()}
    side_fields = [own_fields.get(each.name, each) for each in _SHARED_COLUMNS]
    layout.require_column_types(StructType(side_fields))


@dataclass(frozen=True)
class SideOutputTable:
    """Append a side output of each batch exactly once, and verify the number of rows.

    Batches may add columns.

    Args:
        path: path of the Delta table.
        output: name of the commits: "dead_letters", "late", or "late" and the name of an input.
        layout: partitioning, clustering and properties of the table.
        dead_letter_topic: a topic that dead letters are sent to before the table commits them.

    Raises:
        AccountingError: before the commit, if the number of rows is not `expected`: the source
            returned other records than it did to the stream, or Spark evaluated a part of the
            stream twice.
        TableMismatchError, ConflictError: as for `Append`.

    >>> SideOutputTable("/data/late_clicks", output="late").path
    '/data/late_clicks'
    """

    path: str
    _: KW_ONLY
    output: str = "dead_letters"
    layout: TableLayout = ANY_LAYOUT
    dead_letter_topic: DeadLetterTopic | None = None

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout)

    def check_schema(self, frame: DataFrame) -> None:
        """Refuse rows that lack a column of the table or have a different type.

        Raises TableError.
        """
        remedy = (
            f"the previous schema; or move the folder of the table and start with --recreate "
            f"{self.output}, which creates an empty table"
        )
        table.require_matching_schema(frame, self.path, self.layout, evolve=True, hint=remedy)

    def is_created_separately(self, spark: SparkSession) -> bool:
        """Return whether a commit without rows has to create the table first."""
        return self.layout.needs_separate_creation(delta_state(spark, self.path))

    def write(
        self, frame: DataFrame, batch: CommitContext, *, expected: int | None = None
    ) -> Outcome:
        """Append the rows, or skip the batch if the table already contains it."""
        senders: list[str] = []

        def commit(options: CommitOptions) -> None:
            self.check_schema(frame)
            if self.dead_letter_topic is None:
                table.append(frame, self.path, options, self.layout, evolve=True)
                return
            # Counting, sending and writing each evaluate the rows.
            persisted = frame.persist()
            try:
                # A retry after a commit conflict must not send the rows again.
                if not senders:
                    senders.append(self._send(persisted, self.dead_letter_topic, batch, expected))
                table.append(persisted, self.path, options, self.layout, evolve=True)
            finally:
                persisted.unpersist()

        spark = frame.sparkSession
        counts = {} if expected is None else {self.output: expected}
        return commit_once(
            spark, self.path, batch, self.output, commit, counts, expected_rows=expected
        )

    def _send(
        self, rows: DataFrame, topic: DeadLetterTopic, batch: CommitContext, expected: int | None
    ) -> str:
        """Send the rows to a topic; return the sender, the prefix of their ids."""
        if expected is not None:
            # Sent rows cannot be recalled if the count turns out wrong at the commit.
            require_counted_rows(
                rows.count(),
                counted=expected,
                output=self.output,
                batch=batch.plan.number,
                path=self.path,
            )
        sender = f"{batch.plan.app_id(self.output)}/{batch.plan.number}"
        topic.send(rows, sender)
        return sender
