"""A server that answers as a schema registry does, by Confluent's interface.

Apicurio Registry 3.0.9 was seen to answer the same requests alike.
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

UNKNOWN_SCHEMA = (404, {"error_code": 40403, "message": "Schema not found"})
UNKNOWN_SUBJECT = (404, {"error_code": 40401, "message": "Subject not found."})
NO_LEAVE = (401, {"error_code": 401, "message": "Unauthorized"})


@dataclass
class Recorded:
    """What the registry holds and how it answers; `asked` notes each path that was asked for.

    answers: what stands in front of the next answers: a status, or None for a line that breaks.
    """

    url: str = ""
    by_id: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    subjects: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    authorization: str | None = None
    answers: list[int | bytes | None] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def register(self, number: int, subject: str, schema: str, **more: Any) -> None:
        version = str(sum(name == subject for name, _ in self.subjects) + 1)
        entry = {
            "subject": subject,
            "version": int(version),
            "id": number,
            "schema": schema,
            **more,
        }
        self.by_id[number] = {"schema": schema, **more}
        self.subjects[subject, version] = entry
        self.subjects[subject, "latest"] = entry

    def answer(self, path: str) -> tuple[int, Mapping[str, Any]]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"] and len(parts) == 3:
            found = self.by_id.get(int(parts[2]))
            return UNKNOWN_SCHEMA if found is None else (200, found)
        if parts[0] == "subjects" and len(parts) == 4:
            found = self.subjects.get((parts[1], parts[3]))
            return UNKNOWN_SUBJECT if found is None else (200, found)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def registry_server() -> Iterator[Recorded]:
    """Serve what is registered, until the block ends."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            recorded.asked.append(self.path)
            planned = recorded.answers.pop(0) if recorded.answers else 200
            if planned is None:
                self.connection.close()
                return
            if isinstance(planned, bytes):
                self._send(200, planned)
                return
            status, body = recorded.answer(self.path)
            if recorded.authorization not in (None, self.headers["Authorization"]):
                status, body = NO_LEAVE
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
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
