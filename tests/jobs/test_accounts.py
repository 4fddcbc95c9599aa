"""The job accounts from its topic to its tables, and a second view of the same topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.accounts import (
    dead,
    events,
    ordered,
    produce,
    read_places,
    read_states,
    snapshots,
    states,
    strange,
)
from tests.support.spark_session import configured
from tidegate import run
from tidegate.errors import ColumnError, ConfigError
from tidegate.jobs.accounts import Accounts, job
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_the_tables_equal_the_sent_events_and_a_later_view_has_the_same_states(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, topic, events(1_200, seed=6))
    own = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": topic,
        "fold.every": 10,
    }

    root = tmp_path / "first"
    planned = job(
        configured(Accounts, {**own, "output.root": root, "events.max_records_per_batch": 700})
    )
    run(planned, spark)
    assert read_states(root / "accounts") == states(ledger)
    assert read_states(root / "account_snapshots") == ordered(snapshots(ledger, 10))
    assert read_places(root / "dead_letters") == dead(ledger)
    assert read_places(root / "unknown_events") == strange(ledger)
    assert read_places(root / "account_events").total() == len(ledger) - dead(ledger).total()

    later = tmp_path / "later"
    more = {"output.root": later, "job.name": "accounts_again", "trigger.backfill_threshold": 0}
    view = job(configured(Accounts, {**own, **more}))
    run(view, spark)
    ledger += produce(broker.bootstrap_servers, topic, events(300, seed=7))
    run(view, spark)
    assert read_states(later / "accounts") == states(ledger)
    assert read_states(later / "account_snapshots") == ordered(snapshots(ledger, 10))


def test_an_invalid_fold_is_rejected(spark: SparkSession) -> None:
    assert job(configured(Accounts)).one_to_one
    with pytest.raises(ConfigError, match="lowst"):
        job(configured(Accounts, {"fold.initial.lowst": 0}))
    with pytest.raises(ConfigError, match=r"audited.*limit"):
        job(configured(Accounts, {"fold.handlers.audited.limit": "NULL"}))
    wrong = job(configured(Accounts, {"fold.handlers.opened.owner": "event.ownr"}))
    empty = spark.createDataFrame([], wrong.inputs["events"].format.schema)
    placed = empty.selectExpr("*", "'t' topic", "0 partition", "0L offset")
    assert wrong.transform is not None
    with pytest.raises(ColumnError, match=r"handlers\['opened'\]\['owner'\].*ownr"):
        wrong.transform(placed)
