"""The first jobs that a reader runs, as written: commands, files, output, and the tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract.test_examples import FIRST_PAGES, text
from tests.support.page_examples import Reader
from tidegate.testing import Broker

RECORDS = 30_000
DEAD_LETTERS = 13
TABLES = {
    "README.md": ("views", "views.late", "views.dead_letters"),
    "docs/get-started/quickstart.md": ("windows", "late_rows", "dead_letters"),
}
"""Of each page, the tables of the results, the late rows and the dead letters."""


@pytest.fixture
def servers() -> Iterator[str]:
    """The address of a broker without topics."""
    with Broker.start() as broker:
        yield broker.bootstrap_servers


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.pages
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("page", FIRST_PAGES)
def test_each_record_of_a_first_job_is_in_one_of_its_tables(
    page: str, spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    Reader(tmp_path, servers).follow(page, text(page))
    target, late_rows, dead_letters = (rows(tmp_path / "tables" / name) for name in TABLES[page])
    times = event_times(servers, *produced_topics(page))
    assert len(times) == RECORDS - DEAD_LETTERS
    assert len(dead_letters) == DEAD_LETTERS
    end = max(row["window"]["end"] for row in target)
    in_windows = sum(time < end for time in times)
    assert len(late_rows) > 0
    assert sum(row["views"] for row in target) == in_windows - len(late_rows)


def test_a_reader_who_follows_several_pages_with_one_broker_gets_a_topic_for_each() -> None:
    pages = (*FIRST_PAGES, "docs/get-started/tutorial.md")
    topics = [produced_topics(page) for page in pages]
    assert all(len(of_page) == 1 for of_page in topics)
    assert len(set.union(*topics)) == len(pages)


def produced_topics(page: str) -> set[str]:
    """Return the topics to which the reader of a page sends records."""
    return set(re.findall(r"^\$ tidegate produce (\S+)", text(page), re.M))


def rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


def event_times(servers: str, topic: str) -> list[datetime]:
    """Return the event times of the records of a topic that are not dead letters."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    times, received = [], 0
    while received < RECORDS:
        for message in consumer.consume(RECORDS, timeout=10):
            received += 1
            with suppress(ValueError, KeyError):
                times.append(event_time(json.loads(message.value() or b"")))
    consumer.close()
    return times


def event_time(click: dict[str, Any]) -> datetime:
    """Return the event time of a click; ValueError for one of another type or of the future."""
    time = datetime.fromisoformat(click["event_time"])
    if not isinstance(click["ms"], float | int) or time > datetime.now(UTC):
        raise ValueError(click)
    return time
