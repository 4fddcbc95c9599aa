"""HTTP requests: redirects, retries, certificates and logs."""

from __future__ import annotations

import logging

import httpx2
import pytest

from tests.support.http_server import serve_webhook
from tidegate.errors import ArgumentError
from tidegate.http_client import (
    NoResponseError,
    RequestRefusedError,
    http_client,
    request_with_retries,
)


def test_a_redirect_is_not_followed_and_a_secret_path_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with serve_webhook() as server, http_client(None, timeout=10) as client:
        server.next_statuses = [302]
        statuses = [
            client.post(f"{server.url}/canary", json={"id": str(n)}).status_code for n in range(2)
        ]
    assert statuses == [302, 200]
    assert server.ids == ["1"]
    assert "canary" not in caplog.text


@pytest.mark.parametrize("certificates", ["/nowhere.pem", __file__])
def test_a_file_without_certificates_is_refused(certificates: str) -> None:
    with pytest.raises(ArgumentError, match="invalid certificates") as refused:
        http_client(certificates, timeout=10)
    assert certificates in str(refused.value)


def test_transient_failures_are_retried_and_others_are_not() -> None:
    failures: list[Exception] = []

    def call() -> str:
        if failures:
            raise failures.pop(0)
        return "answer"

    failures[:] = [RequestRefusedError(503), httpx2.ConnectError("refused"), OSError("reset")]
    assert request_with_retries(call, attempts=4, retry_delay=0) == "answer"
    failures[:] = [RequestRefusedError(404), OSError("reset")]
    with pytest.raises(RequestRefusedError):
        request_with_retries(call, attempts=4, retry_delay=0)
    failures[:] = [RequestRefusedError(425), httpx2.ReadTimeout("")]
    with pytest.raises(NoResponseError, match="ReadTimeout, 2 attempts"):
        request_with_retries(call, attempts=2, retry_delay=0)
