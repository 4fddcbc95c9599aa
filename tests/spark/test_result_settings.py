"""No setting of a session or a process changes a result, or a job refuses to start with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka_topics import pages_input
from tests.support.settings_job import registered_settings, send_views, setting_job, written
from tidegate import Job, run
from tidegate.errors import ConfigError
from tidegate.jvm import with_settings
from tidegate.sinks import Append
from tidegate.spark.job_session import job_session
from tidegate.spark.result_settings import SETTINGS, require_result_settings
from tidegate.testing import Broker
from tidegate.versions import is_spark_at_least

REFUSED = [(each, value) for each in SETTINGS for value in each.refused]
REPLACED = {each.name: value for each in SETTINGS for value in each.replaced[:1]}


@pytest.mark.parametrize(
    ("setting", "value"), REFUSED, ids=[f"{each.name}={value}" for each, value in REFUSED]
)
def test_a_job_does_not_start_with_a_refused_setting_and_the_remedy_helps(
    setting: Any, value: str, spark: SparkSession, tmp_path: Path
) -> None:
    pages = pages_input("nowhere:9092", "pages")
    job = Job(name="pages", inputs={"pages": pages}, sink=Append(str(tmp_path / "pages")))
    with with_settings(spark, {setting.name: value.lower()}), pytest.raises(ConfigError) as error:
        run(job, spark)
    assert list(tmp_path.iterdir()) == []
    assert f"invalid {setting.name}: '{value.lower()}', {setting.effect}" in str(error.value)
    name, valid = re.findall(r'"([^"]+)"', error.value.remedy)
    with with_settings(spark, {name: valid}):
        require_result_settings(spark)


def test_spark_and_delta_know_every_setting_and_run_with_its_value(spark: SparkSession) -> None:
    registered = registered_settings(spark)
    own = {each.name for each in SETTINGS if ".properties.defaults." not in each.name}
    since = {each.name: each.since for each in SETTINGS}
    assert all(is_spark_at_least(since[name]) == (name in registered) for name in own)
    assert len(own) + 3 == len(SETTINGS)
    with job_session(spark) as session:
        for each in SETTINGS:
            if each.name in own:
                value = session.conf.get(each.name)
                assert value == (registered[each.name] if each.value is None else each.value)
            else:
                assert session.conf.get(each.name, None) == each.value


def test_a_job_has_the_same_result_with_every_setting_that_it_replaces(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1)
    send_views(broker.bootstrap_servers, topic)
    results = []
    for name, settings in (("plain", {}), ("replaced", REPLACED)):
        with with_settings(spark, settings):
            run(setting_job(broker.bootstrap_servers, topic, tmp_path / name), spark)
            assert {key: spark.conf.get(key) for key in settings} == settings
        results.append(written(tmp_path / name))
    assert results[0] == results[1]
    assert [len(rows) for rows in results[0].values()] == [29, 1, 0]
    # deltalake reads the time as it was sent.
    assert sum(
        "datetime.datetime(9999, 12, 31, 23, 59, 59, 999999" in row for row in results[0][""]
    )
