"""The enriching job killed between its tables: what runs again finds what it found before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.enriched_activity import World, read_enriched, sent
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.spark_session import from_options
from tests.support.spark_submit import SubmittedJob
from tidegate import run
from tidegate.errors import TidegateError
from tidegate.jobs.enriched_activity import EnrichedActivity, job
from tidegate.testing import Broker
from tidegate.testing.crash_points import crash_after

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("profile_versions", "activity", "waiting")
"""In the order in which a batch writes them."""


@pytest.mark.draws("kills", short=[TABLES[:2]], long=[TABLES])
def test_a_job_killed_between_its_tables_loses_no_row_and_repeats_none(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kills: tuple[str, ...]
) -> None:
    world, root = sent(broker, topic), tmp_path / "tables"
    sizes = {"activity.max_records_per_batch": 800, "profiles.max_records_per_batch": 240}
    options = {**world.options, **sizes, "enrich.mode": "changelog"}
    submitted = SubmittedJob("enriched_activity", root, tmp_path / "job.log", options)
    for number, table in enumerate(kills):
        submitted.killed_at(table)
        newest = batches(root, table)[-1]
        done = [newest in batches(root, written) for written in TABLES]
        assert done == [index <= number for index in range(len(TABLES))], (
            f"the kill in {table} came too late: {done}"
        )
        assert not (root / "_checkpoints" / "enriched_activity" / "commits" / str(newest)).exists()
    summary = submitted.finished(spark)
    assert summary.skipped_batches == 1
    assert read_enriched(root / "activity") == world.decided
    assert Counter(row["event_id"] for row in rows(root / "waiting")) == world.waiting
    assert len(rows(root / "profile_versions")) == sum(map(len, world.changes.values()))
    assert len(rows(root / "dead_letters")) == 5
    for table in TABLES:
        assert len(set(batches(root, table))) == len(batches(root, table))
    assert sum(1 for row in world.decided if row[1] is None) > 50, "events that met no profile"
    _by_the_history_that_is_left(spark, world, root, tmp_path)


def test_a_complete_unrecorded_batch_belongs_to_the_checkpoint_at_later_starts(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    world = sent(broker, topic, count=600, changes=60)
    sizes = {"activity.max_records_per_batch": 120, "profiles.max_records_per_batch": 48}
    options = {**world.options, **sizes, "output.root": tmp_path, "enrich.mode": "changelog"}
    enriched = job(from_options(EnrichedActivity, options))
    # Each second start finds a batch in all of its tables, and dies with the first one of the next.
    for number, table in enumerate(("waiting", "profile_versions", "waiting", "profile_versions")):
        crash = crash_after(tmp_path / table, batch=number)
        with crash, pytest.raises(TidegateError, match=f"after batch {number}"):
            run(enriched, spark)
    run(enriched, spark)
    assert read_enriched(tmp_path / "activity") == world.decided
    assert Counter(row["event_id"] for row in rows(tmp_path / "waiting")) == world.waiting


def _by_the_history_that_is_left(
    spark: SparkSession, world: World, root: Path, tmp_path: Path
) -> None:
    """What the changelog left is a history; its versions of one instant are of the same
    millisecond, the later counts."""
    log = spark.read.format("delta").load(str(root / "profile_versions"))
    newest = F.max_by(F.struct(*log.columns), "profile_offset").alias("newest")
    last = log.groupBy("user_id", "valid_from").agg(newest).select("newest.*")
    profiles = str(tmp_path / "profiles")
    last.drop("profile_offset", "profile_partition").write.format("delta").save(profiles)
    more = {
        "enrich.mode": "history",
        "enrich.profiles": profiles,
        "activity.max_records_per_batch": 800,
    }
    options = {**world.options, **more}
    again = SubmittedJob("enriched_activity", tmp_path / "again", tmp_path / "job.log", options)
    good = [event for event in world.events if not event.broken]
    assert again.finished(spark).rows_out == len(good)
    assert read_enriched(again.root / "activity") == Counter(world.met(event) for event in good)
    assert {row["table_version"] for row in rows(again.root / "activity")} == {0}
