"""Minutes, hours and days of visitors, from a real topic, against plain Python over the producer's
ledger."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.unique_visitors import UniqueVisitors, job
from tidegate.aggregates import finished, merged
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce

from ..configured import configured
from ..worlds.unique_visitors import AGGS, OPTIONS, agree, agrees


def planned(servers: str, topic: str, root: Path) -> Job:
    given = {**OPTIONS, "kafka.servers": servers, "clicks.topics": topic, "output.root": root}
    return job(configured(UniqueVisitors, given))


@pytest.mark.broker
def test_minutes_hours_and_days_are_those_of_the_ledger_with_late_clicks_merged_in(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = produce(
        broker.servers,
        topic,
        clicks(3_400, seed=8, pages=9, rate=12, stragglers=0.02),
        partitions=4,
    )
    good = [sent.click for sent in ledger if sent.click.fault is None]
    assert sum(click.straggler for click in good) > 50

    done = run(planned(broker.servers, topic, tmp_path), spark)
    assert (done.rows_in, done.rows_out, done.late) == (3_400, len(good), 0)

    agree(spark, tmp_path, good)
    hours = spark.read.format("delta").load(str(tmp_path / "hours"))
    union = finished(
        merged(hours.where(F.col("page").isin("/", "/search")), (), AGGS), AGGS
    ).collect()[0]
    agrees(union, [click for click in good if click.page in ("/", "/search")])
    pages = [click.page for click in good if click.page in ("/", "/search")]
    assert [(each["value"], each["count"]) for each in union["pages"]] == sorted(
        ((page, pages.count(page)) for page in set(pages)), key=lambda pair: -pair[1]
    )


def test_the_shipped_configuration_is_whole() -> None:
    config = configured(UniqueVisitors)
    assert set(config.output.tables()) == {
        f"output.{t}" for t in ("table", "hours", "days", "dead_letters", "gaps")
    }
    assert timedelta(0) == datetime.now(ZoneInfo(config.roll_up.zone)).utcoffset()
