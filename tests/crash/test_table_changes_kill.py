"""`tidegate changes` killed between its topic and its changelog: each version is handed on once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.runtime.process.submit import environment
from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess, until

from .left import batches
from .submitted import at_once

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(600)]

VERSIONS = 4
KEYS = 50


def test_a_command_killed_between_its_targets_hands_each_version_on_once(
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
        "--sent", str(sent), "--servers", broker.servers,
    ]  # fmt: skip

    def started() -> GuardedProcess:
        command = [sys.executable, "-m", "tidegate", "changes", *arguments]
        return GuardedProcess(command, tmp_path / "log", name="the command", env=environment())

    process = started()
    try:
        at_once(
            lambda: 1 in batches(tmp_path, "sent") or not process.alive,
            what="version 1 in the topic",
        )
    finally:
        process.kill()
    done = (batches(tmp_path, "sent"), batches(tmp_path, "changelog"))
    assert done == ([0, 1], [0]), f"the kill came too late:\n{process.tail(30)}"

    process = started()
    try:
        until(lambda: not process.alive, within=300, what="the command's end")
    finally:
        process.kill()
    assert batches(tmp_path, "changelog") == batches(tmp_path, "sent") == [*range(VERSIONS)]
    expected = Counter((key, version) for version in range(VERSIONS)
                       for key in range(KEYS) if key >= 10 * version)  # fmt: skip
    log = spark.read.format("delta").load(str(changelog))
    assert Counter((row.key.id, row.position[0]) for row in log.collect()) == expected
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic}
    raw = spark.read.format("kafka").options(**options, includeHeaders="true").load().collect()
    headers = [{each.key: bytes(each.value).decode() for each in row.headers} for row in raw]
    told = [(int(row.key), int(each["position"])) for row, each in zip(raw, headers, strict=True)]
    assert Counter(told) == expected, "the topic had noted the version that was cut"
