"""A fake schema registry with Confluent's HTTP API.

Apicurio Registry 3.0.9 returns the same responses to these requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

UNKNOWN_SCHEMA = (404, {"error_code": 40403, "message": "Schema not entry_found"})
UNKNOWN_SUBJECT = (404, {"error_code": 40401, "message": "Subject not entry_found."})
UNAUTHORIZED = (401, {"error_code": 401, "message": "Unauthorized"})


@dataclass
class FakeRegistry:
    """The state of the registry.

    planned_responses: overrides of the next responses: a status, a body, or None to close the
        connection.
    requested_paths: the path of each request.
    """

    url: str = ""
    by_id: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    subjects: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    authorization: str | None = None
    planned_responses: list[int | bytes | None] = field(default_factory=list)
    requested_paths: list[str] = field(default_factory=list)

    def register(self, schema_id: int, subject: str, schema: str, **more: Any) -> None:
        version = str(sum(name == subject for name, _ in self.subjects) + 1)
        entry = {
            "subject": subject,
            "version": int(version),
            "id": schema_id,
            "schema": schema,
            **more,
        }
        self.by_id[schema_id] = {"schema": schema, **more}
        self.subjects[subject, version] = entry
        self.subjects[subject, "latest"] = entry

    def response(self, path: str) -> tuple[int, Mapping[str, Any]]:
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"] and len(parts) == 3:
            schema = self.by_id.get(int(parts[2]))
            return UNKNOWN_SCHEMA if schema is None else (200, schema)
        if parts[0] == "subjects" and len(parts) == 4:
            version = self.subjects.get((parts[1], parts[3]))
            return UNKNOWN_SUBJECT if version is None else (200, version)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def registry_server() -> Iterator[FakeRegistry]:
    """Run a registry until the block ends."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requested_paths.append(self.path)
            planned = registry.planned_responses.pop(0) if registry.planned_responses else 200
            if planned is None:
                self.connection.close()
                return
            if isinstance(planned, bytes):
                self._send(200, planned)
                return
            status, body = registry.response(self.path)
            if registry.authorization not in (None, self.headers["Authorization"]):
                status, body = UNAUTHORIZED
            if planned != 200:
                status, body = planned, {"error_code": planned, "message": "as planned"}
            self._send(status, json.dumps(body).encode())

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Location", "http://elsewhere.invalid/")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
