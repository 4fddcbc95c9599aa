"""One micro-batch, as its checkpoint planned it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pyspark.sql import SparkSession

Offsets: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a micro-batch is, before it runs and again after a crash: the same bytes of the checkpoint."""

    job: str
    query_id: str
    run_id: str
    number: int
    offsets_hash: str
    start: Offsets
    end: Offsets
    watermark: datetime
    rows_in: int | None = None
    dead: int | None = None
    late: int | None = None


def planned(spark: SparkSession, checkpoint: str, *, job: str, query_id: str, run_id: str, number: int) -> Batch:
    """Read what the checkpoint planned for a batch."""
    raise NotImplementedError
