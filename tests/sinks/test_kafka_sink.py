"""KafkaSink and IdempotentReceiver: records, reproducible ids and removal of copies."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.raw_records import produce
from tests.support.sink_batches import batch, rows
from tidegate import Input, Job, run
from tidegate.errors import ColumnError, TopicError
from tidegate.formats import json_format
from tidegate.sinks import Append, IdempotentReceiver, KafkaSink
from tidegate.sources import KafkaSource
from tidegate.testing import Broker, crash_after
from tidegate.testing.crash_points import CrashError
from tidegate.windows import Deduplication

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

SALES = "page string, n bigint, at timestamp, deleted boolean"
RECORDS = (
    "topic string, partition int, offset bigint, name string, "
    "headers array<struct<key: string, value: binary>>"
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def sales(spark: SparkSession, *rows_of_sales: tuple[str | None, int, bool]) -> DataFrame:
    return spark.createDataFrame(
        [(page, n, AT, deleted) for page, n, deleted in rows_of_sales], SALES
    )


def records_in(spark: SparkSession, broker: Broker, topic: str) -> list[Any]:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "includeHeaders": "true",
    }
    raw = spark.read.format("kafka").options(**options).load()
    return raw.orderBy("partition", "offset").collect()


def test_rows_become_records_and_a_repeated_batch_has_the_same_ids(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2)
    rows_of_sales = [
        ("a", 1, False),
        ("a", 2, False),
        ("b", 1, False),
        ("b", 1, False),
        ("a", 3, True),
    ]
    common: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers, "topic": topic, "key": "page",
        "deleted": "deleted",
        "order": ["n"],
    }  # fmt: skip
    sink = KafkaSink(str(tmp_path / "sent"), **common)
    assert sink.write({"rows": sales(spark, *rows_of_sales)}, batch(0)) == "written"
    assert sink.write({"rows": sales(spark, *rows_of_sales)}, batch(0)) == "skipped"
    assert [tuple(row) for row in rows(spark, sink.path)] == [(topic, 0, 5)]
    first = records_in(spark, broker, topic)
    assert len(first) == 5
    values = [row.value for row in first if row.key == b"a"]
    assert values[2] is None
    assert [json.loads(value)["n"] for value in values[:2]] == [1, 2]
    assert json.loads(values[0]) == {"page": "a", "n": 1, "at": "2026-01-02T03:04:05.678901Z"}
    # The table is lost, and the rows of the batch have another order.
    without_table = KafkaSink(str(tmp_path / "lost"), **common)
    assert (
        without_table.write({"rows": sales(spark, *rows_of_sales[::-1]).repartition(3)}, batch(0))
        == "written"
    )
    both = [
        (row.partition, row.key, row.value, *row.headers[0])
        for row in records_in(spark, broker, topic)
    ]
    assert sorted(Counter(both).values()) == [2] * 5
    assert {name for *_, name, _ in both} == {"tidegate-id"}


def test_a_null_key_a_missing_topic_and_a_large_record_are_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sink = KafkaSink(
        str(tmp_path / "sent"), bootstrap_servers=broker.bootstrap_servers, topic=topic, key="page"
    )
    with pytest.raises(TopicError, match=f"topic not found: {topic}"):
        sink.write({"rows": sales(spark, ("a", 1, False))}, batch(0))
    broker.create_topic(topic)
    with pytest.raises(ColumnError, match="null key: column page is null"):
        sink.write({"rows": sales(spark, ("a", 1, False), (None, 2, False))}, batch(0))
    assert records_in(spark, broker, topic) == []
    large = sales(spark, ("big", 1, False)).withColumn("text", F.repeat(F.lit("x"), 2_000_000))
    with pytest.raises(TopicError, match=r"too large .* the key 'big' have 2,000,\d+ bytes"):
        sink.write({"rows": large}, batch(0))
    assert not (tmp_path / "sent").exists()


def reading(broker: Broker, topic: str, *, kafka_columns: Sequence[str] = ()) -> Input:
    value_format = json_format("page string, at timestamp")
    source = KafkaSource(broker.bootstrap_servers, topic)
    return Input(
        source,
        value_format,
        time="at",
        watermark_delay="0 seconds",
        future_tolerance=None,
        kafka_columns=kafka_columns,
    )


def test_a_job_reads_the_records_that_another_job_sent(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    source, target = broker.create_topic(topic), broker.create_topic(f"{topic}-sent")
    values = [f'{{"page": "p{n}", "at": "2026-01-01T00:00:00Z"}}'.encode() for n in range(3)]
    produce(broker.bootstrap_servers, source, values, at=datetime.now(UTC))
    sink = KafkaSink(
        str(tmp_path / "sent"), bootstrap_servers=broker.bootstrap_servers, topic=target, key="page"
    )
    first = Job(
        name="first",
        inputs={"clicks": reading(broker, source)},
        sink=sink,
    )
    run(first, spark)
    columns = ["topic", "partition", "offset", "headers"]
    receiver = IdempotentReceiver(sink=Append(str(tmp_path / "t")), seen_ids=str(tmp_path / "seen"))
    inputs = {"clicks": reading(broker, target, kafka_columns=columns)}
    run(Job(name="second", inputs=inputs, sink=receiver), spark)
    seen = spark.read.format("delta").load(receiver.seen_ids)
    (sender,) = seen.select("sender").distinct().collect()
    assert sender[0].startswith("first/")
    stored = spark.read.format("delta").load(str(tmp_path / "t"))
    assert sorted(row.page for row in stored.collect()) == ["p0", "p1", "p2"]
    assert "headers" not in stored.columns


def record(row: tuple[int, int, str]) -> list[tuple[str, bytes]]:
    sender, number, name = row
    return [("other", b"1"), ("tidegate-id", f"j{sender}/q/publish/{number}/{name}".encode())]


@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_copies_are_removed_for_any_topic_and_any_batches(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    logs: dict[int, list[tuple[int, int, str]]] = {0: [], 1: []}
    unique: set[tuple[int, int, str]] = set()
    turns = [(sender, number) for number in range(3) for sender in range(2)]
    for sender, number in turns:
        batch_of = {part: [(sender, number, f"{part}{i:x}-1") for i in range(4)] for part in logs}
        for attempt in range(draw.randint(1, 3)):
            for part, log in logs.items():
                # An incomplete attempt precedes the complete batch.
                incomplete = draw.sample(batch_of[part], draw.randint(0, 4))
                log += incomplete if attempt else []
        for part, log in logs.items():
            log += draw.sample(batch_of[part], 4)
            log += draw.sample(log, draw.randint(0, 1))
            unique.update(batch_of[part])
    sink = IdempotentReceiver(sink=Append(str(tmp_path / "t")), seen_ids=str(tmp_path / "seen"))
    at = dict.fromkeys(logs, 0)
    number = 0
    while any(at[part] < len(log) for part, log in logs.items()):
        cut: list[Any] = []
        for part, log in logs.items():
            end = len(log) if number == 3 else min(len(log), at[part] + draw.randint(0, 25))
            cut += [("t", part, i, str(log[i]), record(log[i])) for i in range(at[part], end)]
            at[part] = end
        cut.append(("t", 0, 10_000 + number, "bare", None))
        frame = spark.createDataFrame(cut, RECORDS)
        if number == 1:
            with crash_after(tmp_path / "t", batch=1), pytest.raises(CrashError):
                sink.write({"rows": frame}, batch(number))
        sink.write({"rows": frame}, batch(number))
        number += 1
    names = Counter(row.name for row in rows(spark, sink.path))
    assert names.pop("bare") == number
    assert names == Counter(map(str, unique))
    assert spark.read.format("delta").load(sink.seen_ids).count() == 16


@pytest.mark.broker
@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_a_job_that_removes_duplicates_sends_each_event_once_for_any_batches(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    """Events arrive out of order, and several times, within the watermark delay."""
    draw = random.Random(seed)
    source, target = broker.create_topic(topic, retention_ms=-1), broker.create_topic(f"{topic}-to")
    events = {f"e{second}": second for second in range(60)}
    copies = [name for name in events for _ in range(draw.randint(1, 3))]
    arrivals = sorted(copies, key=lambda name: events[name] + draw.uniform(0, 9))
    cut = draw.randint(1, len(arrivals))
    late_copy, end = "e5", "end"
    for sent in (arrivals[:cut], [*arrivals[cut:], end], [late_copy]):
        values = []
        for name in sent:
            at = AT + timedelta(seconds=events.get(name, 1_000))
            values.append(json.dumps({"page": name, "at": at.isoformat()}).encode())
        produce(broker.bootstrap_servers, source, values)
        clicks = Input(
            KafkaSource(
                broker.bootstrap_servers, source, max_records_per_batch=draw.randint(20, 80)
            ),
            json_format("page string, at timestamp"),
            time="at",
            watermark_delay="10 seconds",
            future_tolerance=None,
        )
        job = Job(
            name="unique",
            inputs={"clicks": clicks},
            transform=Deduplication("page", "1 minute", max_delay="10 seconds"),
            sink=KafkaSink(
                str(tmp_path / "sent"),
                bootstrap_servers=broker.bootstrap_servers,
                topic=target,
                key="page",
            ),
        )
        done = run(job, spark)
    assert done.late_rows == 1
    records = records_in(spark, broker, target)
    assert Counter(row.key.decode() for row in records) == dict.fromkeys(events, 1)
    assert all(json.loads(row.value)["page"] == row.key.decode() for row in records)
