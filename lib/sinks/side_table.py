"""Rows that did not get into the target: dead letters and late rows, each kind in its own table."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame, SparkSession

from ..commit import table
from ..commit.batch import Batch
from ..commit.counted import require_counted
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..jvm import delta_state
from ._targets import require_target
from .dead_topic import DeadTopic


@dataclass(frozen=True)
class SideTable:
    """Append a batch's side output, exactly once, and exactly as many rows as were counted.

    step: tells a job's writes apart: "dead", "late", or "late" and an input's name.
    also: a topic that dead letters are sent to before the table has them.

    Columns that a later version adds are let in.

    Raises:
        AccountingError: before the commit, where there are not `expected` rows: the range reads
            differently than it did in the stream, or Spark ran part of the stream twice.
        ReplayMismatchError, ConflictError: as for `Append`.

    >>> SideTable("/data/late_clicks", step="late").path
    '/data/late_clicks'
    """

    path: str
    _: KW_ONLY
    step: str = "dead"
    layout: Layout = ANY
    also: DeadTopic | None = None

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)

    def require_fits(self, frame: DataFrame) -> None:
        """Refuse rows that lack a column of the table or have one of another type.

        Raises TableError.
        """
        remedy = (
            f"the schema as it was; or move the table's folder away and start with --recreate "
            f"{self.step}, which begins an empty table."
        )
        table.existing(frame, self.path, self.layout, evolve=True, remedy=remedy)

    def is_made_apart(self, spark: SparkSession) -> bool:
        """Return whether the table is yet to be made, by a commit of its own before its rows."""
        return self.layout.is_made_apart(delta_state(spark, self.path))

    def write(self, frame: DataFrame, batch: Batch, *, expected: int | None = None) -> Outcome:
        """Append the rows, or skip them when the table already has this batch."""
        sent: list[str] = []

        def commit(options: CommitOptions) -> None:
            self.require_fits(frame)
            if self.also is None:
                table.append(frame, self.path, options, self.layout, evolve=True)
                return
            # The rows are read to be counted, to be sent and to be written.
            kept = frame.persist()
            try:
                # After a conflict on the table the rows were sent already.
                if not sent:
                    sent.append(self._sent(kept, self.also, batch, expected))
                table.append(kept, self.path, options, self.layout, evolve=True)
            finally:
                kept.unpersist()

        spark = frame.sparkSession
        rows: dict[str, int] = {} if expected is None else {self.step: expected}
        return commit_once(spark, self.path, batch, self.step, commit, rows, adds=expected)

    def _sent(self, rows: DataFrame, to: DeadTopic, batch: Batch, expected: int | None) -> str:
        """Send the rows to a topic; return the sender, by which they are told there."""
        if expected is not None:
            # What has been sent cannot be taken back at the commit.
            require_counted(
                rows.count(),
                counted=expected,
                step=self.step,
                batch=batch.number,
                path=self.path,
            )
        sender = f"{batch.job}/{batch.query_id}/{self.step}/{batch.number}"
        to.send(rows, sender)
        return sender
