"""Kafka Connect with Debezium's connectors, as a separate process."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.postgres_server import PASSWORD, Server
from tidegate.errors import SetupError
from tidegate.spark.jars import java_path, project_root
from tidegate.testing.child_process import (
    C1_COMPILER_OPTIONS,
    GuardedProcess,
    free_port,
    wait_until,
)

JARS = project_root() / ".jars" / "tests" / "connect"
MARKERS = "public.sent_markers"
"""The table of a captured database into which a test inserts while it waits for the connector."""
SIGNALS = "public.debezium_signals"
_OWN_TABLES = {
    MARKERS: "n bigserial PRIMARY KEY",
    SIGNALS: "id text PRIMARY KEY, type text, data text",
}
_START_SECONDS = 120.0
_CATCH_UP_SECONDS = 120.0
_LOG4J = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class Connect:
    """Kafka Connect in standalone mode, which stores offsets of connectors in a file.

    A connector must be configured again after a restart; it then continues at its offsets. The
    process never outlives the process that started it.
    """

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.folder = folder
        self.bootstrap_servers = bootstrap_servers
        self.port = free_port()
        self.connectors: dict[str, dict[str, str]] = {}
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start the process, and wait until its connectors run."""
        jar_files = sorted(JARS.glob("*.jar"))
        if not jar_files:
            raise SetupError(f"no jars in {JARS}", remedy="make setup")
        (self.folder / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
        worker = self.folder / "worker.properties"
        worker.write_text(_properties(self._worker_settings()), encoding="utf-8")
        self._process = GuardedProcess(
            [
                java_path(),
                *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", *C1_COMPILER_OPTIONS.split()),
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                *("-cp", os.pathsep.join(map(str, jar_files))),
                "org.apache.kafka.connect.cli.ConnectStandalone",
                str(worker),
            ],
            self.folder / "connect.log",
            name="Kafka Connect",
            scratch=self.folder,
        )
        self._wait_until(self._responds, "the start of Kafka Connect", _START_SECONDS)
        for name in self.connectors:
            self._start_connector(name)

    def add(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a connector, and wait until it runs."""
        self.connectors[name] = dict(settings)
        self._start_connector(name)

    def remove(self, name: str) -> None:
        """Stop a connector."""
        del self.connectors[name]
        self._request("DELETE", f"/connectors/{name}")

    def kill(self) -> None:
        """Kill the process with SIGKILL; `start` starts it again on the same offsets."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """Stop the process as an operator does: connectors commit their offsets."""
        if self._process is not None:
            self._process.stop()

    def wait_until(self, condition: Callable[[], bool], event: str) -> None:
        """Wait until a condition is true; raise SetupError if a connector fails."""

        def is_met() -> bool:
            if condition():
                return True
            for name in self.connectors:
                self._require_running(name)
            return False

        self._wait_until(is_met, event, _CATCH_UP_SECONDS)

    def _worker_settings(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "listeners": f"http://127.0.0.1:{self.port}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "200",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "plugin.discovery": "service_load",
        }

    def _start_connector(self, name: str) -> None:
        self._request("PUT", f"/connectors/{name}/config", self.connectors[name])
        self._wait_until(lambda: self._runs(name), f"the start of {name}", _START_SECONDS)

    def _runs(self, name: str) -> bool:
        try:
            status = self._require_running(name)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return any(task["state"] == "RUNNING" for task in status["tasks"])

    def _require_running(self, name: str) -> Any:
        """Return the status of a connector; raise SetupError if it or its task has failed."""
        status = self._request("GET", f"/connectors/{name}/status")
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                raise SetupError(f"{name} failed", str(part.get("trace"))[:2_000])
        return status

    def _responds(self) -> bool:
        try:
            self._request("GET", "/connectors")
        except OSError:
            return False
        return True

    def _request(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise
            raise SetupError(
                f"Kafka Connect: {method} {path}: {error.code}", error.read().decode()[:2_000]
            ) from None
        return json.loads(text) if text else None

    def _wait_until(self, condition: Callable[[], bool], event: str, timeout: float) -> None:
        wait_until(condition, timeout=timeout, event=event, process=self._process)


@contextmanager
def connect(bootstrap_servers: str) -> Iterator[Connect]:
    """Start Kafka Connect in a temporary folder; stop it and remove the folder at the end."""
    with tempfile.TemporaryDirectory(prefix="tidegate-connect-") as folder:
        process = Connect(Path(folder), bootstrap_servers)
        try:
            process.start()
            yield process
        finally:
            process.kill()


class PostgresCapture:
    """A connector that captures tables of a PostgreSQL database.

    The topic of a table is `<prefix>.<schema>.<table>`; `prefix` is unique in a broker. Snapshots
    of tables can be requested in the signal table. All options have Debezium's defaults, except
    those given.
    """

    def __init__(
        self, connect: Connect, server: Server, database: str, prefix: str, **options: str
    ) -> None:
        self.connect = connect
        self.server = server
        self.database = database
        self.prefix = prefix
        self.slot = re.sub(r"\W", "_", prefix)
        self.settings = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.password": PASSWORD,
            "database.dbname": database,
            "topic.prefix": prefix,
            "plugin.name": "pgoutput",
            "slot.name": self.slot,
            "publication.name": self.slot,
            "signal.data.collection": SIGNALS,
            # The embedded broker does not create topics by itself.
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def start(self) -> None:
        """Start the connector, which takes a snapshot of the tables and then follows the log."""
        for table, columns in _OWN_TABLES.items():
            self.run(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        self.connect.add(self.prefix, self.settings)
        self.wait_until_streaming()

    def wait_until_streaming(self) -> None:
        """Wait until the snapshot is complete and the connector follows the log."""
        self.connect.wait_until(self._is_read, f"streaming of {self.database}")

    def stop(self) -> None:
        """Stop the connector, and delete its replication slot."""
        self.connect.remove(self.prefix)
        self.connect.wait_until(lambda: not self._is_read(), "the release of the slot")
        self.run("SELECT pg_drop_replication_slot(%(slot)s)", slot=self.slot)

    def run(self, statement: str, **values: Any) -> list[list[Any]]:
        """Run a statement in the database; return its rows."""
        return self.server.run(statement, self.database, **values)

    def topic(self, table: str) -> str:
        """Return the topic of a table."""
        return f"{self.prefix}.{table}"

    def take_snapshot(self, *tables: str) -> None:
        """Request an incremental snapshot of tables."""
        data = json.dumps({"type": "incremental", "data-collections": tables})
        self.run(
            f"INSERT INTO {SIGNALS} VALUES (gen_random_uuid(), 'execute-snapshot', %(data)s)",
            data=data,
        )

    def wait_until_sent(self) -> None:
        """Wait until Kafka has all changes that are committed now.

        The connector confirms a position after Kafka has acknowledged the changes before it, and
        only as further changes follow.
        """
        ((committed,),) = self.run("SELECT pg_current_wal_lsn()::text")
        unconfirmed = math.inf

        def has_advanced() -> bool:
            nonlocal unconfirmed
            before = unconfirmed
            self.run(f"INSERT INTO {MARKERS} VALUES (default)")
            ((unconfirmed,),) = self.run(
                "SELECT pg_wal_lsn_diff(%(committed)s::pg_lsn, confirmed_flush_lsn)"
                " FROM pg_replication_slots WHERE slot_name = %(slot)s",
                committed=committed,
                slot=self.slot,
            )
            return bool(unconfirmed < before)

        while unconfirmed > 0:
            self.connect.wait_until(has_advanced, f"the delivery of changes of {self.database}")

    def _is_read(self) -> bool:
        """Return whether the connector reads from its slot."""
        found = self.run(
            "SELECT active FROM pg_replication_slots WHERE slot_name = %(slot)s", slot=self.slot
        )
        return found == [[True]]


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
