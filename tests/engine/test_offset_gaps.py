"""Offset gaps: records that a topic loses before they are read are reported or recorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tests.support.raw_records import produce
from tidegate import Job, run
from tidegate.commit.batch import UNIX_EPOCH, BatchPlan
from tidegate.engine.offset_gaps import (
    OffsetGap,
    _subtract_gaps,
    data_loss_error,
    find_offset_gaps,
    without_gaps,
)
from tidegate.errors import SourceError, TidegateError
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.testing import Broker
from tidegate.testing.child_process import wait_until
from tidegate.testing.crash_points import crash_after

pytestmark = pytest.mark.jobs


def batch(start: dict[int, int], end: dict[int, int]) -> BatchPlan:
    return BatchPlan(
        job="j",
        query_id="q",
        run_id="r",
        number=1,
        offsets_hash="",
        start={"t": start},
        end={"t": end},
        watermark=UNIX_EPOCH,
    )


def test_offsets_of_a_batch_before_the_first_retained_offset_are_a_gap() -> None:
    planned = batch({0: 5, 1: 5, 2: 5}, {0: 9, 1: 9, 2: 9, 3: 4})
    gaps = find_offset_gaps(planned.start, planned.end, {"t": {0: 5, 1: 7, 2: 90, 3: 1}})
    assert gaps == [OffsetGap("t", 1, 5, 7), OffsetGap("t", 2, 5, 9), OffsetGap("t", 3, 0, 1)]
    left = without_gaps(planned, gaps)
    assert left.start == {"t": {0: 5, 1: 7, 2: 9, 3: 1}}
    assert find_offset_gaps(left.start, left.end, {"t": {0: 5, 1: 7, 2: 90, 3: 1}}) == []
    assert "t-1 from offset 5 up to 7, t-2 from" in str(data_loss_error(gaps, records_gaps=False))
    assert "(7 offsets)" in str(data_loss_error(gaps, records_gaps=True))


def test_a_truncated_log_is_refused() -> None:
    with pytest.raises(
        SourceError, match=r"t-0 was truncated\n.*up to offset 5, but ends at 4 now"
    ):
        find_offset_gaps({"t": {0: 5}}, {"t": {0: 4}}, {"t": {0: 0}})


def test_recorded_gaps_are_not_recorded_again() -> None:
    recorded = [
        OffsetGap("t", 0, 3, 5),
        OffsetGap("t", 0, 7, 8),
        OffsetGap("u", 0, 0, 9),
        OffsetGap("t", 1, 0, 9),
    ]
    assert _subtract_gaps([OffsetGap("t", 0, 0, 10)], recorded) == [
        OffsetGap("t", 0, 0, 3),
        OffsetGap("t", 0, 5, 7),
        OffsetGap("t", 0, 8, 10),
    ]
    assert _subtract_gaps([OffsetGap("t", 1, 2, 9), OffsetGap("u", 0, 0, 9)], recorded) == []


def copy_job(
    broker: Broker,
    topic: str,
    root: Path,
    on_data_loss: Literal["stop", "record"],
    **options: Any,
) -> Job:
    """Return a job that copies the records of a topic with their partition and offset."""
    source = KafkaSource(
        broker.bootstrap_servers, topic, max_records_per_batch=10, on_data_loss=on_data_loss
    )
    clicks = Input(
        source,
        json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay="0 seconds",
        kafka_columns=["partition", "offset"],
        future_tolerance=None,
    )
    return Job(name="copies", inputs={"clicks": clicks}, sink=Append(str(root / "t")), **options)


def copied_offsets(root: Path) -> Counter[tuple[int, int]]:
    return Counter((row["partition"], row["offset"]) for row in rows(root / "t"))


def lost_offsets(root: Path) -> Counter[tuple[int, int]]:
    return Counter(
        (row["partition"], offset)
        for row in rows(root / "t.offset_gaps")
        for offset in range(row["start_offset"], row["end_offset"])
    )


def offset_counts(*ranges: tuple[int, int, int]) -> Counter[tuple[int, int]]:
    return Counter((part, offset) for part, start, end in ranges for offset in range(start, end))


@pytest.mark.broker
def test_lost_records_stop_the_job_or_are_recorded_once_even_after_crashes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    for part in (0, 1):
        send_records(broker.bootstrap_servers, topic, range(5), part)
    run(copy_job(broker, topic, tmp_path, "stop"), spark)
    for part in (0, 1):
        send_records(broker.bootstrap_servers, topic, range(5), part)
    broker.delete_records(topic, {0: 7})
    with pytest.raises(SourceError, match=rf"{topic}-0 from offset 5 up to 7 \(2 offsets\)"):
        run(copy_job(broker, topic, tmp_path, "stop"), spark)
    assert copied_offsets(tmp_path) == offset_counts((0, 0, 5), (1, 0, 5))

    recording = copy_job(broker, topic, tmp_path, "record")
    with crash_after(tmp_path / "t.offset_gaps"), pytest.raises(TidegateError, match="after batch"):
        run(recording, spark)
    assert lost_offsets(tmp_path) == offset_counts((0, 5, 7))
    # More is lost before the batch runs again, of the same partition and of the other.
    broker.delete_records(topic, {0: 8, 1: 6})
    with crash_after(tmp_path / "t"), pytest.raises(TidegateError, match="after batch"):
        run(recording, spark)
    # Records that the target already has are not lost.
    broker.delete_records(topic, {0: 9})
    done = run(recording, spark)
    assert copied_offsets(tmp_path) == offset_counts((0, 0, 5), (1, 0, 5), (0, 8, 10), (1, 6, 10))
    assert lost_offsets(tmp_path) == offset_counts((0, 5, 8), (1, 5, 6))
    assert (done.skipped_batches, done.lost_offsets) == (1, 0)


@pytest.mark.broker
def test_prefetched_records_that_are_deleted_are_in_one_table_only(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, range(30))

    def deleting(frame: DataFrame) -> DataFrame:
        broker.delete_records(topic, {0: 15})
        return frame

    with pytest.raises(
        SourceError, match="batch 1 has 10 rows of the input 'clicks', but the topic has 5"
    ):
        run(copy_job(broker, topic, tmp_path, "record", each_batch=deleting), spark)
    assert copied_offsets(tmp_path) == offset_counts((0, 0, 10))
    assert lost_offsets(tmp_path) == Counter()
    done = run(copy_job(broker, topic, tmp_path, "record"), spark)
    assert (done.lost_offsets, done.rows_in) == (5, 15)
    assert copied_offsets(tmp_path) == offset_counts((0, 0, 10), (0, 15, 30))
    assert lost_offsets(tmp_path) == offset_counts((0, 10, 15))


@pytest.mark.broker
def test_a_topic_re_created_while_the_job_runs_stops_it_before_it_writes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, range(20))

    def replacing(frame: DataFrame) -> DataFrame:
        broker.delete_topic(topic)
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, topic, range(40))
        return frame

    with pytest.raises(SourceError, match=r"deleted and created again"):
        run(copy_job(broker, topic, tmp_path, "stop", each_batch=replacing), spark)
    assert copied_offsets(tmp_path) == offset_counts((0, 0, 10))


@pytest.mark.broker
def test_aborted_transactions_and_compaction_are_not_gaps(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(
        topic, cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio="0.01"
    )
    value = b'{"page":"/a","event_time":"2026-03-02T09:00:00Z"}'
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
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
        produce(broker.bootstrap_servers, topic, [value], key=b"last")
        return offsets(broker.bootstrap_servers, topic)

    wait_until(lambda: 0 not in there(), timeout=60, event="the compaction of offset 0")
    before = set(offsets(broker.bootstrap_servers, topic))
    done = run(copy_job(broker, topic, tmp_path, "record"), spark)
    found = copied_offsets(tmp_path)
    # What follows the first compaction may be compacted while the job reads.
    after = set(offsets(broker.bootstrap_servers, topic))
    assert after <= {offset for _, offset in found} <= before
    assert {0, 4, 5, 6}.isdisjoint(before)
    assert (done.lost_offsets, done.rows_in) == (0, found.total())
    assert lost_offsets(tmp_path) == Counter()


def offsets(servers: str, topic: str) -> list[int]:
    """Return the offsets of the records that a read-committed consumer gets."""
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
