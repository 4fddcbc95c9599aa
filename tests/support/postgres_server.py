"""A local PostgreSQL server for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tidegate.stores import PostgresStore
from tidegate.testing.child_process import free_port

PASSWORD = "canary-5e1d7a"
_PROGRAMS = ("opt/homebrew/opt/postgresql*/bin/initdb", "usr/lib/postgresql/*/bin/initdb")


@dataclass(frozen=True)
class Server:
    """A server that requires a password."""

    port: int
    certificate: Path

    def store(self, table: str, **options: Any) -> PostgresStore:
        """Return a PostgresStore of this server."""
        login: dict[str, Any] = {"user": "postgres", "password": PASSWORD, "port": self.port}
        return PostgresStore(table, host="127.0.0.1", **{**login, **options})

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Return a connection of the superuser."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname=database,
            client_encoding="UTF8",
            autocommit=True,
        )

    def run(self, statement: str, database: str = "postgres", **values: Any) -> list[list[Any]]:
        """Run a statement; return its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return list(map(list, cursor.fetchall())) if cursor.description else []


def programs() -> Path | None:
    """Return the directory of the newest PostgreSQL installation, or None."""
    paths = [path for pattern in _PROGRAMS for path in sorted(Path("/").glob(pattern))]
    return paths[-1].parent if paths else None


@contextmanager
def started() -> Iterator[Server]:
    """Start a server in its own directory, not as root."""
    bin_directory = programs()
    if bin_directory is None:
        pytest.skip("PostgreSQL is not installed: initdb not found")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    key, certificate = _create_certificate(folder)
    user: Mapping[str, Any] = {}
    if os.getuid() == 0:
        for path in (folder, secret, key, certificate):
            shutil.chown(path, "nobody")
        user = {"user": "nobody", "cwd": folder, "env": {"PATH": os.environ["PATH"]}}
    port = free_port()
    login = ["--username=postgres", f"--pwfile={secret}", "--auth=scram-sha-256"]
    make = [
        str(bin_directory / "initdb"),
        "--no-sync",
        "--encoding=UTF8",
        *login,
        "--pgdata",
        str(data),
    ]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
    options += " -c wal_level=logical -c track_commit_timestamp=on"
    options += f" -c ssl=on -c ssl_key_file={key} -c ssl_cert_file={certificate}"
    control = [str(bin_directory / "pg_ctl"), "-D", str(data), "-w"]
    try:
        subprocess.run(make, check=True, capture_output=True, **user)
        subprocess.run([*control, "-l", str(folder / "log"), "-o", options, "start"], check=True,
                       stdout=subprocess.DEVNULL, **user)  # fmt: skip
        yield Server(port, certificate)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, **user)
        shutil.rmtree(folder, ignore_errors=True)


def _create_certificate(folder: Path) -> tuple[Path, Path]:
    """Create a key and a self-signed certificate for this machine's address."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    about = ["-subj", "/CN=tidegate", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *about, *files], check=True, capture_output=True)
    return key, certificate
