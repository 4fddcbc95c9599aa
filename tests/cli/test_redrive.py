"""`tidegate redrive`: dead letters are sent exactly once, even across crashes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.cli.test_cli import invoke
from tests.support.raw_records import produce
from tidegate import Input, Job, Limits, run
from tidegate.formats import json_format
from tidegate.kafka.admin import Cluster
from tidegate.kafka.redrive import INTENDED, SENT, RedriveLog
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker
from tidegate.testing.crash_points import CrashError

AT = '"event_time": "2026-01-02T03:04:05Z"'


def views(broker: Broker, topic: str, path: str) -> Job:
    value_format = json_format("page string, event_time timestamp")
    source = KafkaSource(broker.bootstrap_servers, topic)
    clicks = Input(
        source, value_format, time="event_time", watermark_delay="1 minute", future_tolerance=None
    )
    limits = Limits(dead_ratio=None)
    return Job(name="views", inputs={"clicks": clicks}, sink=Append(path), limits=limits)


def crash_redrive(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Crash the command after it logs its intent, or before it logs what it sent."""
    append_entries = RedriveLog.append_entries

    def crash(self: RedriveLog, letters: DataFrame) -> None:
        now = letters.select("state").head()
        if now is None or now[0] != when:
            return append_entries(self, letters)
        if when == INTENDED:
            append_entries(self, letters)
        raise CrashError(when)

    monkeypatch.setattr(RedriveLog, "append_entries", crash)


@pytest.mark.crash
@pytest.mark.broker
def test_dead_letters_are_sent_once_across_crashes_of_the_command(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    good = [f'{{"page": "p{n}", {AT}}}'.encode() for n in range(3)]
    produce(broker.bootstrap_servers, topic, good)
    bad = [f'#{{"page": "q{n}", {AT}}}'.encode() for n in range(4)]
    produce(
        broker.bootstrap_servers,
        topic,
        [*bad, b"hopeless"],
        partition=1,
        headers=[("from", "phone")],
    )
    path = str(tmp_path / "views")
    run(views(broker, topic, path), spark)
    dead = f"{path}.dead_letters"
    command = ["redrive", dead, "--servers", broker.bootstrap_servers, "--where", "value LIKE '#%'"]
    repair = ["--repair", "substring(value, 2)"]

    code, output = invoke(*command, *repair, "--dry-run")
    assert (code, "4 dead letters would be sent" in output) == (0, True), output
    with monkeypatch.context() as patch:
        crash_redrive(patch, INTENDED)
        assert invoke(*command, *repair)[0] == 1
    with monkeypatch.context() as patch:
        crash_redrive(patch, SENT)
        assert invoke(*command, *repair, "--where", "offset < 3")[0] == 1
    for sent, remaining in ((1, 1), (0, 1)):
        code, output = invoke(*command, *repair)
        assert code == 0, output
        assert f"{sent} dead letters sent.\n{remaining} remain" in output

    row = {"topic": topic, "partition": 1, "offset": 4, "value": f'{{"page": "r", {AT}}}'}
    lines = tmp_path / "repaired.jsonl"
    lines.write_text(json.dumps({**row, "offset": 9}) + "\n", encoding="utf-8")
    code, output = invoke(*command[:4], "--repaired", str(lines))
    assert (code, "offset 9 is not in the table" in output) == (2, True), output
    lines.write_text(json.dumps({**row, "value": None}) + "\n", encoding="utf-8")
    code, output = invoke(*command[:4], "--repaired", str(lines))
    assert (code, "0 dead letters sent.\n1 were not sent" in output) == (0, True), output
    lines.write_text(json.dumps(row) + "\n", encoding="utf-8")
    for sent in (1, 0):
        code, output = invoke(*command[:4], "--repaired", str(lines))
        assert (code, f"{sent} dead letters sent.\n0 remain" in output) == (0, True), output

    run(views(broker, topic, path), spark)
    rows = spark.read.format("delta").load(path).collect()
    expected = [*(f"p{n}" for n in range(3)), *(f"q{n}" for n in range(4)), "r"]
    assert sorted(row.page for row in rows) == expected
    assert spark.read.format("delta").load(dead).count() == 5


@pytest.mark.crash
@pytest.mark.broker
def test_a_crashed_run_can_only_be_resumed_against_the_same_cluster(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another cluster does not have the sent records, and would receive duplicates."""
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [b"#"])
    path = str(tmp_path / "views")
    run(views(broker, topic, path), spark)
    command = ["redrive", f"{path}.dead_letters", "--servers"]
    with monkeypatch.context() as patch:
        crash_redrive(patch, SENT)
        assert invoke(*command, broker.bootstrap_servers)[0] == 1
    with Broker.start() as other:
        other.create_topic(topic, partitions=1)
        code, output = invoke(*command, other.bootstrap_servers)
        assert (code, f"{topic} at {other.bootstrap_servers} has the id" in output) == (3, True), (
            output
        )
        assert Cluster(other.bootstrap_servers).end_offsets({topic: [0]}) == {(topic, 0): 0}
    code, output = invoke(*command, broker.bootstrap_servers)
    assert (code, "0 dead letters sent.\n0 remain" in output) == (0, True), output


@pytest.mark.jobs
@pytest.mark.broker
def test_a_dry_run_needs_no_broker_and_leaves_an_unfinished_redrive_to_the_next_run(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [b"#", b"#"])
    path = str(tmp_path / "views")
    run(views(broker, topic, path), spark)
    dead = f"{path}.dead_letters"
    command = ["redrive", dead, "--servers"]
    dry_run = [*command, "127.0.0.1:1", "--dry-run"]
    assert invoke(*dry_run) == (0, f"2 dead letters would be sent.\n2 remain in {dead}.\n")
    assert not Path(f"{dead}.redriven").exists()
    with monkeypatch.context() as patch:
        crash_redrive(patch, SENT)
        assert invoke(*command, broker.bootstrap_servers, "--where", "offset = 0")[0] == 1
    code, output = invoke(*dry_run)
    assert (code, output.splitlines()[2][:53]) == (
        0, "1 belong to a redrive that has not finished. Without "
    )  # fmt: skip
    code, output = invoke(*command, broker.bootstrap_servers)
    assert (code, "1 dead letters sent.\n0 remain" in output) == (0, True), output


@pytest.mark.slow
def test_an_invalid_redrive_fails(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    code, output = invoke("redrive", path)
    assert (code, "not a Delta table" in output) == (2, True), output
    spark.range(1).write.format("delta").save(path)
    code, output = invoke("redrive", path)
    assert (code, "missing columns headers, key, offset" in output) == (2, True), output
    code, output = invoke("redrive", path, "--repair", "value", "--repaired", "f")
    assert (code, "--repair and --repaired" in output) == (2, True), output
