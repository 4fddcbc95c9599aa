"""`tidegate publish-changes` killed between topic and changelog: it sends each version once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.cli.test_cli import invoke
from tests.support.crash_leftovers import batches
from tests.support.killed_steps import Step, kill_at
from tests.support.spark_submit import at_once
from tidegate.sinks.kafka.kafka_sink import ID_HEADER
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(600)]

VERSIONS = 4
KEYS = 50


SENT_NOT_RECORDED = Step("tidegate.sinks.kafka.kafka_sink:KafkaTarget._send_records")
BEFORE_RECORD = Step("tidegate.commit.delta_commit:DeltaCommitter.commit", before=True)
RECORDED = Step("tidegate.commit.delta_commit:DeltaCommitter.commit")
BETWEEN_VERSIONS = Step("tidegate.commit.delta_commit:DeltaCommitter.commit", 2)


class ChangedTable:
    """A table with versions, and the command that publishes them to a topic and a changelog."""

    def __init__(self, spark: SparkSession, broker: Broker, topic: str, root: Path) -> None:
        broker.create_topic(topic, partitions=2, retention_ms=-1)
        self.spark, self.broker, self.topic, self.root = spark, broker, topic, root
        path = str(root / "t")
        rows = spark.range(KEYS).withColumn("v", F.lit(0).cast("int"))
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.save(path)
        for version in range(1, VERSIONS):
            spark.sql(f"UPDATE delta.`{path}` SET v = {version} WHERE id >= {10 * version}")
        self.command = [
            "publish-changes", path, "--key", "id", "--changelog", str(root / "changelog"),
            "--topic", topic, "--sent", str(root / "sent"), "--servers", broker.bootstrap_servers,
        ]  # fmt: skip

    def require_each_version_once(self, *, resent: int = 0) -> None:
        """Require each change once in the changelog, and by its record id in the topic.

        resent: the number of versions whose records a killed run has sent without recording it.
        """
        assert batches(self.root, "changelog") == batches(self.root, "sent") == [*range(VERSIONS)]
        expected = Counter((key, version) for version in range(VERSIONS)
                           for key in range(KEYS) if key >= 10 * version)  # fmt: skip
        log = self.spark.read.format("delta").load(str(self.root / "changelog"))
        assert Counter((row.key.id, row.position.offset) for row in log.collect()) == expected
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": self.topic,
            "includeHeaders": "true",
        }
        published: dict[str, tuple[int, int]] = {}
        records = self.spark.read.format("kafka").options(**options).load().collect()
        for record in records:
            headers = {each.key: bytes(each.value).decode() for each in record.headers}
            change = int(record.key), int(headers["position"])
            assert published.setdefault(headers[ID_HEADER], change) == change
        assert Counter(published.values()) == expected
        assert len(records) <= len(published) + resent * KEYS


def test_a_command_killed_between_its_targets_publishes_each_version_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    changed = ChangedTable(spark, broker, topic, tmp_path)
    command = [sys.executable, "-m", "tidegate", *changed.command]
    process = GuardedProcess(
        command, tmp_path / "log", name="the command", env=submit_environment()
    )
    try:
        at_once(
            lambda: 1 in batches(tmp_path, "sent") or not process.is_alive,
            what="version 1 in the topic",
        )
    finally:
        process.kill()
    done = (batches(tmp_path, "sent"), batches(tmp_path, "changelog"))
    assert done == ([0, 1], [0]), f"the kill came too late:\n{process.tail(30)}"

    code, output = invoke(*changed.command)
    assert code == 0, output
    changed.require_each_version_once()


@pytest.mark.draws(
    "steps",
    short=[(SENT_NOT_RECORDED,)],
    long=[(SENT_NOT_RECORDED, BEFORE_RECORD, RECORDED, BETWEEN_VERSIONS)],
    ids=lambda steps: f"{len(steps)} kills",
)
def test_a_command_killed_at_each_step_publishes_each_version_once(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    changed = ChangedTable(spark, broker, topic, tmp_path)
    for step in steps:
        kill_at(step, *changed.command, log=tmp_path / "log")
    code, output = invoke(*changed.command)
    assert code == 0, output
    changed.require_each_version_once(
        resent=sum(step in (SENT_NOT_RECORDED, BEFORE_RECORD) for step in steps)
    )
