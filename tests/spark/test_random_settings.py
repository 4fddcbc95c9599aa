"""Settings drawn from those that Spark and Delta define leave the result of a job as it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.support.settings_job import registered_settings, send_views, setting_job, written
from tidegate import run
from tidegate.jvm import with_settings
from tidegate.spark.result_settings import SETTINGS
from tidegate.testing import Broker

DRAWN = 50
REFUSED = {each.name for each in SETTINGS if each.refused}
NOT_DRAWN = (
    "spark.sql.hive.",
    "spark.sql.catalog.",
    "spark.sql.ui.",
    # Spark refuses the query of a job with these, before it starts.
    "spark.sql.streaming.queryEvolution.",
    "spark.sql.streaming.realTimeMode.",
)
"""Prefixes of settings of other programs, and of settings that a job cannot run with."""


def other_value(default: str | None) -> str | None:
    """Return another value of a flag or a number; None for any other setting."""
    if default in ("true", "false"):
        return "false" if default == "true" else "true"
    if default is not None and default.isdigit() and 0 < int(default) < 2**30:
        return str(int(default) * 2 + 1)
    return None


def draw(spark: SparkSession, random: Random) -> dict[str, str]:
    """Return settings that a running session accepts, with values other than their defaults."""
    values = {key: other_value(default) for key, default in registered_settings(spark).items()}
    candidates = sorted(
        (key, value)
        for key, value in values.items()
        if value is not None
        and spark.conf.isModifiable(key)
        and key not in REFUSED
        and not key.startswith(NOT_DRAWN)
    )
    drawn = {}
    for key, value in random.sample(candidates, DRAWN):
        # Some numbers have bounds.
        with suppress(IllegalArgumentException), with_settings(spark, {key: value}):
            drawn[key] = value
    return drawn


@pytest.mark.jobs
@pytest.mark.draws("seed", short=[1], long=range(1, 21))
def test_a_job_has_the_same_result_with_any_settings(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    broker.create_topic(topic, partitions=1)
    send_views(broker.bootstrap_servers, topic)
    results = []
    for name, settings in (("default", {}), ("drawn", draw(spark, Random(seed)))):
        with with_settings(spark, settings):
            run(setting_job(broker.bootstrap_servers, topic, tmp_path / name), spark)
        results.append(written(tmp_path / name))
    assert results[0] == results[1]
