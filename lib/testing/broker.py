"""An embedded Kafka broker for tests, demos and notebooks: one JVM, started in three seconds."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from ..errors import SetupError
from ..spark.jars import jars, java_path, read_conf
from .child_process import GuardedProcess, free_port, is_listening, wait_until

_JVM = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
]
_START_SECONDS = 60.0


class Broker:
    """An embedded Kafka broker as a context manager; `Broker.start()` returns a running one.

    It is a complete Kafka broker on 127.0.0.1, with transactions, compaction, retention and
    consumer groups. It never outlives the process that started it.

    Args:
        dir: the data folder, which remains after a stop and can be reused. By default a temporary
            folder, which is removed when the broker stops.
        port: the port of the listener; by default a free port.

    Raises:
        SetupError: if Java or the jars are missing, the port is in use, or the broker does not
            start; the message then has the last lines of its log.

    >>> from tidegate.testing import Broker
    >>> with Broker.start() as broker:                                      # doctest: +SKIP
    ...     broker.create_topic("clicks", partitions=4)
    ...     events = spark.readStream.format("kafka").option(
    ...         "kafka.bootstrap.servers", broker.bootstrap_servers
    ...     )
    """

    def __init__(self, dir: str | Path | None = None, *, port: int | None = None) -> None:
        self._is_temporary = dir is None
        folder = tempfile.mkdtemp(prefix="tidegate-broker-") if dir is None else dir
        self.dir = Path(folder).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self.log = self.dir / "broker.log"
        previous_ports = self._previous_ports()
        self.port = port or previous_ports.get("PLAINTEXT") or free_port()
        self._controller_port = previous_ports.get("CONTROLLER") or free_port()
        self._process: GuardedProcess | None = None

    @classmethod
    def start(cls, dir: str | Path | None = None, *, port: int | None = None) -> Broker:
        """Start a broker and wait until it is ready."""
        broker = cls(dir, port=port)
        broker._start_process()
        return broker

    @property
    def bootstrap_servers(self) -> str:
        """The value of `kafka.bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether the broker's process is running."""
        return self._process is not None and self._process.is_alive

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as a crash does; `restart` starts it on the same data."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Restart a running or killed broker on the same data and port."""
        if self._process is not None:
            self._process.stop()
        self._start_process()

    def stop(self) -> None:
        """Stop the broker and remove temporary data."""
        if self._process is not None:
            # A clean shutdown takes a second; temporary data do not need it.
            if self._is_temporary:
                self._process.kill()
            else:
                self._process.stop()
            self._process = None
        if self._is_temporary:
            shutil.rmtree(self.dir, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, **config: str | int | bool) -> str:
        """Create a topic and return its name.

        `config` are topic configurations of Kafka with `_` for dots: `cleanup_policy="compact"`.

        Raises:
            KafkaException: from Kafka, for example if the topic exists.
        """
        settings = {key.replace("_", "."): _option_text(value) for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self._admin.create_topics([topic], operation_timeout=30)[name].result(30)
        self._wait_for_partitions(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        self._admin.delete_topics([name], operation_timeout=30)[name].result(30)
        self._wait_for_partitions(name, 0)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the number of partitions of a topic to `total`."""
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        self._wait_for_partitions(name, total)

    def delete_records(self, name: str, before_offsets: Mapping[int, int]) -> None:
        """Delete the records before an offset per partition, as retention does."""
        partitions = [TopicPartition(name, part, offset) for part, offset in before_offsets.items()]
        for future in self._admin.delete_records(partitions).values():
            future.result(30)

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without internal topics."""
        counts = self._partition_counts()
        return {name: count for name, count in counts.items() if not name.startswith("__")}

    def __enter__(self) -> Self:
        if self._process is None:
            self._start_process()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_process(self) -> None:
        try:
            _require_free_port(self.port)
            _require_free_port(self._controller_port)
            self._write_settings()
            self._format_data_folder()
            self._process = GuardedProcess(
                [*self._java_command(), "kafka.Kafka", str(self.dir / "broker.properties")],
                self.log,
                name="the Kafka broker",
                scratch=self.dir if self._is_temporary else None,
            )
            wait_until(
                lambda: is_listening(self.port) and self._lists_brokers(),
                timeout=_START_SECONDS,
                event="the start of the broker",
                process=self._process,
            )
        except BaseException:
            self.stop()
            raise

    def _write_settings(self) -> None:
        values = {
            "port": self.port,
            "controller_port": self._controller_port,
            "data": self._data_folder,
        }
        settings = read_conf("broker.properties")
        for placeholder, value in values.items():
            settings = settings.replace(f"{{{placeholder}}}", str(value))
        (self.dir / "broker.properties").write_text(settings, encoding="utf-8")
        log4j = read_conf("broker-log4j2.properties")
        (self.dir / "log4j2.properties").write_text(log4j, encoding="utf-8")

    def _format_data_folder(self) -> None:
        """Create the data folder if it does not exist."""
        if (self._data_folder / "meta.properties").exists():
            return
        tool = [*self._java_command(), "kafka.tools.StorageTool", "format", "-t", _cluster_id()]
        process = subprocess.run(
            [*tool, "--standalone", "-c", str(self.dir / "broker.properties")],
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
        )
        if process.returncode:
            raise SetupError(
                f"cannot format the broker's data folder {self._data_folder}",
                f"{process.stdout}{process.stderr}".strip(),
            )

    @property
    def _data_folder(self) -> Path:
        return self.dir / "data"

    def _java_command(self) -> list[str]:
        logs = [
            f"-Dlog4j2.configurationFile={self.dir / 'log4j2.properties'}",
            f"-Dbroker.log={self.log}",
        ]
        return [java_path(), *_JVM, *logs, "-cp", os.pathsep.join(map(str, jars("broker")))]

    def _previous_ports(self) -> dict[str, int]:
        settings = self.dir / "broker.properties"
        if not settings.exists():
            return {}
        text = settings.read_text(encoding="utf-8")
        listeners = "".join(re.findall(r"^listeners=.*$", text, re.MULTILINE))
        pairs = re.findall(r"(\w+)://[^,:]+:(\d+)", listeners)
        return {name: int(port) for name, port in pairs}

    def _partition_counts(self) -> dict[str, int]:
        topics = self._admin.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def _wait_for_partitions(self, name: str, partitions: int) -> None:
        """Wait until the broker's metadata of a topic has this number of partitions.

        The controller responds first; the broker's metadata follows within up to a second.
        """
        wait_until(
            lambda: self._partition_counts().get(name, 0) == partitions,
            timeout=30,
            event=f"metadata with {partitions} partitions of {name}",
        )

    def _lists_brokers(self) -> bool:
        with contextlib.suppress(KafkaException):
            return bool(self._admin.list_topics(timeout=2).brokers)
        return False

    @cached_property
    def _admin(self) -> AdminClient:
        # log_level=0 suppresses messages on refused connections while the broker starts.
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}
        return AdminClient(settings, logger=logging.getLogger(__name__))


def _require_free_port(port: int) -> None:
    if is_listening(port):
        raise SetupError(
            f"port {port} is in use", remedy="omit port=, or stop the process that uses it"
        )


def _cluster_id() -> str:
    first, *rest = uuid.uuid4().bytes
    # A cleared highest bit makes the id start with a letter; a dash would be parsed as an option.
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _option_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
