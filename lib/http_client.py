"""HTTP requests with retries and without redirects, by httpx."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from .errors import ArgumentError

if TYPE_CHECKING:
    from httpx2 import Client

_RETRIED_STATUSES = (408, 425, 429, *range(500, 600))
Response = TypeVar("Response")


class RequestRefusedError(Exception):
    """The server rejected the request with a status other than 2xx."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class NoResponseError(Exception):
    """The server did not answer any attempt successfully."""


def request_with_retries(
    call: Callable[[], Response], *, attempts: int, retry_delay: float
) -> Response:
    """Call a function that sends a request, retry it on transient errors, and return its result.

    call: raises RequestRefusedError for a status other than 2xx.
    retry_delay: seconds before the second attempt, doubled for each further attempt.

    Raises RequestRefusedError for a status other than 408, 425, 429 and 5xx, and NoResponseError
    after the last attempt.
    """
    import httpx2

    for attempt in range(1, attempts + 1):
        try:
            return call()
        except RequestRefusedError as fault:
            if fault.status not in _RETRIED_STATUSES:
                raise
            cause = str(fault)
        except (httpx2.RequestError, OSError) as fault:
            cause = str(fault) or type(fault).__name__
        if attempt < attempts:
            time.sleep(retry_delay)
            retry_delay *= 2
    raise NoResponseError(f"{cause}, {attempts} attempts")


def http_client(certificates: str | None, *, timeout: float) -> Client:
    """Return a client that rejects redirects, so that secrets are not sent to another address.

    certificates: file of certificate authorities, instead of the system's.

    Raises ArgumentError if the file cannot be read.
    """
    import httpx2

    try:
        context = ssl.create_default_context(cafile=certificates)
    except OSError as fault:
        raise ArgumentError(
            f"invalid certificates: {certificates!r} ({fault})",
            "a readable file of certificates in PEM format",
        ) from None
    # At level INFO httpx logs complete URLs, and the path of a webhook may be a secret.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return httpx2.Client(verify=context, timeout=timeout, follow_redirects=False)


def certificate_file(certificates: str | None) -> str:
    """Return a file of certificate authorities: by default the system's, or else certifi's."""
    import certifi

    return certificates or ssl.get_default_verify_paths().cafile or certifi.where()


def require_http_url(url: str, user_hint: str, *, allow_query: bool = False) -> str:
    """Return an http or https URL without its trailing slash.

    user_hint: the remedy for a URL with credentials. allow_query: whether a query is allowed.

    Raises ArgumentError for an invalid URL and for a URL with credentials.

    >>> require_http_url("https://registry:8081/", "user=...")
    'https://registry:8081'
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_valid = is_valid and parts.port != 0 and (allow_query or not parts.query)
        has_user = parts.username is not None or parts.password is not None
    except (ValueError, AttributeError, TypeError):
        is_valid = False
        has_user = False
    if has_user:
        raise ArgumentError("invalid url: contains credentials", "a URL without a user", user_hint)
    if not is_valid:
        raise ArgumentError(f"invalid url: {url!r}", "an http or https URL")
    return url.rstrip("/")
