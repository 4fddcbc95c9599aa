"""The job of the reservations from its topic to its tables: a seat has one guest at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.reservations import Reservations, job
from tidegate.errors import ColumnError, ConfigError
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..configured import configured
from ..worlds.reservations import commands, decisions, produce, require_tables

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_each_command_is_decided_once_as_a_stream_and_as_one_batch(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.servers, topic, commands(400, seed=3))
    reasons, _ = decisions(ledger)
    assert len(set(reasons.values())) == 5, "every reason, and none"
    own = {"kafka.servers": broker.servers, "commands.topics": topic}

    cut = {**own, "output.root": tmp_path / "stream", "commands.max_rows": 250}
    run(job(configured(Reservations, cut)), spark)
    require_tables(tmp_path / "stream", ledger)

    whole = {**own, "output.root": tmp_path / "batch", "trigger.backlog": 0}
    run(job(configured(Reservations, whole)), spark)
    require_tables(tmp_path / "batch", ledger)


def test_rules_that_do_not_fit_are_refused_with_their_place(spark: SparkSession) -> None:
    assert job(configured(Reservations)).one_to_one
    with pytest.raises(ConfigError, match=r"\[decide\] on\['release'\] emits 'freed'"):
        job(configured(Reservations, {"decide.on.release.emits": "freed"}))
    with pytest.raises(ConfigError, match=r"fold\.initial names rows"):
        job(configured(Reservations, {"fold.initial.rows": 0}))
    wrong = job(configured(Reservations, {"decide.on.reserve.values.guest": "command.gest"}))
    empty = spark.createDataFrame([], wrong.inputs["commands"].reading.format.schema)
    placed = empty.selectExpr("*", "'t' topic", "0 partition", "0L offset")
    assert wrong.transform is not None
    with pytest.raises(ColumnError, match="gest"):
        wrong.transform(placed)
