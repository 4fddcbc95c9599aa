"""Rows to an address of the web, at least once, each with an id by which a copy is told."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import ClassVar
from urllib.parse import urlsplit
from urllib.request import Request

from pyspark.sql import DataFrame

from ..columns import require_whole
from ..commit.batch import Batch
from ..commit.outcome import Outcome
from ..conditions import condition, require_text
from ..durations import microseconds
from ..errors import WebhookError
from ..frames import sole
from ..web import RefusedError, SilentError, answered, opener, require_address
from ._records import as_json
from ._targets import require_target
from ._told import told_once

TOLD = "batch BIGINT, rows BIGINT"
_DIGITS = 32


@dataclass(frozen=True)
class Webhook:
    """Post each row of a batch to an address, at least once, and note the batch in a Delta table.

    For few rows that somebody has to hear of, such as alarms: they are posted one after the other,
    by the driver, as `{"id": "job/query/step/batch/row", "row": {...}}`, with the same id in the
    header Idempotency-Key. Row is a hash of the row, with a number where a batch has it several
    times. Times are in UTC.

    The table at `path` has one row (batch, rows) for each batch that was posted as a whole, which
    is never posted again. A batch that was cut short is posted again from its first row: whoever
    listens may hear of a row twice, under one id. For this the rows of a batch must be the same
    each time that it runs.

    A status of 2xx is an answer. With 408, 425, 429, 5xx and without an answer the post is made
    again, up to `attempts` times; then, and with any other status, the job stops by a WebhookError,
    and posts the batch again when it is started. A redirection is an error.

    Args:
        path: the table of what was posted.
        url: the address, of http or https. Errors and reprs show its host alone, since a path may
            be a secret.
        headers: sent with each post, such as Authorization; their values never show in a repr.
        where: a condition in Spark's SQL: rows of which it is false or null are not posted.
        most: so many rows of one batch are posted; with more of them none is, and the job stops.
        timeout, attempts, pause: of one post; how often it is made; how long before the second
            attempt, each further one waiting twice as long.
        certificates: a file of the authorities that https is checked by; the machine's own
            otherwise.
        step: tells a job's writes apart.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        WebhookError: for an address that refuses or does not answer, and too many rows.
        ReplayMismatchError, ConflictError: as for `Append`.

    >>> Webhook("/data/alarms.told", url="https://pager.example/alarms").tables()
    [('/data/alarms.told', 'webhook')]
    """

    sends: ClassVar[str] = "a webhook"

    path: str
    _: KW_ONLY
    # What has no part in which rows are posted may be put right while a batch waits for it.
    url: str = field(repr=False, compare=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    where: str | None = None
    most: int = field(default=1_000, compare=False)
    timeout: str | timedelta = field(default="10 seconds", compare=False)
    attempts: int = field(default=5, compare=False)
    pause: str | timedelta = field(default="500 milliseconds", compare=False)
    certificates: str | None = field(default=None, compare=False)
    step: str = "webhook"

    def __post_init__(self) -> None:
        require_target(self.path, self.step)
        require_address(self.url, "headers={'Authorization': ...}", query=True)
        require_text(self.where)
        require_whole(self.most, "most", 1, 100_000)
        require_whole(self.attempts, "attempts", 1, 100)
        microseconds(self.timeout, "timeout")
        microseconds(self.pause, "pause", least=0)

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table, of what was posted."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Post the rows, or none of them when the table already has this batch."""
        frame = sole(frames)
        spark = frame.sparkSession

        def post() -> int:
            return self._post(frame, batch)

        def note(rows: int) -> DataFrame:
            return spark.createDataFrame([(batch.number, rows)], TOLD)

        return told_once(spark, (self.path, self.step), batch, post, note, rows_out)

    @property
    def _host(self) -> str:
        return f"the address at {urlsplit(self.url).hostname}"

    def _post(self, frame: DataFrame, batch: Batch) -> int:
        """Post the rows, and return how many there were."""
        rows = self._rows(frame, batch)
        seen = Counter[str]()
        for row in rows:
            seen[row] += 1
            name = f"{hashlib.sha256(row.encode()).hexdigest()[:_DIGITS]}-{seen[row]}"
            self._tell(f"{batch.job}/{batch.query_id}/{self.step}/{batch.number}/{name}", row)
        return len(rows)

    def _rows(self, frame: DataFrame, batch: Batch) -> list[str]:
        """Return the rows as JSON, in an order that is the same each time."""
        chosen = frame if self.where is None else frame.where(condition(frame, self.where))
        told = chosen.select(as_json(chosen.columns).alias("row")).limit(self.most + 1).collect()
        if len(told) > self.most:
            raise WebhookError(
                f"batch {batch.number} has more than {self.most:,} rows for {self._host}.",
                "a few rows a batch; none of these was posted.",
                f"most={self.most * 10}; once the batch is through, a narrower condition in where",
            )
        return sorted(row["row"] for row in told)

    def _tell(self, name: str, row: str) -> None:
        body = json.dumps({"id": name, "row": json.loads(row)}, ensure_ascii=False).encode()
        own = {"Content-Type": "application/json", "Idempotency-Key": name}
        request = Request(self.url, data=body, headers={**self.headers, **own}, method="POST")
        within = microseconds(self.timeout, "timeout") / 1_000_000
        pause = microseconds(self.pause, "pause", least=0) / 1_000_000

        def once() -> None:
            with opener(self.certificates).open(request, timeout=within) as answer:
                answer.read(1)

        try:
            answered(once, attempts=self.attempts, pause=pause)
        except RefusedError as fault:
            raise WebhookError(
                f"{self._host} refuses a row: status {fault.status}.",
                "an address that takes posts of JSON, and answers with 2xx.",
                "put url and headers right, and start the job again: it posts the batch anew.",
            ) from None
        except SilentError as fault:
            raise WebhookError(
                f"{self._host} does not answer: {fault}.",
                "an address that the driver can reach.",
                "start the job again once it answers: it posts the batch anew.",
            ) from None
