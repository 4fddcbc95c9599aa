"""A PostgreSQL of this machine, started for the tests."""

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

import pytest
from pg8000 import native

from tidegate.stores import PostgresStore
from tidegate.testing.process import free_port

PASSWORD = "canary-5e1d7a"
_PROGRAMS = ("opt/homebrew/opt/postgresql*/bin/initdb", "usr/lib/postgresql/*/bin/initdb")


@dataclass(frozen=True)
class Server:
    """A server that asks for a password."""

    port: int
    certificate: Path

    def store(self, table: str, **others: Any) -> PostgresStore:
        """Return a table of it."""
        login: dict[str, Any] = {"user": "postgres", "password": PASSWORD, "port": self.port}
        return PostgresStore(table, host="127.0.0.1", **{**login, **others})

    def run(self, statement: str, database: str = "postgres", **values: Any) -> list[list[Any]]:
        """Run a statement, and return its rows."""
        server = native.Connection(
            "postgres", host="127.0.0.1", port=self.port, password=PASSWORD, database=database
        )
        try:
            return server.run(statement, **values) or []
        finally:
            server.close()


def programs() -> Path | None:
    """Return the newest PostgreSQL's programs; None where there is none."""
    found = [path for pattern in _PROGRAMS for path in sorted(Path("/").glob(pattern))]
    return found[-1].parent if found else None


@contextmanager
def started() -> Iterator[Server]:
    """Start a server in a folder of its own, as a user who is not root."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: its initdb is nowhere to be found")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: the server has no certificate")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    key, certificate = _certified(folder)
    user: Mapping[str, Any] = {}
    if os.getuid() == 0:
        for path in (folder, secret, key, certificate):
            shutil.chown(path, "nobody")
        user = {"user": "nobody", "cwd": folder, "env": {"PATH": os.environ["PATH"]}}
    port = free_port()
    login = ["--username=postgres", f"--pwfile={secret}", "--auth=scram-sha-256"]
    make = [str(found / "initdb"), "--no-sync", "--encoding=UTF8", *login, "--pgdata", str(data)]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
    options += f" -c ssl=on -c ssl_key_file={key} -c ssl_cert_file={certificate}"
    control = [str(found / "pg_ctl"), "-D", str(data), "-w"]
    try:
        subprocess.run(make, check=True, capture_output=True, **user)
        subprocess.run([*control, "-l", str(folder / "log"), "-o", options, "start"], check=True,
                       stdout=subprocess.DEVNULL, **user)  # fmt: skip
        yield Server(port, certificate)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, **user)
        shutil.rmtree(folder, ignore_errors=True)


def _certified(folder: Path) -> tuple[Path, Path]:
    """Make a key, and a certificate of this machine's address that vouches for itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    about = ["-subj", "/CN=tidegate", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *about, *files], check=True, capture_output=True)
    return key, certificate
