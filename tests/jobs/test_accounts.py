"""The job of the accounts from its topic to its tables, and a view of the topic added later."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.accounts import Accounts, job
from tidegate.errors import ColumnError, ConfigError
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..configured import configured
from ..worlds.accounts import (
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

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_the_tables_are_those_of_the_ledger_and_a_view_that_is_added_later_has_the_same_states(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.servers, topic, events(1_200, seed=6))
    own = {"kafka.servers": broker.servers, "events.topics": topic, "fold.every": 10}

    root = tmp_path / "first"
    planned = job(configured(Accounts, {**own, "output.root": root, "events.max_rows": 700}))
    run(planned, spark)
    assert read_states(root / "accounts") == states(ledger)
    assert read_states(root / "account_snapshots") == ordered(snapshots(ledger, 10))
    assert read_places(root / "dead_letters") == dead(ledger)
    assert read_places(root / "unknown_events") == strange(ledger)
    assert read_places(root / "account_events").total() == len(ledger) - dead(ledger).total()

    later = tmp_path / "later"
    more = {"output.root": later, "job.name": "accounts_again", "trigger.backlog": 0}
    view = job(configured(Accounts, {**own, **more}))
    run(view, spark)
    ledger += produce(broker.servers, topic, events(300, seed=7))
    run(view, spark)
    assert read_states(later / "accounts") == states(ledger)
    assert read_states(later / "account_snapshots") == ordered(snapshots(ledger, 10))


def test_a_fold_that_does_not_fit_is_refused_with_its_place(spark: SparkSession) -> None:
    assert job(configured(Accounts)).one_to_one
    with pytest.raises(ConfigError, match="names lowst"):
        job(configured(Accounts, {"fold.initial.lowst": 0}))
    with pytest.raises(ConfigError, match=r"on\['audited'\] sets limit"):
        job(configured(Accounts, {"fold.on.audited.limit": "NULL"}))
    wrong = job(configured(Accounts, {"fold.on.opened.owner": "event.ownr"}))
    empty = spark.createDataFrame([], wrong.inputs["events"].reading.format.schema)
    placed = empty.selectExpr("*", "'t' topic", "0 partition", "0L offset")
    assert wrong.transform is not None
    with pytest.raises(ColumnError, match=r"on\['opened'\]\['owner'\].*ownr"):
        wrong.transform(placed)
