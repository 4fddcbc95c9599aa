"""Batches and tables for the sinks' tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import Column, Row, SparkSession

from tidegate.commit import Batch
from tidegate.commit.batch import EPOCH

METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def batch(number: int, plan: str = "plan", **others: Any) -> Batch:
    known: dict[str, Any] = {
        "start": {"t": {0: 0}},
        "end": {"t": {0: 9}},
        "watermark": EPOCH,
    } | others
    return Batch(
        job="j", query_id="q", run_id="r", number=number, offsets_hash=f"{plan}-{number}", **known
    )


def rows(spark: SparkSession, path: str, *order: str | Column) -> list[Row]:
    table = spark.read.format("delta").load(path)
    return (table.orderBy(*order) if order else table).collect()


def commits(path: str) -> list[dict[str, Any]]:
    """Read each commit's information from the table's log itself."""
    found = []
    for file in sorted((Path(path) / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found += [line["commitInfo"] for line in lines if "commitInfo" in line]
    return found


def by_another(write: Callable[[], object]) -> None:
    """Let another writer, which is another thread here, write to the end."""
    thread = Thread(target=write)
    thread.start()
    thread.join()


def settings_left(spark: SparkSession) -> list[str]:
    return [METADATA] if spark.conf.get(METADATA, None) is not None else []
