"""Requests over HTTP: made again where that may help, and never redirected."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, build_opener

from .errors import ArgumentError

_AGAIN = (408, 425, 429, *range(500, 600))
Answer = TypeVar("Answer")


class RefusedError(Exception):
    """The other side has said no, by a status that another attempt does not change."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class SilentError(Exception):
    """The other side has given no answer, however often it was asked."""


def answered(call: Callable[[], Answer], *, attempts: int, pause: float) -> Answer:
    """Make a request, again where that may help, and return what it gives.

    pause: the seconds before the second attempt; each further one waits twice as long.

    Raises RefusedError for a status other than 408, 425, 429 and 5xx, and SilentError where these
    or the network do not end.
    """
    for attempt in range(1, attempts + 1):
        try:
            return call()
        except (URLError, HTTPException, OSError) as fault:
            status = fault.code if isinstance(fault, HTTPError) else None
            if status is not None and status not in _AGAIN:
                raise RefusedError(status) from None
            why = f"status {status}" if status else str(getattr(fault, "reason", fault))
        if attempt < attempts:
            time.sleep(pause)
            pause *= 2
    raise SilentError(f"{why}, {attempts} times")


def opener(certificates: str | None) -> OpenerDirector:
    """Return what opens requests; a file of certificates takes the place of the machine's own."""
    context = ssl.create_default_context(cafile=certificates)
    return build_opener(_NoRedirection(), HTTPSHandler(context=context))


class _NoRedirection(HTTPRedirectHandler):
    """Leaves a redirection an error: the answer of another address, and the secrets sent to it."""

    def redirect_request(self, *_: Any) -> None:
        """Return no further request."""


def require_address(url: str, instead: str, *, query: bool = False) -> str:
    """Return an address without the slash at its end; refuse one with a user in it.

    instead: where the user's secret goes. query: whether it may have a query.

    Raises ArgumentError.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
        fine = fine and (query or not parts.query)
        secret = parts.username is not None or parts.password is not None
    except (ValueError, AttributeError, TypeError):
        fine = False
        secret = False
    if secret:
        raise ArgumentError("url has a user in it.", "an address alone.", instead)
    if not fine:
        raise ArgumentError(f"url is {url!r}.", "an address of http or https.")
    return url.rstrip("/")
