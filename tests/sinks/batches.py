"""Batches and tables for the sinks' tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import Column, Row, SparkSession

from tidegate.commit import Batch
from tidegate.commit.batch import EPOCH

IDS = "spark.databricks.delta.write.txnAppId"
NUMBER = "spark.databricks.delta.write.txnVersion"
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


def settings_left(spark: SparkSession) -> list[str]:
    return [key for key in (IDS, NUMBER, METADATA) if spark.conf.get(key, None) is not None]
