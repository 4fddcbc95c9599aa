"""The job of alarms over a real topic: the same hours of some weeks, and late clicks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.alarms import AlarmsConfig, job
from tidegate.errors import ConfigError
from tidegate.runtime.query.run import run
from tidegate.testing import Broker
from tidegate.testing.ledger import produce

from ..configured import configured
from ..worlds.alarms import OPTIONS, clicked, log, standing, unusual


@pytest.mark.broker
def test_what_is_unusual_is_an_alarm_once_until_late_clicks_take_its_ground_away(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    ledger = produce(broker.servers, topic, clicked(), partitions=1)
    own = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    done = run(job(configured(AlarmsConfig, {**OPTIONS, **own})), spark)
    assert (done.late, done.corrected) == (50, 50)
    expected = unusual(ledger)
    assert standing(tmp_path / "alarms") == expected
    entries = log(tmp_path / "alarms")
    assert Counter(version for version, _, _ in entries)[2] == 1
    assert {alarm for version, alarm, _ in entries if version == 2} - expected
    assert len(expected) > 1


def test_a_rule_that_does_not_fit_is_refused_with_its_section() -> None:
    with pytest.raises(ConfigError, match=r"\[rule\]: no limit"):
        configured(AlarmsConfig, {}, "rule.ratio=null", "rule.absolute=null")
    with pytest.raises(ConfigError, match=r"rule.value is 'clicks'"):
        configured(AlarmsConfig, {"rule.value": "clicks"})
