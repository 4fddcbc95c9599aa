"""The job that replicates a database, killed between its tables: each has every change once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.replicated_topics import INT, TEXT, SourceRecords, send_changes
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
RECORDS = SourceRecords({"id": INT, "name": TEXT})
TABLES = ("users", "orders", "items")


def random_changes(
    random: Random, count: int
) -> tuple[list[tuple[bytes | None, bytes]], dict[int, str]]:
    """Return changes of twenty keys, one of them unreadable, and the rows after the last one."""
    live: dict[int, str] = {}
    records: list[tuple[bytes | None, bytes]] = [(b"{}", b"not JSON")]
    for position in range(count):
        key = random.randrange(20)
        if key in live and random.random() < 0.3:
            records.append(RECORDS.change("d", position, id=key, name=live.pop(key)))
            continue
        op = "u" if key in live else "c"
        live[key] = f"{position}"
        records.append(RECORDS.change(op, position, {"id": key, "name": live[key]}))
    return records, live


def test_a_replicating_job_that_is_killed_has_every_change_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    random = Random(5)
    expected: dict[str, dict[int, str]] = {}
    for name in TABLES:
        broker.create_topic(f"{topic}.public.{name}", partitions=1, retention_ms=-1)
        records, expected[name] = random_changes(random, 99)
        send_changes(broker.bootstrap_servers, f"{topic}.public.{name}", records)
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "changes.pattern": rf"{topic}\.public\..*",
        "changes.max_records_per_batch": 150,
        "output.keep": "both",
        "limits.dead_ratio": 1.0,
    }
    job = SubmittedJob("replicate", tmp_path / "tables", tmp_path / "job.log", options)

    def written() -> dict[str, list[int]]:
        folder = job.root / "tables"
        return {name: batches(folder, f"public.{name}") for name in TABLES}

    def control() -> list[int]:
        return batches(job.root, "replication")

    job.killed_when(lambda: any(0 in found for found in written().values()), "a table")
    assert control() == [], "the kill came too late"
    job.killed_at("replication")
    assert control() == [0], "the kill came too late"
    job.killed_when(lambda: any(1 in found for found in written().values()), "a second batch")
    assert control() == [0], "the kill came too late"
    job.finished(spark)

    assert all(found == control() for found in written().values())
    for name in TABLES:
        current = rows(job.root / "tables" / f"public.{name}")
        live = {row["id"]: row["name"] for row in current if not row["deleted"]}
        assert live == expected[name]
        history = rows(job.root / "tables" / f"public.{name}_history")
        still_valid = [row for row in history if row["is_current"]]
        assert {row["id"]: row["name"] for row in still_valid} == expected[name]
        assert len(history) == 99
    dead_letters = [row["topic"] for row in rows(job.root / "dead_letters")]
    assert sorted(dead_letters) == sorted(f"{topic}.public.{name}" for name in TABLES)
    states: dict[str, dict[str, Any]] = {
        row["topic"]: row for row in rows(job.root / "replication")
    }
    for state in states.values():
        assert (state["state"], state["positions"]) == ("active", [(0, 100)])
        assert (state["changes"], state["dead_letters"]) == (99, 1)
