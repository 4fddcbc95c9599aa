"""Rows posted to an address: at least once, under ids that are the same when a batch runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import WebhookError
from tidegate.sinks import Webhook

from ..listening import Heard, listening
from ..tables import rows
from .batches import batch

pytestmark = pytest.mark.slow


@pytest.fixture
def alarms(spark: SparkSession) -> DataFrame:
    found = [("/b", 7), ("/a", 3), ("/a", 3), ("/c", 1)]
    return spark.createDataFrame(found, "page string, views int").repartition(3)


def webhook(heard: Heard, root: Path, **more: Any) -> Webhook:
    given: dict[str, Any] = {"attempts": 3, "pause": "0 seconds", "where": "views > 1"} | more
    return Webhook(str(root / "told"), url=heard.url, **given)


def test_rows_are_posted_once_with_their_ids_and_an_address_that_fails_is_asked_again(
    heard: Heard, alarms: DataFrame, tmp_path: Path
) -> None:
    heard.answers = [500, 429]
    sink = webhook(heard, tmp_path, headers={"Authorization": "Bearer secret"})
    assert "secret" not in repr(sink)
    assert heard.url not in repr(sink)
    assert sink.write({"rows": alarms}, batch(4)) == "written"
    assert [told["row"] for _, told in heard.posts] == [
        {"page": "/a", "views": 3},
        {"page": "/a", "views": 3},
        {"page": "/b", "views": 7},
    ]
    assert len(set(heard.ids)) == 3
    for headers, told in heard.posts:
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Idempotency-Key"] == told["id"]
        assert told["id"].split("/")[2:4] == ["webhook", "4"]
    assert rows(tmp_path / "told") == [{"batch": 4, "rows": 3}]

    assert sink.write({"rows": alarms}, batch(4)) == "skipped"
    assert len(heard.posts) == 3


def test_a_batch_that_was_cut_short_is_posted_again_under_the_same_ids(
    heard: Heard, alarms: DataFrame, tmp_path: Path
) -> None:
    heard.answers = [200, 200, 403]
    with pytest.raises(WebhookError, match=r"at 127\.0\.0\.1 refuses a row: status 403"):
        webhook(heard, tmp_path).write({"rows": alarms}, batch(0))
    assert not (tmp_path / "told").exists()
    # What the address needs may be put right in between.
    mended = webhook(heard, tmp_path, headers={"Authorization": "Bearer other"})
    assert mended == webhook(heard, tmp_path)
    assert mended.write({"rows": alarms}, batch(0)) == "written"
    assert heard.ids[:2] == heard.ids[2:4]
    assert len(set(heard.ids)) == 3


def test_no_answer_a_redirection_and_too_many_rows_stop_the_job(
    heard: Heard, alarms: DataFrame, tmp_path: Path
) -> None:
    heard.answers = [503] * 3
    with pytest.raises(WebhookError, match="does not answer: status 503, 3 times"):
        webhook(heard, tmp_path).write({"rows": alarms}, batch(0))
    heard.answers = [302]
    with pytest.raises(WebhookError, match="refuses a row: status 302"):
        webhook(heard, tmp_path).write({"rows": alarms}, batch(0))
    with pytest.raises(WebhookError, match="more than 2 rows"):
        webhook(heard, tmp_path, most=2).write({"rows": alarms}, batch(0))
    assert heard.posts == []
    with listening() as gone:
        pass
    with pytest.raises(WebhookError, match="Connection refused, 3 times"):
        webhook(gone, tmp_path).write({"rows": alarms}, batch(0))
    assert not (tmp_path / "told").exists()
