"""`tidegate publish-changes` killed between topic and changelog: it sends each version once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.crash_leftovers import batches
from tests.support.spark_submit import at_once
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(600)]

VERSIONS = 4
KEYS = 50


def test_a_command_killed_between_its_targets_publishes_each_version_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    path = str(tmp_path / "t")
    rows = spark.range(KEYS).withColumn("v", F.lit(0).cast("int"))
    writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.save(path)
    for version in range(1, VERSIONS):
        spark.sql(f"UPDATE delta.`{path}` SET v = {version} WHERE id >= {10 * version}")
    changelog, sent = tmp_path / "changelog", tmp_path / "sent"
    arguments = [
        path, "--key", "id", "--changelog", str(changelog), "--topic", topic,
        "--sent", str(sent), "--servers", broker.bootstrap_servers,
    ]  # fmt: skip

    def started() -> GuardedProcess:
        command = [sys.executable, "-m", "tidegate", "publish-changes", *arguments]
        return GuardedProcess(
            command, tmp_path / "log", name="the command", env=submit_environment()
        )

    process = started()
    try:
        at_once(
            lambda: 1 in batches(tmp_path, "sent") or not process.is_alive,
            what="version 1 in the topic",
        )
    finally:
        process.kill()
    done = (batches(tmp_path, "sent"), batches(tmp_path, "changelog"))
    assert done == ([0, 1], [0]), f"the kill came too late:\n{process.tail(30)}"

    process = started()
    try:
        wait_until(lambda: not process.is_alive, timeout=300, event="the command's end")
    finally:
        process.kill()
    assert batches(tmp_path, "changelog") == batches(tmp_path, "sent") == [*range(VERSIONS)]
    expected = Counter((key, version) for version in range(VERSIONS)
                       for key in range(KEYS) if key >= 10 * version)  # fmt: skip
    log = spark.read.format("delta").load(str(changelog))
    assert Counter((row.key.id, row.position[0]) for row in log.collect()) == expected
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    raw = spark.read.format("kafka").options(**options, includeHeaders="true").load().collect()
    headers = [{each.key: bytes(each.value).decode() for each in row.headers} for row in raw]
    published = [
        (int(row.key), int(each["position"])) for row, each in zip(raw, headers, strict=True)
    ]
    assert Counter(published) == expected, "the topic already had the interrupted version"
