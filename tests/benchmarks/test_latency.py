"""The benchmark of latency runs, and takes each change of a row once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from benchmarks.contest import Place
from benchmarks.harness import PARTITIONS
from benchmarks.latency import Contestant, measured
from benchmarks.latency_contestants import CONTESTANTS
from benchmarks.live_table import Live
from benchmarks.peers.live import REAL_TIME, answers
from tidegate.testing import Broker

EVERYONE: dict[str, Contestant] = {**CONTESTANTS, **REAL_TIME}
ALL = [(name, 16.0) for name in EVERYONE]


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.draws("name, seconds", short=[("updates", 3.0), (*REAL_TIME, 28.0)], long=ALL)
def test_rows_of_a_contestant_come_out_after_their_messages(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, name: str, seconds: float
) -> None:
    for each in (topic, f"{topic}-impressions", f"{topic}-clicks", answers(topic)):
        broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
    place = Place(broker.servers, topic, tmp_path / "measured")
    found = measured(spark, EVERYONE[name], place, 400, seconds, warm=0.0, drain=12.0)
    assert 0 < found["p50"] <= found["p95"] <= found["p99"]
    assert found["rows"] > 100


def test_a_row_that_a_file_holds_again_counts_once(tmp_path: Path) -> None:
    def nothing(spark: SparkSession, place: Place, seconds: float) -> None:
        raise AssertionError("it is not run")

    live = Live(nothing, ("page", "ts"), lambda rows: rows["ts"], rewritten=True)
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"page": ["a", "b"], "ts": [1, 2]}))
    write_deltalake(table, pa.table({"page": ["a", "b"], "ts": [1, 5]}), mode="overwrite")
    assert sorted(live.committed(table)["known"]) == [1, 2, 5]
