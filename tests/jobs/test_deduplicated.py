"""The job deduplicated on a topic with redelivered records."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.deduplicated import HORIZON_MS, OPTIONS
from tests.support.spark_session import configured, from_options
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.errors import ConfigError
from tidegate.jobs.deduplicated import EventDeduplication, job
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.testing import Broker
from tidegate.windows import tumbling

pytestmark = pytest.mark.jobs

BATCH = 1_000


def build_job(broker: Broker, topic: str, root: Path, *overrides: str) -> Job:
    own = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": topic,
        "events.max_records_per_batch": BATCH,
        "output.root": root,
    }
    return job(from_options(EventDeduplication, {**OPTIONS, **own}, *overrides))


@pytest.mark.broker
def test_reordered_and_redelivered_records_do_not_change_the_result(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    honest = [
        click
        for click in clicks(1_500, seed=5, rate=20, broken=0)
        if click.fault is None and not click.is_late
    ]
    once = sorted(
        (click for click in honest if not click.is_duplicate), key=lambda click: click.event_time_ms
    )
    chance = random.Random(5)
    # Records are out of order within the delay, and repeated within the horizon.
    again = [click for click in once for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    shaken = sorted(again, key=lambda click: click.event_time_ms + chance.randrange(HORIZON_MS))
    end = replace(once[-1], event_time_ms=once[-1].event_time_ms + 60_000, event_id="end")

    sorted_by_time = Counter((click.event_time_ms // 60_000 * 60_000, click.page) for click in once)
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    send_clicks(broker.bootstrap_servers, topic, [*shaken, end], partitions=3)
    done = run(build_job(broker, topic, tmp_path, "events.max_records_per_batch=700"), spark)
    assert (done.rows_in, done.late_rows, done.dead_letters) == (len(shaken) + 1, 0, 0)
    events = spark.read.format("delta").load(str(tmp_path / "events"))
    minutes = tumbling(events, "1 minute", by="page", aggs={"views": count()})
    rows = minutes.select(F.unix_millis("window.start").alias("start"), "page", "views").collect()
    assert {(row.start, row.page): row.views for row in rows} == sorted_by_time


def test_the_shipped_configuration_is_valid_and_a_long_max_delay_is_rejected() -> None:
    config = configured(EventDeduplication)
    assert (config.deduplicate.key, config.deduplicate.expected_items) == (["event_id"], 20_000_000)
    assert set(config.output.tables()) == {
        f"output.{name}"
        for name in (
            "table",
            "dead_letters",
            "offset_gaps",
            "late_rows",
            "duplicates",
            "key_filter",
        )
    }
    with pytest.raises(ConfigError, match="max_delay"):
        configured(EventDeduplication, {}, "deduplicate.max_delay=1 hour")
    with pytest.raises(ConfigError, match="duplicates"):
        configured(EventDeduplication, {}, "output.duplicates=events")
