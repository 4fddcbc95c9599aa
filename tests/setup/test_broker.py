"""The embedded broker: starts, keeps its data over a crash, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tidegate.errors import SetupError
from tidegate.runtime.process.installation import project_root
from tidegate.testing import Broker
from tidegate.testing.process import listening, until

pytestmark = pytest.mark.broker


def produce(broker: Broker, topic: str, values: list[str]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for value in values:
        producer.produce(
            topic,
            value,
            key=value,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


def consume(broker: Broker, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []

    def arrived() -> bool:
        found.extend((message.value() or b"").decode() for message in consumer.consume(100, 0.5))
        return len(found) >= count

    until(arrived, within=30, what=f"the arrival of {count} records")
    consumer.close()
    return sorted(found)


def test_what_is_produced_is_consumed(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=4, cleanup_policy="compact", retention_ms=60_000)
    produce(broker, topic, ["a", "b", "c"])
    assert consume(broker, topic, 3) == ["a", "b", "c"]
    assert broker.topics()[topic] == 4


def test_a_killed_broker_comes_back_with_its_data_and_port(topic: str) -> None:
    with Broker.start() as broker:
        address = broker.servers
        broker.create_topic(topic, partitions=2)
        produce(broker, topic, ["before"])
        broker.kill()
        assert not broker.alive
        broker.restart()
        assert broker.servers == address
        produce(broker, topic, ["after"])
        assert consume(broker, topic, 2) == ["after", "before"]
    assert not broker.dir.exists()
    assert not listening(broker.port)


def test_a_folder_given_keeps_the_data_for_the_next_broker(tmp_path: Path, topic: str) -> None:
    with Broker.start(tmp_path / "kafka") as first:
        first.create_topic(topic, partitions=3)
    with Broker.start(tmp_path / "kafka") as second:
        assert second.servers == first.servers
        assert second.topics() == {topic: 3}


def test_a_port_in_use_is_refused_and_nothing_left_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SetupError, match=r"port \d+ is taken"):
            Broker.start(port=taken.getsockname()[1])
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_dies_says_why(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text(
        "version=1\nnode.id=7\ncluster.id=other\n", encoding="utf-8"
    )
    with pytest.raises(SetupError, match=r"(?s)ended with code 1.*node"):
        broker.__enter__()


def test_no_broker_outlives_its_starter() -> None:
    script = (
        "from tidegate.testing import Broker; b = Broker.start(); "
        "print(b.port, b.dir, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=project_root(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        port, folder = starter.stdout.readline().split()
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
    until(lambda: not listening(int(port)), within=20, what="the end of the orphaned broker")
    until(lambda: not Path(folder).exists(), within=20, what="the removal of its folder")
