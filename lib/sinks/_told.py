"""Rows that are sent elsewhere, and a Delta table that notes each batch once it was sent whole."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from .append import counts


def told_once(
    spark: SparkSession,
    place: tuple[str, str],
    batch: Batch,
    send: Callable[[], int],
    note: Callable[[int], DataFrame],
    rows_out: int | None,
) -> Outcome:
    """Send a batch and note it; a batch that the table has is not sent again.

    place: the table's path, and the step. send: sends the rows, and gives how many there were.
    note: the table's rows for so many.
    """
    path, step = place
    sent: list[int] = []

    def commit(options: CommitOptions) -> None:
        # After a conflict on the table the rows were sent already.
        if not sent:
            # What has been sent cannot be held back until the side tables are written.
            if batch.ahead is not None:
                batch.ahead()
            sent.append(send())
        table.append(note(sent[0]), path, options)

    return commit_once(spark, path, batch, step, commit, counts(rows_out))
