"""A connection to PostgreSQL that is there within a time, or not at all."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from ..errors import SetupError, StoreError
from ._postgres_errors import ShutError

if TYPE_CHECKING:
    from pg8000.native import Connection

    from .postgres import PostgresStore


def driver() -> Any:
    """Return PostgreSQL's driver; refuse to go on without it."""
    try:
        from pg8000 import native
    except ImportError as error:
        raise SetupError(
            "PostgreSQL's driver is missing.", "pg8000.", "pip install 'tidegate[postgres]'"
        ) from error
    return native


def connected(store: PostgresStore) -> Connection:
    """Return a connection; raises ShutError where the server does not let us in within the time."""
    context = _context(store)
    line = socket.create_connection((store.host, store.port), store.timeout)
    # The time is that of the login: a large batch takes longer, and a lock may be waited for.
    line.settimeout(None)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with _shut_after(line, store.timeout):
        return driver().Connection(
            store.user,
            sock=line,
            host=store.host,
            database=store.database,
            password=store.password,
            ssl_context=context,
            startup_params={"client_encoding": "UTF8"},
        )


def _context(store: PostgresStore) -> ssl.SSLContext | None:
    if not store.tls:
        return None
    try:
        return ssl.create_default_context(cafile=store.certificates)
    except OSError as error:
        raise StoreError(
            f"{store.name} cannot be checked: {store.certificates}: {error}.",
            "a file of certificates in PEM, which can be read.",
        ) from error


@contextmanager
def _shut_after(line: socket.socket, seconds: int) -> Iterator[None]:
    """Shut a connection that is not ready in time, so that who reads from it gets an error."""
    # TLS takes the socket over: a second name of it stays ours.
    handle = line.dup()
    late = Event()

    def shut() -> None:
        late.set()
        with suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise ShutError(f"no login within {seconds} seconds") from error
        raise
    finally:
        timer.cancel()
        timer.join()
        handle.close()
