"""Post rows to a web address, at least once, with ids that identify copies."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from pyspark.sql import DataFrame

from ...columns import parse_condition, require_condition_text, require_instance, require_integer
from ...commit.batch import CommitContext
from ...durations import microseconds
from ...errors import WebhookError
from ...http_client import (
    NoResponseError,
    RequestRefusedError,
    http_client,
    request_with_retries,
    require_http_url,
)
from ..base import SendingSink, require_target
from ..kafka.kafka_sink import as_json

if TYPE_CHECKING:
    from httpx2 import Client

POSTED_SCHEMA = "batch BIGINT, rows BIGINT"
_HASH_DIGITS = 32


@dataclass(frozen=True)
class Webhook(SendingSink):
    """Post each row of a batch to a web address, at least once, and record batches in a table.

    Intended for few rows, such as alarms. The driver posts one row after another, as
    `{"id": "job/query/output/batch/row", "row": {...}}`, with the id also in the header
    Idempotency-Key. The id ends in a hash of the row, and a number that distinguishes equal rows of
    a batch. Times are in UTC.

    The table at `path` has one row (batch, rows) per completely posted batch, which is never posted
    again. An interrupted batch is posted again from its first row, so a receiver may get a row
    twice under one id. Requirement: a batch that runs again has the same rows.

    Status 2xx is success. After 408, 425, 429, 5xx or no response the request is repeated, up to
    `attempts` times; then, and after any other status including redirects, the job fails with a
    WebhookError. A restarted job posts the batch again.

    Args:
        path: path of the table that records the batches.
        url: the address, http or https. Errors and reprs show the host only, since a path may be
            secret.
        headers: request headers, such as Authorization; a repr does not show them.
        where: SQL condition; only rows for which it is true are posted.
        max_requests: maximum number of rows per batch; a larger batch fails before anything is
            posted.
        timeout: timeout of a request.
        attempts: maximum number of requests per row.
        retry_delay: delay before the second request, doubled for each further one.
        certificates: file of certificate authorities for https; the system's by default.
        output: name of the commits in the application id.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        WebhookError: if the address rejects a row or does not respond, and for too many rows.
        TableMismatchError, ConflictError: as for `Append`.

    >>> Webhook("/data/alarms.sent", url="https://pager.example/alarms").tables()
    [('/data/alarms.sent', 'webhook')]
    """

    plan_name: ClassVar[str] = "webhook"
    destination: ClassVar[str] = "a webhook"

    path: str
    _: KW_ONLY
    # Fields with compare=False do not affect which rows are posted, so they may change later.
    url: str = field(repr=False, compare=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    where: str | None = None
    max_requests: int = field(default=1_000, compare=False)
    timeout: str | timedelta = field(default="10 seconds", compare=False)
    attempts: int = field(default=5, compare=False)
    retry_delay: str | timedelta = field(default="500 milliseconds", compare=False)
    certificates: str | None = field(default=None, compare=False)
    output: str = "webhook"

    def __post_init__(self) -> None:
        require_target(self.path, self.output)
        require_http_url(self.url, "headers={'Authorization': ...}", allow_query=True)
        require_condition_text(self.where)
        require_instance(self.headers, "headers", Mapping, 'headers={"Authorization": "..."}')
        require_integer(self.max_requests, "max_requests", 1, 100_000)
        require_integer(self.attempts, "attempts", 1, 100)
        microseconds(self.timeout, "timeout")
        microseconds(self.retry_delay, "retry_delay", min_value=0)

    def send(self, rows: DataFrame, batch: CommitContext) -> int:
        """Post the rows; return their number."""
        json_rows = self._json_rows(rows, batch)
        id_prefix = f"{batch.plan.app_id(self.output)}/{batch.plan.number}"
        occurrences = Counter[str]()
        timeout_seconds = microseconds(self.timeout, "timeout") / 1_000_000
        with http_client(self.certificates, timeout=timeout_seconds) as client:
            for row in json_rows:
                occurrences[row] += 1
                digest = hashlib.sha256(row.encode()).hexdigest()[:_HASH_DIGITS]
                self._post_row(client, f"{id_prefix}/{digest}-{occurrences[row]}", row)
        return len(json_rows)

    def progress_row(self, batch: CommitContext, sent: int) -> tuple[tuple[object, ...], str]:
        """Return the row that records a posted batch, and the schema of the table."""
        return (batch.plan.number, sent), POSTED_SCHEMA

    @property
    def _host(self) -> str:
        return f"webhook {urlsplit(self.url).hostname}"

    def _json_rows(self, frame: DataFrame, batch: CommitContext) -> list[str]:
        """Return the rows as JSON, sorted so that their order is reproducible."""
        selected = frame if self.where is None else frame.where(parse_condition(frame, self.where))
        row = as_json(selected.columns).alias("row")
        json_rows = selected.select(row).limit(self.max_requests + 1).collect()
        if len(json_rows) > self.max_requests:
            raise WebhookError(
                f"too many rows for {self._host}: batch {batch.plan.number} has more than "
                f"{self.max_requests:,}; none was posted",
                f"max_requests={self.max_requests:,} limits the rows of a batch.",
                f"max_requests={self.max_requests * 10}, or a stricter where condition.",
            )
        return sorted(row["row"] for row in json_rows)

    def _post_row(self, client: Client, row_id: str, row: str) -> None:
        body = json.dumps({"id": row_id, "row": json.loads(row)}, ensure_ascii=False).encode()
        own_headers = {"Content-Type": "application/json", "Idempotency-Key": row_id}
        delay_seconds = microseconds(self.retry_delay, "retry_delay", min_value=0) / 1_000_000

        def post_once() -> None:
            headers = {**self.headers, **own_headers}
            response = client.post(self.url, content=body, headers=headers)
            if not response.is_success:
                raise RequestRefusedError(response.status_code)

        try:
            request_with_retries(post_once, attempts=self.attempts, retry_delay=delay_seconds)
        except RequestRefusedError as fault:
            raise WebhookError(
                f"{self._host} rejected a row: status {fault.status}",
                "the address must accept POST requests with JSON and respond with 2xx.",
                "correct url and headers and restart the job; it posts the batch again.",
            ) from None
        except NoResponseError as fault:
            raise WebhookError(
                f"no response from {self._host}",
                str(fault),
                "make the address reachable and restart the job; it posts the batch again.",
            ) from None
