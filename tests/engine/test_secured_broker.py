"""A job that reads over TLS and SASL, and does not disclose its password."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.secured_broker import SecuredBroker
from tidegate.kafka.producer import Record, deliver
from tidegate.sources import KafkaSource
from tidegate.sources.topics import topic_states
from tidegate.spark.jars import project_root
from tidegate.testing.child_process import spark_submit_command, submit_environment

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

CANARY = "canary-b5d0e1c7"
SENT_MS = 1_772_442_600_000
CONFIG = """
[kafka]
bootstrap_servers = "{servers}"
[kafka.options]
"kafka.sasl.jaas.config" = "env:TIDEGATE_TEST_LOGIN"
{options}
[events]
topics = ["secured"]
schema = "event_id string, event_time timestamp"
watermark_delay = "10 seconds"
[deduplicate]
key = ["event_id"]
within = "1 minute"
max_delay = "1 minute"
[output]
root = "{root}"
"""


@pytest.fixture(scope="module")
def secured_broker() -> Iterator[SecuredBroker]:
    """A broker with one user."""
    with SecuredBroker("reader", CANARY) as broker:
        broker.create_topic("secured", retention_ms=-1)
        yield broker


def test_a_job_reads_over_tls_and_sasl_without_writing_its_password_anywhere(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    times = ["2026-03-02T09:00:00Z", "2026-03-02T09:10:00Z", "nonsense"]
    records = [{"event_id": str(number), "event_time": at} for number, at in enumerate(times)]
    deliver(
        secured_broker.bootstrap_servers,
        [Record("secured", json.dumps(record).encode(), SENT_MS) for record in records],
    )
    options = secured_broker.client_options
    login = options.pop("kafka.sasl.jaas.config")
    options_toml = "\n".join(f'"{name}" = "{value}"' for name, value in options.items())
    root, events = tmp_path / "tables", tmp_path / "events"
    events.mkdir()
    (tmp_path / "job.toml").write_text(
        CONFIG.format(
            servers=secured_broker.secure_bootstrap_servers, options=options_toml, root=root
        ),
        encoding="utf-8",
    )
    conf = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    script = project_root() / "jobs" / "deduplicated.py"
    arguments = ("--config", str(tmp_path / "job.toml"), "--verbose", "--log-json")
    done = subprocess.run(
        spark_submit_command(script, *arguments, conf=conf),
        env=submit_environment({"TIDEGATE_TEST_LOGIN": login}),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-4_000:]
    assert [row["event_id"] for row in rows(root / "events")] == ["0"]
    assert [row["offset"] for row in rows(root / "dead_letters")] == [2]
    written = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.startswith(str(events)) and content for name, content in written.items())
    written |= {"standard output": done.stdout, "standard error": done.stderr}
    assert [name for name, content in written.items() if CANARY.encode() in content] == []


def test_the_error_for_a_wrong_password_does_not_contain_it(
    secured_broker: SecuredBroker, spark: SparkSession
) -> None:
    options = secured_broker.client_options
    login = options["kafka.sasl.jaas.config"]
    wrong = {**options, "kafka.sasl.jaas.config": login.replace(CANARY, f"not-{CANARY}")}
    source = KafkaSource(secured_broker.secure_bootstrap_servers, "secured", options=options)
    assert topic_states(spark, source)["secured"].partitions == 1
    with pytest.raises(OSError, match="SaslAuthentication") as error:
        topic_states(
            spark, KafkaSource(secured_broker.secure_bootstrap_servers, "secured", options=wrong)
        )
    assert CANARY not in str(error.value)
