"""The job reservations from its topic to its tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.reservations import commands, decisions, produce, require_tables
from tests.support.spark_session import configured
from tidegate import run
from tidegate.errors import ColumnError, ConfigError
from tidegate.jobs.reservations import Reservations, job
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_each_command_is_handled_once_as_a_stream_and_as_a_backfill(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, topic, commands(400, seed=3))
    reasons, _ = decisions(ledger)
    assert len(set(reasons.values())) == 5, "every reason, and none"
    own = {"kafka.bootstrap_servers": broker.bootstrap_servers, "commands.topics": topic}

    streamed = {**own, "output.root": tmp_path / "stream", "commands.max_records_per_batch": 250}
    run(job(configured(Reservations, streamed)), spark)
    require_tables(tmp_path / "stream", ledger)

    backfilled = {**own, "output.root": tmp_path / "batch", "trigger.backfill_threshold": 0}
    run(job(configured(Reservations, backfilled)), spark)
    require_tables(tmp_path / "batch", ledger)


def test_invalid_rules_are_rejected(spark: SparkSession) -> None:
    assert job(configured(Reservations)).one_to_one
    with pytest.raises(ConfigError, match=r"invalid handlers\['release'\]\.emits: 'freed'"):
        job(configured(Reservations, {"decide.handlers.release.emits": "freed"}))
    with pytest.raises(ConfigError, match=r"invalid fold\.initial: unknown columns rows"):
        job(configured(Reservations, {"fold.initial.rows": 0}))
    wrong = job(configured(Reservations, {"decide.handlers.reserve.values.guest": "command.gest"}))
    empty = spark.createDataFrame([], wrong.inputs["commands"].format.schema)
    placed = empty.selectExpr("*", "'t' topic", "0 partition", "0L offset")
    assert wrong.transform is not None
    with pytest.raises(ColumnError, match="gest"):
        wrong.transform(placed)
