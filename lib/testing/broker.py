"""A real Kafka broker for tests, demos and notebooks: one JVM, up in some three seconds.

>>> from tidegate.testing import Broker
>>> with Broker.start() as broker:                                      # doctest: +SKIP
...     broker.create_topic("clicks", partitions=4)
...     events = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ..errors import SetupError
from ..runtime.process.installation import conf, jars, java
from ._secured import Certificate, joined
from ._topics import Topics
from .process import GuardedProcess, free_port, listening, until

_JVM = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
]
_START_SECONDS = 60.0


class Broker(Topics):
    """An embedded Kafka broker, as a context manager; `Broker.start()` returns one that is ready.

    It is Kafka itself: transactions, compaction, retention and consumer groups are those of
    production. There is one broker, on 127.0.0.1. It never outlives the process that started it.

    Args:
        dir: where its data lie, which stay and can be started again. Without it they lie in a
            temporary folder, which is removed when the broker stops.
        port: the port that it listens on; by default a free one.
        users: names and passwords. With them there is a second listener, at `secured`, with TLS and
            SASL (SCRAM-SHA-512); `options_of` gives what a client needs. The first listener stays
            open to all who reach it.

    Raises:
        SetupError: where Java or the jars are missing, the port is taken, or the broker does not
            come up; the message then quotes the broker's last words.
    """

    def __init__(
        self,
        dir: str | Path | None = None,
        *,
        port: int | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = dir is None
        folder = tempfile.mkdtemp(prefix="tidegate-broker-") if dir is None else dir
        self.dir = Path(folder).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self.log = self.dir / "broker.log"
        used = self._ports_of_last_time()
        self.port = port or used.get("PLAINTEXT") or free_port()
        self._controller_port = used.get("CONTROLLER") or free_port()
        self._users = dict(users or {})
        self._secured_port = used.get("SASL_SSL") or free_port()
        self._process: GuardedProcess | None = None

    @classmethod
    def start(
        cls,
        dir: str | Path | None = None,
        *,
        port: int | None = None,
        users: Mapping[str, str] | None = None,
    ) -> Broker:
        """Start a broker and wait until it answers."""
        broker = cls(dir, port=port, users=users)
        broker._up()
        return broker

    @property
    def servers(self) -> str:
        """The address, as `kafka.bootstrap.servers` takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def secured(self) -> str:
        """The address at which users alone are let in, by TLS and SASL."""
        return f"127.0.0.1:{self._secured_port}"

    def options_of(self, user: str) -> dict[str, str]:
        """Return the options by which a `KafkaSource` reads at `secured` as one of the users."""
        return self._certificate.client(user, self._users[user])

    @property
    def alive(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.alive

    def kill(self) -> None:
        """End the broker as a crash does, by SIGKILL; `restart` brings it back with its data."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Start the broker again on the same data and port, whether it runs or was killed."""
        if self._process is not None:
            self._process.stop()
        self._up()

    def stop(self) -> None:
        """Stop the broker, and remove its data if they are temporary."""
        if self._process is not None:
            # Temporary data need no clean shutdown, which takes a second.
            if self._temporary:
                self._process.kill()
            else:
                self._process.stop()
            self._process = None
        if self._temporary:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> Broker:
        if self._process is None:
            self._up()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _up(self) -> None:
        try:
            _require_free(self.port)
            _require_free(self._controller_port)
            if self._users:
                _require_free(self._secured_port)
            self._write_settings()
            self._format()
            self._process = GuardedProcess(
                [*self._java(), "kafka.Kafka", str(self.dir / "broker.properties")],
                self.log,
                name="the Kafka broker",
                scratch=self.dir if self._temporary else None,
            )
            until(
                self._answers,
                within=_START_SECONDS,
                what="the broker's first answer",
                process=self._process,
            )
            self._let_in(self._users)
        except BaseException:
            self.stop()
            raise

    def _write_settings(self) -> None:
        values = {
            "port": self.port,
            "controller_port": self._controller_port,
            "data": self._data,
        }
        settings = conf("broker.properties")
        for word, value in values.items():
            settings = settings.replace(f"{{{word}}}", str(value))
        if self._users:
            settings = joined(settings, self._certificate.settings(self._secured_port))
        (self.dir / "broker.properties").write_text(settings, encoding="utf-8")
        log4j = conf("broker-log4j2.properties")
        (self.dir / "log4j2.properties").write_text(log4j, encoding="utf-8")

    def _format(self) -> None:
        """Make the folder of the data, unless it is there from last time."""
        if (self._data / "meta.properties").exists():
            return
        tool = [*self._java(), "kafka.tools.StorageTool", "format", "-t", _cluster_id()]
        done = subprocess.run(
            [*tool, "--standalone", "-c", str(self.dir / "broker.properties")],
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
        )
        if done.returncode:
            raise SetupError(
                f"the broker's folder {self._data} could not be made:\n{done.stdout}{done.stderr}"
            )

    @cached_property
    def _certificate(self) -> Certificate:
        return Certificate.made(self.dir)

    @property
    def _data(self) -> Path:
        return self.dir / "data"

    def _java(self) -> list[str]:
        logs = [
            f"-Dlog4j2.configurationFile={self.dir / 'log4j2.properties'}",
            f"-Dbroker.log={self.log}",
        ]
        return [java(), *_JVM, *logs, "-cp", os.pathsep.join(map(str, jars("broker")))]

    def _answers(self) -> bool:
        return listening(self.port) and self._knows_brokers()

    def _ports_of_last_time(self) -> dict[str, int]:
        settings = self.dir / "broker.properties"
        if not settings.exists():
            return {}
        text = settings.read_text(encoding="utf-8")
        listeners = "".join(re.findall(r"^listeners=.*$", text, re.MULTILINE))
        pairs = re.findall(r"(\w+)://[^,:]+:(\d+)", listeners)
        return {name: int(port) for name, port in pairs}


def _require_free(port: int) -> None:
    if listening(port):
        raise SetupError(
            f"port {port} is taken.", "a free port.", "leave out port=, or stop its user."
        )


def _cluster_id() -> str:
    first, *rest = uuid.uuid4().bytes
    # With the highest bit clear the id begins with a letter; a dash would be taken for an option.
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
