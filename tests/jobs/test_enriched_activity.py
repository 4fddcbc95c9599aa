"""Activity with the current profiles, from a real topic, against plain Python over the producer's
ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.enriched_activity import World, sent
from tests.support.delta_tables import rows
from tests.support.spark_session import configured, from_options
from tidegate import Summary, run
from tidegate.errors import ColumnError, ConfigError
from tidegate.jobs.enriched_activity import EnrichedActivity, job
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


def run_job(spark: SparkSession, world: World, root: Path, mode: str, **more: object) -> Summary:
    options = {**world.options, "output.root": root, "enrich.mode": mode, **more}
    return run(job(from_options(EnrichedActivity, options)), spark)


@pytest.mark.broker
def test_each_event_is_joined_with_the_current_profile_and_table_version(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    world, path = sent(broker, topic, count=600, changes=10), str(tmp_path / "profiles")
    for plan in ("free", "pro"):
        users = spark.range(100).select(
            F.format_string("user-%d", "id").alias("user_id"), F.lit(plan).alias("plan")
        )
        users.write.format("delta").mode("overwrite").save(path)
    done = run_job(spark, world, tmp_path / "t", "snapshot", **{"enrich.profiles": path})
    good = [event for event in world.events if not event.broken]
    assert (done.rows_out, done.dead_letters) == (len(good), 5)
    known = {f"user-{number}" for number in range(100)}
    found = Counter(
        (row["event_id"], row["plan"], row["table_version"])
        for row in rows(tmp_path / "t" / "activity")
    )
    assert found == Counter(
        (event.event_id, "pro" if event.user in known else None, 1) for event in good
    )


def test_the_shipped_configuration_is_valid_and_keys_are_required(
    spark: SparkSession,
) -> None:
    config = configured(EnrichedActivity)
    assert (config.enrich.mode, config.enrich.on, config.enrich.max_changelog_lag) == (
        "changelog",
        "user_id",
        None,
    )
    tables = {"table", "dead_letters", "offset_gaps", "versions", "waiting", "unmatched"}
    assert set(config.output.tables()) == {f"output.{name}" for name in tables}
    assert len(job(config).inputs) == 2
    with pytest.raises(ConfigError, match=r"missing key: enrich\.profiles"):
        configured(EnrichedActivity, {}, "enrich.mode=history")
    nullable = {"profiles.schema": "user_id string, changed_at timestamp"}
    with pytest.raises(ColumnError, match=r"(?s)invalid key: 'user_id'.*NOT NULL"):
        job(configured(EnrichedActivity, nullable))
