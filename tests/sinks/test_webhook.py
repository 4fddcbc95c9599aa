"""Webhook: rows are posted at least once with reproducible ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.http_server import WebhookServer, serve_webhook
from tests.support.sink_batches import batch
from tidegate.errors import WebhookError
from tidegate.sinks import Webhook

pytestmark = pytest.mark.slow


@pytest.fixture
def alarms(spark: SparkSession) -> DataFrame:
    rows_of_alarms = [("/b", 7), ("/a", 3), ("/a", 3), ("/c", 1)]
    return spark.createDataFrame(rows_of_alarms, "page string, views int").repartition(3)


def webhook(webhook_server: WebhookServer, root: Path, **more: Any) -> Webhook:
    arguments: dict[str, Any] = {
        "attempts": 3,
        "retry_delay": "0 seconds",
        "where": "views > 1",
    }
    return Webhook(str(root / "sent"), url=webhook_server.url, **arguments | more)


def test_rows_are_posted_once_with_ids_and_failed_requests_are_repeated(
    webhook_server: WebhookServer, alarms: DataFrame, tmp_path: Path
) -> None:
    webhook_server.next_statuses = [500, 429]
    sink = webhook(webhook_server, tmp_path, headers={"Authorization": "Bearer secret"})
    assert "secret" not in repr(sink)
    assert webhook_server.url not in repr(sink)
    assert sink.write({"rows": alarms}, batch(4)) == "written"
    assert [body["row"] for _, body in webhook_server.posts] == [
        {"page": "/a", "views": 3},
        {"page": "/a", "views": 3},
        {"page": "/b", "views": 7},
    ]
    assert len(set(webhook_server.ids)) == 3
    for headers, body in webhook_server.posts:
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Idempotency-Key"] == body["id"]
        assert body["id"].split("/")[2:4] == ["webhook", "4"]
    assert rows(tmp_path / "sent") == [{"batch": 4, "rows": 3}]

    assert sink.write({"rows": alarms}, batch(4)) == "skipped"
    assert len(webhook_server.posts) == 3


def test_an_interrupted_batch_is_posted_again_with_the_same_ids(
    webhook_server: WebhookServer, alarms: DataFrame, tmp_path: Path
) -> None:
    webhook_server.next_statuses = [200, 200, 403]
    with pytest.raises(WebhookError, match=r"webhook 127\.0\.0\.1 rejected a row: status 403"):
        webhook(webhook_server, tmp_path).write({"rows": alarms}, batch(0))
    assert not (tmp_path / "sent").exists()
    # The headers may be corrected in between.
    corrected = webhook(webhook_server, tmp_path, headers={"Authorization": "Bearer other"})
    assert corrected == webhook(webhook_server, tmp_path)
    assert corrected.write({"rows": alarms}, batch(0)) == "written"
    assert webhook_server.ids[:2] == webhook_server.ids[2:4]
    assert len(set(webhook_server.ids)) == 3


def test_no_response_a_redirect_and_too_many_rows_fail_the_batch(
    webhook_server: WebhookServer, alarms: DataFrame, tmp_path: Path
) -> None:
    webhook_server.next_statuses = [503] * 3
    with pytest.raises(WebhookError, match=r"no response from webhook.*\n.*status 503, 3 attempts"):
        webhook(webhook_server, tmp_path).write({"rows": alarms}, batch(0))
    webhook_server.next_statuses = [302]
    with pytest.raises(WebhookError, match="rejected a row: status 302"):
        webhook(webhook_server, tmp_path).write({"rows": alarms}, batch(0))
    with pytest.raises(WebhookError, match=r"too many rows for webhook.* has more than 2;"):
        webhook(webhook_server, tmp_path, max_requests=2).write({"rows": alarms}, batch(0))
    assert webhook_server.posts == []
    with serve_webhook() as stopped:
        pass
    with pytest.raises(WebhookError, match="Connection refused, 3 attempts"):
        webhook(stopped, tmp_path).write({"rows": alarms}, batch(0))
    assert not (tmp_path / "sent").exists()
