"""The commit stamp and the replay check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from .batch import Batch
from .sink import Outcome


@dataclass(frozen=True)
class CommitOptions:
    """What a commit carries: application id, version, stamp."""

    app_id: str
    version: int
    user_metadata: str


def commit_once(
    spark: SparkSession,
    path: str,
    batch: Batch,
    step: str,
    write: Callable[[CommitOptions], None],
    rows: Mapping[str, int],
) -> Outcome:
    """Write once, or skip what was written."""
    raise NotImplementedError
