"""Activity with the current profiles, from a real topic, against plain Python over the producer's
ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.enriched_activity import EnrichedActivity, job
from tidegate.errors import ColumnError, ConfigError
from tidegate.runtime.query.run import run
from tidegate.runtime.summary import Summary
from tidegate.testing import Broker

from ..configured import configured, from_options
from ..tables import rows
from ..worlds.enriched_activity import World, sent

pytestmark = pytest.mark.jobs


def started(spark: SparkSession, world: World, root: Path, way: str, **more: object) -> Summary:
    given = {**world.options, "output.root": root, "enrich.way": way, **more}
    return run(job(from_options(EnrichedActivity, given)), spark)


@pytest.mark.broker
def test_each_event_meets_the_current_profile_and_tells_which_version_of_the_table_that_was(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    world, path = sent(broker, topic, count=600, changes=10), str(tmp_path / "profiles")
    for plan in ("free", "pro"):
        users = spark.range(100).select(
            F.format_string("user-%d", "id").alias("user_id"), F.lit(plan).alias("plan")
        )
        users.write.format("delta").mode("overwrite").save(path)
    done = started(spark, world, tmp_path / "t", "snapshot", **{"enrich.profiles": path})
    good = [event for event in world.events if not event.broken]
    assert (done.rows_out, done.dead) == (len(good), 5)
    known = {f"user-{number}" for number in range(100)}
    found = Counter(
        (row["event_id"], row["plan"], row["table_version"])
        for row in rows(tmp_path / "t" / "activity")
    )
    assert found == Counter(
        (event.event_id, "pro" if event.user in known else None, 1) for event in good
    )


def test_the_shipped_configuration_holds_and_what_is_missing_is_told(spark: SparkSession) -> None:
    config = configured(EnrichedActivity)
    assert (config.enrich.way, config.enrich.on, config.enrich.lag) == (
        "changelog",
        "user_id",
        None,
    )
    tables = {"table", "dead_letters", "gaps", "versions", "waiting", "misses"}
    assert set(config.output.tables()) == {f"output.{name}" for name in tables}
    assert len(job(config).inputs) == 2
    with pytest.raises(ConfigError, match="without a table"):
        configured(EnrichedActivity, {}, "enrich.way=history")
    nullable = {"profiles.schema": "user_id string, changed_at timestamp"}
    with pytest.raises(ColumnError, match="has no 'user_id' that is NOT NULL"):
        job(configured(EnrichedActivity, nullable))
