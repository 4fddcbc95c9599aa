"""The job of abandoned checkouts over a topic with disorder, duplicates and stragglers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.abandoned_checkouts import AbandonedCheckouts, job
from tidegate.errors import ConfigError
from tidegate.runtime.query.run import run
from tidegate.testing import Broker, crash_after
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce

from ..configured import configured, from_options
from ..worlds.abandoned_checkouts import OPTIONS, abandoned, held

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_each_cart_without_a_checkout_is_in_the_table_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    made = clicks(3_000, seed=3, rate=30, users=40, pages=12)
    ledger = produce(broker.servers, topic, made, partitions=2)
    own = {
        "kafka.servers": broker.servers,
        "events.topics": topic,
        "events.max_rows": 1_000,
        "output.root": tmp_path,
    }
    planned = job(from_options(AbandonedCheckouts, {**OPTIONS, **own}))
    table = tmp_path / "abandoned_checkouts"
    with crash_after(table, nth=2), pytest.raises(Exception, match="after batch"):
        run(planned, spark)
    run(planned, spark)
    expected = abandoned(ledger)
    assert expected.total() > 30
    assert held(table) == expected


def test_the_shipped_configuration_is_a_job() -> None:
    config = configured(AbandonedCheckouts, {"output.root": "/tables"})
    assert config.checkout.within == "10 minutes"


def test_what_is_forbidden_and_wanted_at_once_is_refused_with_its_section() -> None:
    with pytest.raises(ConfigError, match="within"):
        configured(AbandonedCheckouts, {"checkout.within": "soon"})
