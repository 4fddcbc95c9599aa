"""Whether a broker is there at all, which Kafka's own client takes minutes to tell."""

from __future__ import annotations

import socket
from contextlib import suppress


def answers(servers: str, seconds: float = 2.0) -> bool:
    """Return whether one of the bootstrap servers takes connections."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        # An address that cannot be read is left for Kafka's client to tell.
        with (
            suppress(OSError, ValueError, OverflowError),
            socket.create_connection((host, int(port)), seconds),
        ):
            return True
    return False
