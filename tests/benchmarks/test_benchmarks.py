"""The contestants of the benchmarks run, over a few messages: some in CI, all with --draws long. No
figure is looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from benchmarks import (
    alarms,
    bloom,
    changes,
    cold_start,
    enrichers,
    executors,
    folds,
    growth,
    log_listing,
    sequences,
    standing_queries,
    stream_stream,
    table_changes,
    table_table,
    topic,
)
from benchmarks.contest import Contestant, Place, measured
from benchmarks.contestants import CONTESTANTS
from benchmarks.enrichers import CONTESTANTS as ENRICHERS
from benchmarks.harness import PARTITIONS
from benchmarks.join_contestants import JOINS
from benchmarks.late_by_log_contestants import BY_LOG
from benchmarks.late_contestants import LATE
from benchmarks.peers.installing import javac
from benchmarks.reading import KEEPING
from tidegate.runtime.process.installation import project_root
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.pages]

ROWS = 2_000


def ran(spark: SparkSession, broker: Broker, name: str, contestant: Contestant, root: Path) -> None:
    found = measured(spark, contestant, Place(broker.servers, name, root / "measured"))
    assert found["seconds"] > 0


@pytest.fixture(scope="session")
def clicks(broker: Broker) -> str:
    name = broker.create_topic("bench-clicks", partitions=PARTITIONS, retention_ms=-1)
    topic.fill(broker.servers, name, ROWS, PARTITIONS, stragglers=0.01)
    return name


@pytest.fixture(scope="session")
def joined(broker: Broker) -> str:
    stream_stream.filled(broker, "bench-joined", ROWS)
    return "bench-joined"


@pytest.fixture(scope="session")
def enriched(broker: Broker) -> str:
    for name in ("bench-enriched", "bench-enriched-changes"):
        broker.create_topic(name, partitions=PARTITIONS, retention_ms=-1)
    topic.fill(broker.servers, "bench-enriched", ROWS, PARTITIONS)
    enrichers.fill_changelog(broker.servers, "bench-enriched-changes", ROWS, PARTITIONS)
    return "bench-enriched"


def test_a_listing_of_a_log_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    for system in log_listing.SYSTEMS.values():
        assert log_listing.listed(spark, str(tmp_path), system) > 0


@pytest.mark.draws("name", short=["all"], long=list(KEEPING))
def test_a_reading_is_measured(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    ran(spark, broker, clicks, KEEPING[name], tmp_path)


@pytest.mark.draws(
    "name", short=["tumbling by hand", "tumbling", "distinct"], long=list(CONTESTANTS)
)
def test_a_window_contestant_runs(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    ran(spark, broker, clicks, CONTESTANTS[name], tmp_path)


@pytest.mark.draws("name", short=["corrected", "session, by the log"], long=[*LATE, *BY_LOG])
def test_a_contestant_with_late_rows_runs(
    spark: SparkSession, broker: Broker, clicks: str, tmp_path: Path, name: str
) -> None:
    ran(spark, broker, clicks, {**LATE, **BY_LOG}[name], tmp_path)


@pytest.mark.draws(
    "name",
    short=["join by hand", "stream_stream, early"],
    long=[name for name in JOINS if name not in CONTESTANTS],
)
def test_a_join_contestant_runs(
    spark: SparkSession, broker: Broker, joined: str, tmp_path: Path, name: str
) -> None:
    ran(spark, broker, joined, JOINS[name], tmp_path)


@pytest.mark.draws("name", short=["history by hand", "changelog"], long=list(ENRICHERS))
def test_an_enriching_contestant_runs(
    spark: SparkSession, broker: Broker, enriched: str, tmp_path: Path, name: str
) -> None:
    enrichers.make_tables(spark, tmp_path / "tables", ROWS)
    ran(spark, broker, enriched, ENRICHERS[name], tmp_path)


def test_the_filters_are_measured(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bloom, "LEAST_ASKED", ROWS)
    assert bloom.measured(spark, ROWS, 0.01, tmp_path)["keys"] == ROWS


@pytest.mark.parametrize("benchmark", [alarms, changes, folds, sequences, table_changes])
def test_what_is_measured_by_keys_finds_the_same_as_by_hand(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: ModuleType
) -> None:
    monkeypatch.setattr(benchmark, "KEYS", (10,))
    assert benchmark.measured(spark, ROWS, tmp_path)


def test_standing_queries_meet_what_those_of_lucene_meet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_queries, "COUNTS", (1_000,))
    (indexed, tested, *lucene) = standing_queries.measure(spark, 100, tmp_path)
    assert indexed["found"] == tested["found"] != 0
    assert len(lucene) == (javac() is not None)


def test_contestants_with_two_tables_keep_the_same_view(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_table, "started", lambda: spark)
    runs = table_table.in_turns(tmp_path, rows=100, batch=100, rounds=1)["runs"]
    ((of_view,), (by_hand,)) = runs.values()
    assert of_view["rows"] > 0
    assert of_view["print"] == by_hand["print"]


@pytest.mark.draws("name", short=["tumbling"], long=list(growth.GROWN))
def test_growth_is_measured_by_events_and_by_keys_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(growth, "SIZES", (1, 2))
    monkeypatch.setattr(growth, "KEYS", (1, 4))
    output = tmp_path / "growth.json"
    growth.main(rows=200, rounds=1, only=[name], output=output)
    runs = json.loads(output.read_text(encoding="utf-8"))["runs"]
    of_windows = [] if name == growth.JOIN else [(1, 4)]
    assert [(run["events"], run["keys"]) for run in runs] == [(1, 1), (2, 1), *of_windows]
    assert output.with_suffix(".png").stat().st_size > 0


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_backlog_gives_the_same_on_one_executor_and_on_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "WORKERS", (1, 2))
    output = tmp_path / "executors.json"
    executors.main(rows=ROWS, rounds=1, only=["tumbling, backlog"], output=output)
    one, two = json.loads(output.read_text(encoding="utf-8"))["runs"]
    assert (one["rows_out"], one["answer"]) == (two["rows_out"], two["answer"])
    assert 0 < one["batch"] < one["seconds"]


@pytest.mark.timeout(600)
def test_a_cold_start_takes_more_classes_from_an_archive_where_there_is_one(tmp_path: Path) -> None:
    output = tmp_path / "cold_start.json"
    names = [cold_start.PLAIN, cold_start.ARCHIVED]
    cold_start.main(rows=ROWS, rounds=1, only=names, output=output)
    runs = json.loads(output.read_text(encoding="utf-8"))["runs"]
    plain, archived = (runs[name][0] for name in names)
    assert archived["session_shared"] > 2 * plain["session_shared"] > 0
    assert plain["first_commit_0"] > 0


def test_a_program_measures_prints_and_keeps_its_figures(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    program = ["benchmarks", "--rows", "2000", "--rounds", "1", "--only", "floor"]
    command = [sys.executable, "-m", *program, "--output", str(output)]
    done = subprocess.run(command, cwd=project_root(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert json.loads(output.read_text(encoding="utf-8"))
