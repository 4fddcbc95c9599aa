"""The job abandoned_checkouts on a topic with disorder, duplicates and late clicks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.abandoned_checkouts import OPTIONS, abandoned, read_abandoned
from tests.support.spark_session import configured, from_options
from tidegate import run
from tidegate.errors import ConfigError
from tidegate.jobs.abandoned_checkouts import AbandonedCheckouts, job
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.testing import Broker, crash_after

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_each_cart_without_a_checkout_is_in_the_table_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sample = clicks(3_000, seed=3, rate=30, users=40, pages=12)
    ledger = send_clicks(broker.bootstrap_servers, topic, sample, partitions=2)
    own = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": topic,
        "events.max_records_per_batch": 1_000,
        "output.root": tmp_path,
    }
    checkouts = job(from_options(AbandonedCheckouts, {**OPTIONS, **own}))
    table = tmp_path / "abandoned_checkouts"
    with crash_after(table, nth=2), pytest.raises(Exception, match="after batch"):
        run(checkouts, spark)
    run(checkouts, spark)
    expected = abandoned(ledger)
    assert expected.total() > 30
    assert read_abandoned(table) == expected


def test_the_shipped_configuration_is_valid() -> None:
    config = configured(AbandonedCheckouts, {"output.root": "/tables"})
    assert config.checkout.within == "10 minutes"


def test_an_invalid_duration_is_rejected() -> None:
    with pytest.raises(ConfigError, match="within"):
        configured(AbandonedCheckouts, {"checkout.within": "soon"})
