"""A topic as a sink: what is sent, what is the same when sent again, and how it is read once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ColumnError, TopicError
from tidegate.formats import json_format
from tidegate.runtime import Input, Job, run
from tidegate.sinks import Append, Once, Publish
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker, crash_after
from tidegate.testing.crash import CrashError

from ..sources.raw import produce
from .batches import batch, rows

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

SALES = "page string, n bigint, at timestamp, gone boolean"
HELD = (
    "topic string, partition int, offset bigint, name string, "
    "headers array<struct<key: string, value: binary>>"
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def sales(spark: SparkSession, *given: tuple[str | None, int, bool]) -> DataFrame:
    return spark.createDataFrame([(page, n, AT, gone) for page, n, gone in given], SALES)


def sent(spark: SparkSession, broker: Broker, topic: str) -> list[Any]:
    options = {
        "kafka.bootstrap.servers": broker.servers,
        "subscribe": topic,
        "includeHeaders": "true",
    }
    raw = spark.read.format("kafka").options(**options).load()
    return raw.orderBy("partition", "offset").collect()


def test_rows_become_records_and_a_batch_sent_again_has_the_same_ids(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2)
    given = [("a", 1, False), ("a", 2, False), ("b", 1, False), ("b", 1, False), ("a", 3, True)]
    common: dict[str, Any] = {
        "servers": broker.servers, "topic": topic, "key": "page", "deleted": "gone",
        "order": ["n"],
    }  # fmt: skip
    sink = Publish(str(tmp_path / "sent"), **common)
    assert sink.write({"rows": sales(spark, *given)}, batch(0)) == "written"
    assert sink.write({"rows": sales(spark, *given)}, batch(0)) == "skipped"
    assert [tuple(row) for row in rows(spark, sink.path)] == [(topic, 0, 5)]
    first = sent(spark, broker, topic)
    assert len(first) == 5
    values = [row.value for row in first if row.key == b"a"]
    assert values[2] is None
    assert [json.loads(value)["n"] for value in values[:2]] == [1, 2]
    assert json.loads(values[0]) == {"page": "a", "n": 1, "at": "2026-01-02T03:04:05.678901Z"}
    # The note of the batch is lost, and its rows come in another order.
    lost = Publish(str(tmp_path / "lost"), **common)
    assert lost.write({"rows": sales(spark, *given[::-1]).repartition(3)}, batch(0)) == "written"
    both = [
        (row.partition, row.key, row.value, *row.headers[0]) for row in sent(spark, broker, topic)
    ]
    assert sorted(Counter(both).values()) == [2] * 5
    assert {name for *_, name, _ in both} == {"tidegate-id"}


def test_a_null_key_a_missing_topic_and_a_large_record_are_told(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sink = Publish(str(tmp_path / "sent"), servers=broker.servers, topic=topic, key="page")
    with pytest.raises(TopicError, match=f"there is no topic {topic}"):
        sink.write({"rows": sales(spark, ("a", 1, False))}, batch(0))
    broker.create_topic(topic)
    with pytest.raises(ColumnError, match="the key column page is null"):
        sink.write({"rows": sales(spark, ("a", 1, False), (None, 2, False))}, batch(0))
    assert sent(spark, broker, topic) == []
    large = sales(spark, ("big", 1, False)).withColumn("text", F.repeat(F.lit("x"), 2_000_000))
    with pytest.raises(
        TopicError, match=r"too large: the key 'big' with its value has 2,000,\d+ b"
    ):
        sink.write({"rows": large}, batch(0))
    assert not (tmp_path / "sent").exists()


def reading(broker: Broker, topic: str, *, keep: Sequence[str] = ()) -> Reading:
    form = json_format("page string, at timestamp")
    source = KafkaSource(broker.servers, topic)
    return Reading(source, form, time="at", lateness="0 seconds", future_tolerance=None, keep=keep)


def test_one_job_s_rows_are_another_job_s_records(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    given, made = broker.create_topic(topic), broker.create_topic(f"{topic}-made")
    values = [f'{{"page": "p{n}", "at": "2026-01-01T00:00:00Z"}}'.encode() for n in range(3)]
    produce(broker.servers, given, values, at=datetime.now(UTC))
    to = Publish(str(tmp_path / "sent"), servers=broker.servers, topic=made, key="page")
    first = Job(
        name="first",
        inputs={"clicks": Input(reading(broker, given))},
        sink=to,
    )
    run(first, spark)
    whole = ["topic", "partition", "offset", "headers"]
    once = Once(sink=Append(str(tmp_path / "t")), seen=str(tmp_path / "seen"))
    inputs = {"clicks": Input(reading(broker, made, keep=whole))}
    run(Job(name="second", inputs=inputs, sink=once), spark)
    seen = spark.read.format("delta").load(once.seen)
    (sender,) = seen.select("sender").distinct().collect()
    assert sender[0].startswith("first/")
    found = spark.read.format("delta").load(str(tmp_path / "t"))
    assert sorted(row.page for row in found.collect()) == ["p0", "p1", "p2"]
    assert "headers" not in found.columns


def record(row: tuple[int, int, str]) -> list[tuple[str, bytes]]:
    sender, number, name = row
    return [("other", b"1"), ("tidegate-id", f"j{sender}/q/publish/{number}/{name}".encode())]


@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_copies_are_dropped_however_a_topic_holds_them_and_is_cut_into_batches(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    logs: dict[int, list[tuple[int, int, str]]] = {0: [], 1: []}
    whole: set[tuple[int, int, str]] = set()
    turns = [(sender, number) for number in range(3) for sender in range(2)]
    for sender, number in turns:
        batch_of = {part: [(sender, number, f"{part}{i:x}-1") for i in range(4)] for part in logs}
        for again in range(draw.randint(1, 3)):
            for part, log in logs.items():
                # A part of the batch is there already when it is sent again as a whole.
                some = draw.sample(batch_of[part], draw.randint(0, 4))
                log += some if again else []
        for part, log in logs.items():
            log += draw.sample(batch_of[part], 4)
            log += draw.sample(log, draw.randint(0, 1))
            whole.update(batch_of[part])
    sink = Once(sink=Append(str(tmp_path / "t")), seen=str(tmp_path / "seen"))
    at = dict.fromkeys(logs, 0)
    number = 0
    while any(at[part] < len(log) for part, log in logs.items()):
        cut: list[Any] = []
        for part, log in logs.items():
            end = len(log) if number == 3 else min(len(log), at[part] + draw.randint(0, 25))
            cut += [("t", part, i, str(log[i]), record(log[i])) for i in range(at[part], end)]
            at[part] = end
        cut.append(("t", 0, 10_000 + number, "bare", None))
        frame = spark.createDataFrame(cut, HELD)
        if number == 1:
            with crash_after(tmp_path / "t", batch=1), pytest.raises(CrashError):
                sink.write({"rows": frame}, batch(number))
        sink.write({"rows": frame}, batch(number))
        number += 1
    found = Counter(row.name for row in rows(spark, sink.path))
    assert found.pop("bare") == number
    assert found == Counter(map(str, whole))
    assert spark.read.format("delta").load(sink.seen).count() == 16
