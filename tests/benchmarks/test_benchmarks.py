"""The benchmarks run on a few messages: some contestants in CI, all with --draws long.

The tests check no times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from benchmarks.cases import (
    alarms,
    bloom,
    changelogs,
    cold_start,
    delta_change_feed,
    executors,
    folds,
    log_listing,
    percolator,
    scaling,
    sequences,
    stream_stream,
    table_table,
)
from benchmarks.cases.kafka_reading import READERS
from benchmarks.contestants import enrichment_queries
from benchmarks.contestants.allowed_lateness_jobs import CONTESTANTS as LATENESS_JOBS
from benchmarks.contestants.enrichment_queries import CONTESTANTS as ENRICHERS
from benchmarks.contestants.join_queries import JOINS
from benchmarks.contestants.log_lateness_jobs import CONTESTANTS as LOG_LATENESS_JOBS
from benchmarks.contestants.window_queries import CONTESTANTS
from benchmarks.peers.installing import javac
from benchmarks.support import click_topic
from benchmarks.support.contestant_process import Contestant, RunContext, measure
from benchmarks.support.harness import PARTITIONS
from tidegate.spark.jars import project_root
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.pages]

ROWS = 2_000


def run_contestant(
    spark: SparkSession, broker: Broker, name: str, contestant: Contestant, root: Path
) -> None:
    results = measure(
        spark, contestant, RunContext(broker.bootstrap_servers, name, root / "measured")
    )
    assert results["seconds"] > 0


@pytest.fixture(scope="session")
def clicks(broker: Broker) -> str:
    name = broker.create_topic("bench-clicks", partitions=PARTITIONS, retention_ms=-1)
    click_topic.fill(broker.bootstrap_servers, name, ROWS, PARTITIONS, late_share=0.01)
    return name


@pytest.fixture(scope="session")
def joined(broker: Broker) -> str:
    stream_stream.fill_topics(broker, "bench-joined", ROWS)
    return "bench-joined"


@pytest.fixture(scope="session")
def enriched(broker: Broker) -> str:
    for name in ("bench-enriched", "bench-enriched-changes"):
        broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
    click_topic.fill(broker.bootstrap_servers, "bench-enriched", ROWS, PARTITIONS)
    enrichment_queries.fill_changelog(
        broker.bootstrap_servers, "bench-enriched-changes", ROWS, PARTITIONS
    )
    return "bench-enriched"


def test_log_listing_runs(spark: SparkSession, tmp_path: Path) -> None:
    for system in log_listing.SYSTEMS.values():
        assert log_listing.list_log(spark, str(tmp_path), system) > 0


@pytest.mark.draws("name", short=["all"], long=list(READERS))
def test_kafka_reading_runs(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    run_contestant(spark, broker, clicks, READERS[name], tmp_path)


@pytest.mark.draws(
    "name", short=["tumbling (PySpark)", "tumbling", "distinct"], long=list(CONTESTANTS)
)
def test_a_window_contestant_runs(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    run_contestant(spark, broker, clicks, CONTESTANTS[name], tmp_path)


@pytest.mark.draws(
    "name",
    short=["corrected", "session, log watermarks"],
    long=[*LATENESS_JOBS, *LOG_LATENESS_JOBS],
)
def test_a_contestant_with_late_rows_runs(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    run_contestant(spark, broker, clicks, {**LATENESS_JOBS, **LOG_LATENESS_JOBS}[name], tmp_path)


@pytest.mark.draws(
    "name",
    short=["join (PySpark)", "stream_stream, early"],
    long=[name for name in JOINS if name not in CONTESTANTS],
)
def test_a_join_contestant_runs(
    spark: SparkSession, broker: Broker, joined: str, tmp_path: Path, name: str
) -> None:
    run_contestant(spark, broker, joined, JOINS[name], tmp_path)


@pytest.mark.draws("name", short=["history (PySpark)", "changelog"], long=list(ENRICHERS))
def test_an_enrichment_contestant_runs(
    spark: SparkSession, broker: Broker, enriched: str, tmp_path: Path, name: str
) -> None:
    enrichment_queries.make_tables(spark, tmp_path / "tables", ROWS)
    run_contestant(spark, broker, enriched, ENRICHERS[name], tmp_path)


def test_bloom_filters_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bloom, "MIN_LOOKUPS", ROWS)
    assert bloom.measure(spark, ROWS, 0.01, tmp_path)["keys"] == ROWS


@pytest.mark.parametrize("benchmark", [alarms, changelogs, folds, sequences, delta_change_feed])
def test_benchmarks_by_keys_match_plain_pyspark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: ModuleType
) -> None:
    monkeypatch.setattr(benchmark, "KEYS", (10,))
    assert benchmark.measure(spark, ROWS, tmp_path)


def test_the_percolator_matches_what_lucene_matches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(percolator, "COUNTS", (1_000,))
    (indexed, tested, *lucene) = percolator.measure(spark, 100, tmp_path)
    assert indexed["count"] == tested["count"] != 0
    assert len(lucene) == (javac() is not None)


def test_contestants_maintain_the_same_view(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_table, "bench_session", lambda: spark)
    runs = table_table.measure_alternating(tmp_path, rows=100, batch=100, rounds=1)["runs"]
    ((library,), (plain_pyspark,)) = runs.values()
    assert library["rows"] > 0
    assert library["checksum"] == plain_pyspark["checksum"]


@pytest.mark.draws("name", short=["tumbling"], long=list(scaling.SCALED))
def test_scaling_is_measured_by_events_and_by_keys_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(scaling, "SIZES", (1, 2))
    monkeypatch.setattr(scaling, "KEYS", (1, 4))
    output = tmp_path / "scaling.json"
    scaling.main(rows=200, rounds=1, only=[name], output=output)
    runs = json.loads(output.read_text(encoding="utf-8"))["runs"]
    window_runs = [] if name == scaling.JOIN else [(1, 4)]
    assert [(run["events"], run["keys"]) for run in runs] == [(1, 1), (2, 1), *window_runs]
    assert output.with_suffix(".png").stat().st_size > 0


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_backfill_has_the_same_rows_on_one_and_two_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "WORKERS", (1, 2))
    output = tmp_path / "executors.json"
    executors.main(rows=ROWS, rounds=1, only=["tumbling, backfill"], output=output)
    one, two = json.loads(output.read_text(encoding="utf-8"))["runs"]
    assert (one["rows_out"], one["answer"]) == (two["rows_out"], two["answer"])
    assert 0 < one["batch"] < one["seconds"]


@pytest.mark.timeout(600)
def test_a_cold_start_loads_more_classes_from_an_archive(tmp_path: Path) -> None:
    output = tmp_path / "cold_start.json"
    names = [cold_start.DEFAULT, cold_start.ARCHIVED]
    cold_start.main(rows=ROWS, rounds=1, only=names, output=output)
    runs = json.loads(output.read_text(encoding="utf-8"))["runs"]
    plain, archived = (runs[name][0] for name in names)
    assert archived["session_shared"] > 2 * plain["session_shared"] > 0
    assert plain["first_commit_0"] > 0


def test_a_program_prints_and_writes_its_results(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    program = ["benchmarks", "--rows", "2000", "--rounds", "1", "--only", "floor"]
    command = [sys.executable, "-m", *program, "--output", str(output)]
    done = subprocess.run(command, cwd=project_root(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert json.loads(output.read_text(encoding="utf-8"))
