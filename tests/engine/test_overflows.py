"""A result that does not fit its type is null, is counted, and is named by its window and key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.support.delta_tables import is_there, rows
from tidegate import Input, Job, KafkaSource, json_format, run
from tidegate import aggregates as agg
from tidegate.commit.table_log import parse_stamp
from tidegate.errors import RejectedRowError
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append, CorrectedWindows
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAX = 2**63 - 1
RECORDS = [("over", MAX, 0), ("fits", MAX, 1), ("over", 1, 2), ("fits", -5, 3), ("none", None, 4)]
CLOSING = ("fits", 1, 120)
"""Closes the window of the first minute."""
LATE = ("fits", 100, 5)
OPTIONS: dict[str, dict[str, Any]] = {
    "final": {},
    "backfill": {"backfill_threshold": 0},
    "changes": {"emit": "changes"},
    "corrected": {"allowed_lateness": "1 hour"},
}


def send(broker: Broker, topic: str, records: Sequence[tuple[str, int | None, int]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value, second in records:
        at = (START + timedelta(seconds=second)).isoformat()
        record = json.dumps({"key": key, "value": value, "at": at})
        producer.produce(topic, record.encode(), partition=0)
    producer.flush()


def sums_job(root: Path, broker: Broker, topic: str, kind: str, **others: Any) -> Job:
    """Return a job that adds up the values of each key and minute."""
    source = KafkaSource(broker.bootstrap_servers, topic)
    schema = json_format("key STRING, value BIGINT, at TIMESTAMP")
    values = Input(source, schema, time="at", watermark_delay="0 seconds", **others)
    aggs = {"n": agg.count(), "total": agg.sum("value"), "mean": agg.avg("value")}
    aggregation = WindowAggregation(Tumbling("1 minute"), by="key", aggs=aggs)
    path = str(root / "table")
    sink = CorrectedWindows(path, aggregation=aggregation, log=str(root / "log"))
    return Job(
        name="sums",
        inputs={"values": values},
        transform=aggregation,
        sink=sink if kind in {"changes", "corrected"} else Append(path),
        **OPTIONS[kind],
    )


def first_minute(root: Path) -> dict[str, tuple[int, int | None, float | None]]:
    return {
        row["key"]: (row["n"], row["total"], row["mean"])
        for row in rows(root / "table")
        if row["window"]["start"] == START
    }


def stamped_overflows(table: Path) -> int:
    stamps = [parse_stamp(each.read_bytes()) for each in (table / "_delta_log").glob("*.json")]
    return sum(stamp.row_counts.get("overflows", 0) for stamp in stamps if stamp is not None)


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_group_is_named_and_the_others_are_written(
    kind: str,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [*RECORDS, CLOSING])
    done = run(sums_job(tmp_path, broker, topic, kind), spark)
    assert first_minute(tmp_path) == {
        "over": (2, None, 2.0**62),
        "fits": (2, MAX - 5, pytest.approx(MAX / 2)),
        "none": (1, None, None),
    }
    window = '{"start":"2026-03-02T09:00:00.000000Z","end":"2026-03-02T09:01:00.000000Z"}'
    (warning,) = {each.message for each in caplog.records if "do not fit" in each.message}
    assert warning == (
        "1 results do not fit their types and are null: total of "
        f'{{"window":{window},"key":"over"}}'
    )
    assert done.overflows == stamped_overflows(tmp_path / "table") >= 1
    assert (done.rows_in, done.dead_letters) == (6, 0)
    assert "tidegate:overflow" not in rows(tmp_path / "table")[0]


@pytest.mark.parametrize("kind", ["final", "corrected"])
def test_stop_refuses_the_batch_until_on_error_is_changed(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [*RECORDS, CLOSING])
    job = sums_job(tmp_path, broker, topic, kind, on_error="stop")
    for _ in range(2):
        with pytest.raises(RejectedRowError, match="1 results that do not fit their") as failed:
            run(job, spark)
        assert 'total of {"window":{"start":"2026-03-02T09:00:00' in str(failed.value)
        assert '"key":"over"' in str(failed.value)
        assert exit_code(failed.value) == 4
        written = rows(tmp_path / "table") if is_there(tmp_path / "table") else []
        assert written == []
    done = run(sums_job(tmp_path, broker, topic, kind), spark)
    assert done.overflows == 1
    assert first_minute(tmp_path)["over"] == (2, None, 2.0**62)


def test_a_late_row_brings_a_sum_out_of_its_type_and_back(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    job = sums_job(tmp_path, broker, topic, "corrected")
    for records, overflows, total in (
        ([*RECORDS, CLOSING], 1, MAX - 5),
        ([LATE], 1, None),
        ([("fits", -100, 6)], 0, MAX - 5),
    ):
        send(broker, topic, records)
        assert run(job, spark).overflows == overflows
        assert first_minute(tmp_path)["fits"][1] == total
