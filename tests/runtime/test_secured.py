"""A job that reads by TLS and SASL: it reads, and tells its password to nobody."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.tables import rows
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import command, environment
from tidegate.sources import KafkaSource
from tidegate.sources.topics import topic_states
from tidegate.testing import Broker
from tidegate.testing.delivery import Record, deliver

pytestmark = pytest.mark.broker

CANARY = "canary-b5d0e1c7"
SENT_MS = 1_772_442_600_000
CONFIG = """
[kafka]
servers = "{servers}"
[kafka.options]
"kafka.sasl.jaas.config" = "env:TIDEGATE_TEST_LOGIN"
{options}
[events]
topics = ["secured"]
schema = "event_id string, event_time timestamp"
lateness = "10 seconds"
[deduplicate]
key = ["event_id"]
horizon = "1 minute"
hold = "1 minute"
[output]
root = "{root}"
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker that lets one user in."""
    with Broker.start(users={"reader": CANARY}) as broker:
        broker.create_topic("secured", retention_ms=-1)
        yield broker


def test_a_job_reads_by_tls_and_sasl_and_its_password_is_in_no_byte_that_it_writes(
    guarded: Broker, tmp_path: Path
) -> None:
    times = ["2026-03-02T09:00:00Z", "2026-03-02T09:10:00Z", "nonsense"]
    records = [{"event_id": str(number), "event_time": at} for number, at in enumerate(times)]
    deliver(
        guarded.servers,
        [Record("secured", json.dumps(record).encode(), SENT_MS) for record in records],
    )
    options = guarded.options_of("reader")
    login = options.pop("kafka.sasl.jaas.config")
    shown = "\n".join(f'"{name}" = "{value}"' for name, value in options.items())
    root, events = tmp_path / "tables", tmp_path / "events"
    events.mkdir()
    (tmp_path / "job.toml").write_text(
        CONFIG.format(servers=guarded.secured, options=shown, root=root), encoding="utf-8"
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
        command(script, *arguments, conf=conf),
        env=environment({"TIDEGATE_TEST_LOGIN": login}),
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


def test_a_wrong_password_is_told_by_an_error_that_does_not_have_it(
    guarded: Broker, spark: SparkSession
) -> None:
    options = guarded.options_of("reader")
    login = options["kafka.sasl.jaas.config"]
    wrong = {**options, "kafka.sasl.jaas.config": login.replace(CANARY, f"not-{CANARY}")}
    source = KafkaSource(guarded.secured, "secured", options=options)
    assert topic_states(spark, source)["secured"].partitions == 1
    with pytest.raises(OSError, match="SaslAuthentication") as told:
        topic_states(spark, KafkaSource(guarded.secured, "secured", options=wrong))
    assert CANARY not in str(told.value)
