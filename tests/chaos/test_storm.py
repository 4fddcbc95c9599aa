"""A small storm: its kills happen, no record is lost, and its report is plotted."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos import report
from tests.chaos.measurements import Use
from tests.chaos.scenarios import WORLDS
from tests.chaos.soak import level, problems
from tests.chaos.storm import Fault, differences, drawn, storm
from tests.support.delta_tables import by_spark, rows
from tidegate.testing import Broker

SEED = 5


def test_a_seed_determines_the_faults_and_covers_all_points_equally() -> None:
    faults = drawn(SEED, 21, 4)
    assert faults == drawn(SEED, 21, 4) != drawn(SEED + 1, 21, 4)
    points = [fault.point for fault in faults if fault.kind == "driver"]
    assert {points.count(point) for point in points} == {3}


def test_a_soak_reports_growing_resource_usage() -> None:
    taken = [Use(memory=1_000, threads=300 + at, files=500) for at in range(90)]
    usage = {"level": level(taken), "tables": {"views": {"lost": 0, "doubled": 2}}}
    assert problems(usage) == ["views: 0 lost, 2 doubled"]
    grown = [Use(memory=1_000, threads=300 + 10 * at, files=500) for at in range(90)]
    assert problems({"level": level(grown), "tables": {}}) == ["threads grew from 745 to 1,045"]


@pytest.mark.broker
@pytest.mark.crash
@pytest.mark.timeout(1200)
def test_a_small_storm_loses_and_duplicates_no_records(spark: SparkSession, tmp_path: Path) -> None:
    faults = [Fault("driver", "target", 0.0), Fault("broker", "planned", 1.0)]
    with Broker.start() as broker:
        world = WORLDS["updates"](broker, "storm", 1_200, SEED)
        weather = storm(world, tmp_path, len(faults))
        weather.play(faults, print)
        tables = differences(world, weather.job.root, {"deltalake": rows, "spark": by_spark(spark)})
    run = report.run_report("updates", SEED, weather, tables)
    assert (run["driver_kills"], run["broker_kills"]) == (1, 1)
    assert (run["lost"], run["doubled"], run["records"]) == (0, 0, world.count), tables
    assert tables["views by spark"]["actual"] > 0
    assert run["lag"][-1][1] == 0

    report.write(tmp_path / "out", run)
    gathered = json.loads((tmp_path / "out" / report.NAME).read_text(encoding="utf-8"))
    assert gathered["total"] == {name: run[name] for name in gathered["total"]}
    assert (tmp_path / "out" / "reliability.png").stat().st_size > 10_000


@pytest.mark.broker
@pytest.mark.crash
@pytest.mark.timeout(1200)
@pytest.mark.draws("name", short=["database"], long=["database", "database_with_snapshots"])
def test_a_table_and_its_history_equal_a_database_after_kills_of_connector_and_job(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    with Broker.start() as broker, closing(WORLDS[name](broker, "storm", 300, SEED)) as world:
        weather = storm(world, tmp_path, 1)
        weather.play([Fault("driver", "target", 0.0)], print)
        tables = differences(world, weather.job.root, {"deltalake": rows, "spark": by_spark(spark)})
    assert [fault["met"] for fault in weather.faults] == [True]
    assert tables["customer_history by deltalake"]["actual"] > 300, tables
    assert {count for each in tables.values() for count in (each["lost"], each["doubled"])} == {0}
