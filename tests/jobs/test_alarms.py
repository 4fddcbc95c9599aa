"""The job of alarms over a real topic: the same hours of some weeks, and late clicks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.alarms import AlarmsConfig, job
from tidegate.errors import ArgumentError, ConfigError
from tidegate.runtime.query.run import run
from tidegate.runtime.replaying.beside import beside
from tidegate.testing import Broker
from tidegate.testing.ledger import produce

from ..configured import configured
from ..listening import Heard
from ..tables import rows
from ..worlds.alarms import OPTIONS, clicked, log, standing, unusual

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_what_is_unusual_is_an_alarm_once_until_late_clicks_take_its_ground_away(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    heard: Heard,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    first, late = clicked()
    own = {"kafka.servers": broker.servers, "input.topics": topic, "output.root": tmp_path}
    told = {"webhook.url": heard.url, "webhook.headers": '{Authorization = "env:PAGER"}'}
    monkeypatch.setenv("PAGER", "secret")
    planned = job(configured(AlarmsConfig, {**OPTIONS, **own, **told}))
    alarms = tmp_path / "alarms"
    ledger = produce(broker.servers, topic, first, partitions=1)
    run(planned, spark)
    before = unusual(ledger)
    assert standing(alarms) == before
    assert len(before) == 2
    ledger += produce(broker.servers, topic, late, partitions=1)
    done = run(planned, spark)
    assert (done.late, done.corrected) == (50, 50)
    after = unusual(ledger)
    assert standing(alarms) == after
    assert {alarm for _, alarm, status in log(alarms) if status == "withdrawn"} == before - after
    assert before - after
    posted = Counter(
        (row["status"], row["version"]) for row in (post["row"] for _, post in heard.posts)
    )
    assert posted == Counter((row["status"], row["version"]) for row in rows(alarms))
    assert {headers["Authorization"] for headers, _ in heard.posts} == {"secret"}
    with pytest.raises(ArgumentError, match="sends rows to a webhook"):
        beside(planned)


def test_a_rule_that_does_not_fit_is_refused_with_its_section() -> None:
    plain = {"webhook.url": "http://a.b", "webhook.headers": '{Authorization = "plain"}'}
    with pytest.raises(ConfigError, match=r"webhook\.headers\.Authorization is a secret"):
        configured(AlarmsConfig, plain)
    with pytest.raises(ConfigError, match=r"\[rule\]: every is '5 hours'"):
        configured(AlarmsConfig, {"rule.every": "5 hours"})
    with pytest.raises(ConfigError, match=r"rule.value is 'clicks'"):
        configured(AlarmsConfig, {"rule.value": "clicks"})
