"""Which late rows `replay_late` has merged, where their table's earlier versions are removed."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from ...commit.kept import REPLAY
from ...commit.once import untouched
from ...errors import CheckpointError
from ...jvm import delta_state
from ..query.late_rows import gained
from .claims import query_of


def merged_until(spark: SparkSession, path: str, tables: Iterable[str]) -> int | None:
    """Return the version up to which a table's late rows are merged; None for any other table.

    tables: those in which the replays of late rows are looked for. Without one there, it is the
    version that the table has.

    Raises:
        CheckpointError: for late rows that are not merged yet, in a job that merges them.
    """
    log = untouched(spark, path)
    jobs = {_job(each) for each in log.writers() if each.rpartition("/")[2].startswith("late")}
    if not jobs:
        return None
    done = [
        number
        for table in tables
        for app_id in untouched(spark, table).writers()
        if query_of(app_id) == REPLAY and _job(app_id) in jobs
        if (number := delta_state(spark, table).transaction(app_id)) is not None
    ]
    if not done:
        return log.version
    if gained(spark, path, min(done), log.version).isEmpty():
        return min(done)
    raise CheckpointError(
        f"{path} has late rows that replay_late has not merged yet: which ones, its earlier "
        "versions tell.",
        "late rows that are merged, in a job that merges them.",
        "the job with --replay-late, and this again.",
    )


def _job(app_id: str) -> str:
    return app_id.rpartition("/")[0].rpartition("/")[0]
