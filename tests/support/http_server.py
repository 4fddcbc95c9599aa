"""An HTTP server that receives webhook posts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class WebhookServer:
    """The received posts, and the statuses of the next responses; then 200."""

    url: str = ""
    next_statuses: list[int] = field(default_factory=list)
    posts: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [body["id"] for _, body in self.posts]


@contextmanager
def serve_webhook() -> Iterator[WebhookServer]:
    webhook_server = WebhookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = webhook_server.next_statuses.pop(0) if webhook_server.next_statuses else 200
            if status == 200:
                webhook_server.posts.append((dict(self.headers), body))
            self.send_response(status)
            self.send_header("Location", f"{webhook_server.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    webhook_server.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield webhook_server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
