"""Dead letters that go back: once, whatever dies, and counted once by the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.command.kafka import Cluster
from tidegate.command.redriven import INTENDED, SENT, Redriven
from tidegate.formats import json_format
from tidegate.runtime import Input, Job, Limits, run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker
from tidegate.testing.crash import CrashError

from ..sources.raw import produce
from .test_command import called

AT = '"event_time": "2026-01-02T03:04:05Z"'


def views(broker: Broker, topic: str, path: str) -> Job:
    form = json_format("page string, event_time timestamp")
    source = KafkaSource(broker.servers, topic)
    reading = Reading(source, form, time="event_time", lateness="1 minute", future_tolerance=None)
    limits = Limits(dead_ratio=None)
    return Job(name="views", inputs={"clicks": Input(reading)}, sink=Append(path), limits=limits)


def dying(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Let the command die after it has noted what it intends, or before it notes what it sent."""
    note = Redriven.note

    def die(self: Redriven, letters: DataFrame) -> None:
        now = letters.select("state").head()
        if now is None or now[0] != when:
            return note(self, letters)
        if when == INTENDED:
            note(self, letters)
        raise CrashError(when)

    monkeypatch.setattr(Redriven, "note", die)


@pytest.mark.crash
@pytest.mark.broker
def test_dead_letters_go_back_once_wherever_the_command_dies(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    good = [f'{{"page": "p{n}", {AT}}}'.encode() for n in range(3)]
    produce(broker.servers, topic, good)
    bad = [f'#{{"page": "q{n}", {AT}}}'.encode() for n in range(4)]
    produce(broker.servers, topic, [*bad, b"hopeless"], partition=1, headers=[("from", "phone")])
    path = str(tmp_path / "views")
    run(views(broker, topic, path), spark)
    dead = f"{path}.dead_letters"
    command = ["redrive", dead, "--servers", broker.servers, "--where", "value LIKE '#%'"]
    repair = ["--repair", "substring(value, 2)"]

    code, said = called(*command, *repair, "--dry-run")
    assert (code, "4 dead letters would go back" in said) == (0, True), said
    with monkeypatch.context() as patch:
        dying(patch, INTENDED)
        assert called(*command, *repair)[0] == 1
    with monkeypatch.context() as patch:
        dying(patch, SENT)
        assert called(*command, *repair, "--where", "offset < 3")[0] == 1
    for went, left in ((1, 1), (0, 1)):
        code, said = called(*command, *repair)
        assert code == 0, said
        assert f"{went} dead letters went back.\n{left} are left" in said

    row = {"topic": topic, "partition": 1, "offset": 4, "value": f'{{"page": "r", {AT}}}'}
    lines = tmp_path / "repaired.jsonl"
    lines.write_text(json.dumps({**row, "offset": 9}) + "\n", encoding="utf-8")
    code, said = called(*command[:4], "--repaired", str(lines))
    assert (code, "offset 9, which is no dead letter" in said) == (2, True), said
    lines.write_text(json.dumps({**row, "value": None}) + "\n", encoding="utf-8")
    code, said = called(*command[:4], "--repaired", str(lines))
    assert (code, "0 dead letters went back.\n1 were not sent" in said) == (0, True), said
    lines.write_text(json.dumps(row) + "\n", encoding="utf-8")
    for went in (1, 0):
        code, said = called(*command[:4], "--repaired", str(lines))
        assert (code, f"{went} dead letters went back.\n0 are left" in said) == (0, True), said

    run(views(broker, topic, path), spark)
    found = spark.read.format("delta").load(path).collect()
    wanted = [*(f"p{n}" for n in range(3)), *(f"q{n}" for n in range(4)), "r"]
    assert sorted(row.page for row in found) == wanted
    assert spark.read.format("delta").load(dead).count() == 5


@pytest.mark.crash
@pytest.mark.broker
def test_a_run_that_died_is_asked_after_where_it_was_sending(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another cluster knows nothing of what was sent, and would be sent it once more."""
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.servers, topic, [b"#"])
    path = str(tmp_path / "views")
    run(views(broker, topic, path), spark)
    command = ["redrive", f"{path}.dead_letters", "--servers"]
    with monkeypatch.context() as patch:
        dying(patch, SENT)
        assert called(*command, broker.servers)[0] == 1
    with Broker.start() as other:
        other.create_topic(topic, partitions=1)
        code, said = called(*command, other.servers)
        assert (code, f"{topic} at {other.servers} has the id" in said) == (3, True), said
        assert Cluster(other.servers).ends({topic: [0]}) == {(topic, 0): 0}
    code, said = called(*command, broker.servers)
    assert (code, "0 dead letters went back.\n0 are left" in said) == (0, True), said


@pytest.mark.slow
def test_a_wrong_redrive_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    code, said = called("redrive", path)
    assert (code, f"{path} is no Delta table" in said) == (2, True), said
    spark.range(1).write.format("delta").save(path)
    code, said = called("redrive", path)
    assert (code, "has no headers, key, offset" in said) == (2, True), said
    code, said = called("redrive", path, "--repair", "value", "--repaired", "f")
    assert (code, "there are --repair and --repaired" in said) == (2, True), said
