"""The deduplicating job over a topic that sends records again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.deduplicated import Deduplicated, job
from tidegate.aggregates import count
from tidegate.errors import ConfigError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce
from tidegate.windows import tumbling

from ..configured import configured, from_options
from ..worlds.deduplicated import HORIZON_MS, OPTIONS

pytestmark = pytest.mark.jobs

BATCH = 1_000


def planned(broker: Broker, topic: str, root: Path, *overrides: str) -> Job:
    own = {
        "kafka.servers": broker.servers,
        "events.topics": topic,
        "events.max_rows": BATCH,
        "output.root": root,
    }
    return job(from_options(Deduplicated, {**OPTIONS, **own}, *overrides))


@pytest.mark.broker
def test_what_a_broker_reorders_and_sends_again_changes_nothing(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    honest = [
        click
        for click in clicks(1_500, seed=5, rate=20, broken=0)
        if click.fault is None and not click.straggler
    ]
    once = sorted((click for click in honest if not click.duplicate), key=lambda click: click.at)
    chance = random.Random(5)
    # Within the lateness each may come at any time, and any number of times within the horizon.
    again = [click for click in once for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    shaken = sorted(again, key=lambda click: click.at + chance.randrange(HORIZON_MS))
    end = replace(once[-1], at=once[-1].at + 60_000, event_id="end")

    sorted_by_time = Counter((click.at // 60_000 * 60_000, click.page) for click in once)
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    produce(broker.servers, topic, [*shaken, end], partitions=3)
    done = run(planned(broker, topic, tmp_path, "events.max_rows=700"), spark)
    assert (done.rows_in, done.late, done.dead) == (len(shaken) + 1, 0, 0)
    kept = spark.read.format("delta").load(str(tmp_path / "events"))
    minutes = tumbling(kept, "1 minute", by="page", aggs={"views": count()})
    rows = minutes.select(F.unix_millis("window.start").alias("start"), "page", "views").collect()
    assert {(row.start, row.page): row.views for row in rows} == sorted_by_time


def test_the_shipped_configuration_holds_and_a_hold_beyond_the_horizon_is_refused() -> None:
    config = configured(Deduplicated)
    assert (config.deduplicate.key, config.deduplicate.keys) == (["event_id"], 20_000_000)
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "dead_letters", "gaps", "late", "repeated", "seen")
    }
    with pytest.raises(ConfigError, match="hold"):
        configured(Deduplicated, {}, "deduplicate.hold=1 hour")
    with pytest.raises(ConfigError, match="repeated"):
        configured(Deduplicated, {}, "output.repeated=events")
