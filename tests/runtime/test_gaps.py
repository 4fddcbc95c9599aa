"""Records that a topic loses before they are read: named, and never lost in silence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from tests.tables import rows
from tidegate.commit import Batch
from tidegate.commit.batch import EPOCH
from tidegate.errors import SourceError, TidegateError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.gaps import Gap, _without, found_gaps, lost, skipping
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker
from tidegate.testing.crash import crash_after
from tidegate.testing.process import until

from ..sources.raw import produce
from .topics import sent


def batch(start: dict[int, int], end: dict[int, int]) -> Batch:
    return Batch(
        job="j",
        query_id="q",
        run_id="r",
        number=1,
        offsets_hash="",
        start={"t": start},
        end={"t": end},
        watermark=EPOCH,
    )


def test_what_a_batch_would_read_before_the_first_offset_that_is_left_is_a_gap() -> None:
    planned = batch({0: 5, 1: 5, 2: 5}, {0: 9, 1: 9, 2: 9, 3: 4})
    gaps = found_gaps(planned.start, planned.end, {"t": {0: 5, 1: 7, 2: 90, 3: 1}})
    assert gaps == [Gap("t", 1, 5, 7), Gap("t", 2, 5, 9), Gap("t", 3, 0, 1)]
    left = skipping(planned, gaps)
    assert left.start == {"t": {0: 5, 1: 7, 2: 9, 3: 1}}
    assert found_gaps(left.start, left.end, {"t": {0: 5, 1: 7, 2: 90, 3: 1}}) == []
    assert "t-1 from offset 5 up to 7, t-2 from" in str(lost(gaps, recorded=False))
    assert "(7 offsets)" in str(lost(gaps, recorded=True))


def test_a_log_that_was_cut_back_is_refused() -> None:
    with pytest.raises(SourceError, match="t-0 has been read up to offset 5, and ends at 4 now"):
        found_gaps({"t": {0: 5}}, {"t": {0: 4}}, {"t": {0: 0}})


def test_what_is_noted_of_a_gap_is_not_noted_again() -> None:
    noted = [Gap("t", 0, 3, 5), Gap("t", 0, 7, 8), Gap("u", 0, 0, 9), Gap("t", 1, 0, 9)]
    assert _without([Gap("t", 0, 0, 10)], noted) == [
        Gap("t", 0, 0, 3),
        Gap("t", 0, 5, 7),
        Gap("t", 0, 8, 10),
    ]
    assert _without([Gap("t", 1, 2, 9), Gap("u", 0, 0, 9)], noted) == []


def copying(
    broker: Broker,
    topic: str,
    root: Path,
    on_data_loss: Literal["stop", "record"],
    **others: Any,
) -> Job:
    """Return a job that copies a topic's records with their places."""
    source = KafkaSource(broker.servers, topic, max_rows=10, on_data_loss=on_data_loss)
    reading = Reading(
        source,
        json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        lateness="0 seconds",
        keep=["partition", "offset"],
        future_tolerance=None,
    )
    return Job(
        name="copies", inputs={"clicks": Input(reading)}, sink=Append(str(root / "t")), **others
    )


def copied(root: Path) -> Counter[tuple[int, int]]:
    return Counter((row["partition"], row["offset"]) for row in rows(root / "t"))


def gone(root: Path) -> Counter[tuple[int, int]]:
    return Counter(
        (row["partition"], offset)
        for row in rows(root / "t.gaps")
        for offset in range(row["start_offset"], row["end_offset"])
    )


def places(*ranges: tuple[int, int, int]) -> Counter[tuple[int, int]]:
    return Counter((part, offset) for part, start, end in ranges for offset in range(start, end))


@pytest.mark.broker
def test_what_retention_took_stops_the_job_by_name_or_is_written_down_once_over_crashes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    for part in (0, 1):
        sent(broker.servers, topic, range(5), part)
    run(copying(broker, topic, tmp_path, "stop"), spark)
    for part in (0, 1):
        sent(broker.servers, topic, range(5), part)
    broker.delete_records(topic, {0: 7})
    with pytest.raises(SourceError, match=rf"{topic}-0 from offset 5 up to 7 \(2 offsets\)"):
        run(copying(broker, topic, tmp_path, "stop"), spark)
    assert copied(tmp_path) == places((0, 0, 5), (1, 0, 5))

    recording = copying(broker, topic, tmp_path, "record")
    with crash_after(tmp_path / "t.gaps"), pytest.raises(TidegateError, match="after batch"):
        run(recording, spark)
    assert gone(tmp_path) == places((0, 5, 7))
    # More is lost before the batch runs again, of the same partition and of the other.
    broker.delete_records(topic, {0: 8, 1: 6})
    with crash_after(tmp_path / "t"), pytest.raises(TidegateError, match="after batch"):
        run(recording, spark)
    # What the target has by now is not lost.
    broker.delete_records(topic, {0: 9})
    done = run(recording, spark)
    assert copied(tmp_path) == places((0, 0, 5), (1, 0, 5), (0, 8, 10), (1, 6, 10))
    assert gone(tmp_path) == places((0, 5, 8), (1, 5, 6))
    assert (done.skipped, done.lost) == (1, 0)


@pytest.mark.broker
def test_records_that_were_fetched_ahead_and_then_deleted_are_in_one_table_alone(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, range(30))

    def deleting(frame: DataFrame) -> DataFrame:
        broker.delete_records(topic, {0: 15})
        return frame

    with pytest.raises(SourceError, match="batch 1 has 10 rows of clicks, and 5 of them"):
        run(copying(broker, topic, tmp_path, "record", each_batch=deleting), spark)
    assert copied(tmp_path) == places((0, 0, 10))
    assert gone(tmp_path) == Counter()
    done = run(copying(broker, topic, tmp_path, "record"), spark)
    assert (done.lost, done.rows_in) == (5, 15)
    assert copied(tmp_path) == places((0, 0, 10), (0, 15, 30))
    assert gone(tmp_path) == places((0, 10, 15))


@pytest.mark.broker
def test_a_topic_that_is_made_again_while_the_job_runs_stops_it_before_it_writes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, range(20))

    def replacing(frame: DataFrame) -> DataFrame:
        broker.delete_topic(topic)
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        sent(broker.servers, topic, range(40))
        return frame

    with pytest.raises(SourceError, match="deleted and made again"):
        run(copying(broker, topic, tmp_path, "stop", each_batch=replacing), spark)
    assert copied(tmp_path) == places((0, 0, 10))


@pytest.mark.broker
def test_holes_of_aborted_transactions_and_of_compaction_are_no_gaps(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(
        topic, cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio="0.01"
    )
    value = b'{"page":"/a","event_time":"2026-03-02T09:00:00Z"}'
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions()
    for keys, commit in (("aab", True), ("xyz", False), ("b", True)):
        producer.begin_transaction()
        for key in keys:
            producer.produce(topic, value, key.encode())
        if commit:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()

    def there() -> list[int]:
        # A segment is compacted once a later record has closed it.
        produce(broker.servers, topic, [value], key=b"last")
        return offsets(broker.servers, topic)

    until(lambda: 0 not in there(), within=60, what="the compaction of offset 0")
    before = set(offsets(broker.servers, topic))
    done = run(copying(broker, topic, tmp_path, "record"), spark)
    found = copied(tmp_path)
    # What follows the first compaction may be compacted while the job reads.
    after = set(offsets(broker.servers, topic))
    assert after <= {offset for _, offset in found} <= before
    assert {0, 4, 5, 6}.isdisjoint(before)
    assert (done.lost, done.rows_in) == (0, found.total())
    assert gone(tmp_path) == Counter()


def offsets(servers: str, topic: str) -> list[int]:
    """Return the offsets of the records that a consumer of committed ones gets."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    try:
        while True:
            message = consumer.poll(30)
            if message is None or message.error():
                return found
            found.append(message.offset() or 0)
    finally:
        consumer.close()
