"""Batches and table helpers for tests of sinks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import Column, Row, SparkSession

from tidegate.commit.batch import UNIX_EPOCH, BatchPlan, BatchStats, CommitContext

METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def batch(number: int, plan: str = "plan", **options: Any) -> CommitContext:
    """Return a batch; the options are fields of its plan and of its counts."""
    known = {key: value for key, value in options.items() if key in fields_of(BatchStats)}
    planned: dict[str, Any] = {
        "start": {"t": {0: 0}},
        "end": {"t": {0: 9}},
        "watermark": UNIX_EPOCH,
        "query_id": "q",
    } | {key: value for key, value in options.items() if key not in known}
    batch_plan = BatchPlan(
        job="j", run_id="r", number=number, offsets_hash=f"{plan}-{number}", **planned
    )
    return CommitContext(
        plan=batch_plan, stats=BatchStats(number=number, **known) if known else None
    )


def fields_of(record: type) -> set[str]:
    return {field.name for field in fields(record)}


def rows(spark: SparkSession, path: str, *order: str | Column) -> list[Row]:
    table = spark.read.format("delta").load(path)
    return (table.orderBy(*order) if order else table).collect()


def commits(path: str) -> list[dict[str, Any]]:
    """Return the commit information of each commit of a table, from its log."""
    infos = []
    for file in sorted((Path(path) / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        infos += [line["commitInfo"] for line in lines if "commitInfo" in line]
    return infos


def as_another_writer(write: Callable[[], object]) -> None:
    """Call a function in another thread, as another writer, and wait for it."""
    thread = Thread(target=write)
    thread.start()
    thread.join()


def leftover_settings(spark: SparkSession) -> list[str]:
    """Return the session settings that a commit did not reset."""
    return [METADATA] if spark.conf.get(METADATA, None) is not None else []
