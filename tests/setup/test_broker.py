"""The embedded broker starts, retains its data over a crash, and cleans up."""

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
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import is_listening, wait_until

pytestmark = pytest.mark.broker


def produce(broker: Broker, topic: str, values: list[str]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
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
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []

    def all_arrived() -> bool:
        found.extend((message.value() or b"").decode() for message in consumer.consume(100, 0.5))
        return len(found) >= count

    wait_until(all_arrived, timeout=30, event=f"the arrival of {count} records")
    consumer.close()
    return sorted(found)


def test_produced_records_are_consumed(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=4, cleanup_policy="compact", retention_ms=60_000)
    produce(broker, topic, ["a", "b", "c"])
    assert consume(broker, topic, 3) == ["a", "b", "c"]
    assert broker.topics()[topic] == 4


@pytest.mark.jobs
def test_a_restarted_broker_has_its_data_and_port(topic: str) -> None:
    with Broker.start() as broker:
        address = broker.bootstrap_servers
        broker.create_topic(topic, partitions=2)
        produce(broker, topic, ["before"])
        broker.kill()
        assert not broker.is_alive
        broker.restart()
        assert broker.bootstrap_servers == address
        produce(broker, topic, ["after"])
        assert consume(broker, topic, 2) == ["after", "before"]
    assert not broker.dir.exists()
    assert not is_listening(broker.port)


@pytest.mark.jobs
def test_a_broker_reads_the_data_of_an_existing_folder(tmp_path: Path, topic: str) -> None:
    with Broker.start(tmp_path / "kafka") as first:
        first.create_topic(topic, partitions=3)
    with Broker.start(tmp_path / "kafka") as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert second.topics() == {topic: 3}


def test_a_port_in_use_raises_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(SetupError, match=r"port \d+ is in use"):
            Broker.start(port=listener.getsockname()[1])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_start_reports_the_cause(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text(
        "version=1\nnode.id=7\ncluster.id=other\n", encoding="utf-8"
    )
    with pytest.raises(SetupError, match=r"(?s)ended with code 1.*node"):
        broker.__enter__()


@pytest.mark.jobs
@pytest.mark.parametrize("has_own_folder", [False, True])
def test_no_broker_outlives_its_starter(tmp_path: Path, has_own_folder: bool) -> None:
    folder_argument = repr(str(tmp_path / "kafka")) if has_own_folder else ""
    script = (
        f"from tidegate.testing import Broker; b = Broker.start({folder_argument}); "
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
    wait_until(
        lambda: not is_listening(int(port)), timeout=20, event="the end of the orphaned broker"
    )
    if has_own_folder:
        assert Path(folder, "data", "meta.properties").exists()
    else:
        wait_until(lambda: not Path(folder).exists(), timeout=20, event="the removal of its folder")
