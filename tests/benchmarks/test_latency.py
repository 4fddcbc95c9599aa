"""The latency benchmark runs, and counts each change of a row once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from benchmarks.cases.latency import Contestant, measure
from benchmarks.contestants.latency_jobs import CONTESTANTS
from benchmarks.peers.live import REAL_TIME, answers
from benchmarks.support.commit_times import Live
from benchmarks.support.contestant_process import RunContext
from benchmarks.support.harness import PARTITIONS
from tidegate.testing import Broker

ALL_CONTESTANTS: dict[str, Contestant] = {**CONTESTANTS, **REAL_TIME}
LONG = [(name, 16.0) for name in ALL_CONTESTANTS]


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.draws("name, seconds", short=[("updates", 3.0), (*REAL_TIME, 28.0)], long=LONG)
def test_rows_of_a_contestant_are_committed_after_their_messages(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, name: str, seconds: float
) -> None:
    for each in (topic, f"{topic}-impressions", f"{topic}-clicks", answers(topic)):
        broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
    context = RunContext(broker.bootstrap_servers, topic, tmp_path / "measured")
    results = measure(spark, ALL_CONTESTANTS[name], context, 400, seconds, warm=0.0, drain=12.0)
    assert 0 < results["p50"] <= results["p95"] <= results["p99"]
    assert results["rows"] > 100


def test_a_rewritten_row_counts_once(tmp_path: Path) -> None:
    def not_called(spark: SparkSession, context: RunContext, seconds: float) -> None:
        raise AssertionError("not called")

    live = Live(not_called, ("page", "ts"), lambda rows: rows["ts"], rewritten=True)
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"page": ["a", "b"], "ts": [1, 2]}))
    write_deltalake(table, pa.table({"page": ["a", "b"], "ts": [1, 5]}), mode="overwrite")
    assert sorted(live.committed(table)["known"]) == [1, 2, 5]
