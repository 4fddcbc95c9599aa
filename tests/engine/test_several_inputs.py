"""A job of two inputs: each row is in the target, the dead letters or its input's late rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tidegate import Job, Limits, run
from tidegate.aggregates import count
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.testing import Broker
from tidegate.transform import Stateful
from tidegate.windows import Tumbling, tumbling

pytestmark = pytest.mark.jobs

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TABLES = ("views", "dead", "late_searches", "late_clicks")


def pages_input(servers: str, topic: str, watermark_delay: str) -> Input:
    return Input(
        source=KafkaSource(bootstrap_servers=servers, topics=[topic], max_records_per_batch=3),
        format=json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay=watermark_delay,
        future_tolerance=None,
    )


def send_records(servers: str, topic: str, values: list[str | int]) -> None:
    """Send a record for each second after the start; strings are sent as is."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        moment = START + timedelta(seconds=value) if isinstance(value, int) else None
        record = (
            value
            if isinstance(value, str)
            else json.dumps({"page": topic, "event_time": str(moment)})
        )
        producer.produce(topic, record.encode(), partition=0)
    producer.flush()


def rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


@pytest.mark.broker
def test_each_input_has_its_own_watermark_delay_late_rows_and_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    searches, clicks = (
        broker.create_topic(f"{topic}-searches"),
        broker.create_topic(f"{topic}-clicks"),
    )
    # Batches of three rows each; the watermark is the smaller of both, and the late rows of a batch
    # are determined by the watermark of the previous batch.
    send_records(broker.bootstrap_servers, searches, [10, 70, 200, 5, "no json", 210, 220, 330, 15])
    send_records(broker.bootstrap_servers, clicks, [20, 75, 190, 140, 195, 80, "{}", 400, 100])

    def both(first: DataFrame, second: DataFrame) -> DataFrame:
        return tumbling(first.unionByName(second), "1 minute", by="page", aggs={"n": count()})

    job = Job(
        name="both",
        inputs={
            "searches": pages_input(broker.bootstrap_servers, searches, "0 seconds"),
            "clicks": pages_input(broker.bootstrap_servers, clicks, "20 seconds"),
        },
        transform=Stateful(both, late_from=Tumbling("1 minute").late_at),
        sink=Append(path=str(tmp_path / "views")),
        checkpoint=str(tmp_path / "checkpoint"),
        dead_letters=str(tmp_path / "dead"),
        late_rows={name: str(tmp_path / f"late_{name}") for name in ("searches", "clicks")},
        limits=Limits(dead_ratio=None),
    )
    done = run(job, spark)

    assert (done.rows_in, done.dead_letters, done.late_rows) == (18, 2, 2)
    assert {(row["topic"], row["offset"]) for row in rows(tmp_path / "dead")} == {
        (searches, 4),
        (clicks, 6),
    }
    # The first batch ends at 200 and 190 - 20: the second closes windows up to 170, and the third
    # has late rows by it.
    assert [row["offset"] for row in rows(tmp_path / "late_searches")] == [8]
    assert [row["offset"] for row in rows(tmp_path / "late_clicks")] == [8]
    counted = {(row["page"], row["window"]["start"]): row["n"] for row in rows(tmp_path / "views")}
    assert sum(counted.values()) + 2 + 2 + 2 == 18, "dead, late, and open at the end"
    assert done.slowest_stream == searches
