"""The job alarms on a topic with the same hours of several weeks, and late clicks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.alarms import OPTIONS, clicked, log, standing, unusual
from tests.support.delta_tables import rows
from tests.support.http_server import WebhookServer
from tests.support.spark_session import configured
from tidegate import run
from tidegate.errors import ArgumentError, ConfigError
from tidegate.jobs.sample_clicks import send_clicks
from tidegate.jobs.window_alarms import AlarmsConfig, job
from tidegate.operations.replay.replay import as_replay_job
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


@pytest.mark.broker
def test_a_deviation_raises_one_alarm_and_late_clicks_withdraw_it(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    webhook_server: WebhookServer,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    first, late = clicked()
    own = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    webhook = {
        "webhook.url": webhook_server.url,
        "webhook.headers": '{Authorization = "env:PAGER"}',
    }
    monkeypatch.setenv("PAGER", "secret")
    alarms_job = job(configured(AlarmsConfig, {**OPTIONS, **own, **webhook}))
    alarms = tmp_path / "alarms"
    ledger = send_clicks(broker.bootstrap_servers, topic, first, partitions=1)
    run(alarms_job, spark)
    before = unusual(ledger)
    assert standing(alarms) == before
    assert len(before) == 2
    ledger += send_clicks(broker.bootstrap_servers, topic, late, partitions=1)
    done = run(alarms_job, spark)
    assert (done.late_rows, done.corrected_rows) == (50, 50)
    after = unusual(ledger)
    assert standing(alarms) == after
    assert {alarm for _, alarm, status in log(alarms) if status == "withdrawn"} == before - after
    assert before - after
    posted = Counter(
        (row["status"], row["version"]) for row in (post["row"] for _, post in webhook_server.posts)
    )
    assert posted == Counter((row["status"], row["version"]) for row in rows(alarms))
    assert {headers["Authorization"] for headers, _ in webhook_server.posts} == {"secret"}
    with pytest.raises(ArgumentError, match="it would send rows to a webhook again"):
        as_replay_job(alarms_job)


def test_an_invalid_rule_or_webhook_is_rejected() -> None:
    plain = {"webhook.url": "http://a.b", "webhook.headers": '{Authorization = "plain"}'}
    with pytest.raises(ConfigError, match=r"webhook\.headers\.Authorization"):
        configured(AlarmsConfig, plain)
    with pytest.raises(ConfigError, match=r"\[rule\] invalid every: '5 hours'"):
        configured(AlarmsConfig, {"rule.every": "5 hours"})
    with pytest.raises(ConfigError, match=r"invalid rule.value: 'clicks'"):
        configured(AlarmsConfig, {"rule.value": "clicks"})
