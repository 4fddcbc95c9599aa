"""The job of the customers' history from its topic to its tables, beside the ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.customer_history import CustomerHistory, job
from tidegate.errors import ConfigError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.sinks import FanOut
from tidegate.testing import Broker, crash_after

from ..configured import configured
from ..worlds.customer_history import (
    OPTIONS,
    customers,
    dead,
    expected_customers,
    expected_history,
    produce,
    read_customers,
    read_dead,
    read_history,
)


def planned(broker: Broker, topic: str, root: Path) -> Job:
    own = {
        "kafka.servers": broker.servers,
        "changes.topics": topic,
        "changes.max_rows": 1_100,
        "output.root": root,
    }
    return job(configured(CustomerHistory, {**OPTIONS, **own}))


@pytest.mark.broker
def test_the_tables_are_those_of_the_ledger_though_the_job_dies_between_them(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    ledger = produce(broker.servers, topic, customers(2_000, seed=6, people=100))
    kinds = Counter(sent.event.op for sent in ledger if not sent.event.fault)
    assert (
        min(kinds[op] for op in ("snapshot", "create", "update", "delete", "tombstone", "truncate"))
        > 0
    )

    whole = planned(broker, topic, tmp_path)
    assert isinstance(whole.sink, FanOut)
    (past,) = whole.sink.also
    with crash_after(past.path, nth=2), pytest.raises(Exception, match="after batch"):
        run(whole, spark)
    done = run(whole, spark)
    assert done.skipped == 0
    assert 850 < done.rows_in < 950, "all but the first batch"

    assert read_customers(tmp_path / "customers") == expected_customers(ledger)
    assert read_history(tmp_path / "customer_history") == expected_history(ledger)
    assert read_dead(tmp_path / "dead_letters") == dead(ledger)
    assert dead(ledger).total() == 12


def test_the_shipped_configuration_holds_and_a_key_is_asked_for(spark: SparkSession) -> None:
    config = configured(CustomerHistory)
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "history", "dead_letters", "gaps")
    }
    assert job(config).inputs["changes"].reading.format.schema.names[:2] == ["op", "key"]
    assert job(configured(CustomerHistory, {}, "changes.format=maxwell")).one_to_one
    with pytest.raises(ConfigError, match="position"):
        configured(CustomerHistory, {}, "changes.position=time")
    with pytest.raises(ConfigError, match="history"):
        configured(CustomerHistory, {}, "output.history=customers")
