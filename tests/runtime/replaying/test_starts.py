"""Replays that begin at a time, in the middle of two topics, and after what retention deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, CheckpointError, SourceError
from tidegate.joins import IntervalJoin
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.replaying.replay import replay
from tidegate.runtime.replaying.switch import switch
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Tumbling, Windowed

from ...tables import rows
from ..left import FIRST, SECOND, Left
from ..topics import START, page, reading, sent

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def test_a_time_is_that_of_the_records_of_each_partition(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for minute, (second, part) in enumerate([(1, 0), (12, 1), (24, 0), (35, 1), (48, 0), (61, 1)]):
        at = int((NOON + timedelta(minutes=minute)).timestamp() * 1000)
        value = page("p", second).encode()
        producer.produce(topic, value, partition=part, timestamp=at)
    producer.flush()
    left = Left(broker, topic, tmp_path, tmp_path)
    run(left.job(), spark)
    with pytest.raises(ArgumentError, match="has read no record of that time or after it"):
        replay(left.job(), spark, start=NOON + timedelta(minutes=6))
    # Of seconds 1 and 12 nothing is read, so that windows which end after 22 s are whole.
    found = replay(left.job(), spark, start=NOON + timedelta(minutes=1, seconds=1))
    assert found is not None
    assert found.since == START + timedelta(seconds=22)
    assert (found.found.agree, found.found.rows, found.before) == (True, 3, 2)
    with pytest.raises(CheckpointError, match="one start for a replay"):
        replay(left.job(), spark, start=NOON)


def test_rows_late_by_the_log_are_late_by_records_before_the_start_too(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 12, 40, 23, 55, 68, 41, 81, 93])
    left = Left(broker, topic, tmp_path, tmp_path)
    job = left.job(inputs={"pages": Input(reading(broker.servers, topic), watermarks="log")})
    run(job, spark)
    assert left.aside("late") == {(0, 3): 1, (0, 6): 1}
    found = replay(job, spark, start={topic: {0: 3}})
    assert found is not None
    assert (found.found.agree, found.found.rows, found.late) == (True, 3, (0, 0))
    switch(job, spark)
    assert left.aside("late") == {(0, 3): 1, (0, 6): 1}


def test_a_join_is_replayed_from_offsets_of_both_topics(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sides = {side: f"{topic}-{side}" for side in ("seen", "bought")}
    names = [broker.create_topic(name, retention_ms=-1) for name in sides.values()]
    for name, seconds in zip(names, ([1, 20, 45, 70, 100], [3, 25, 46, 90, 110]), strict=True):
        sent(broker.servers, name, seconds)
    job = Job(
        name="bought",
        inputs={side: Input(reading(broker.servers, name)) for side, name in sides.items()},
        transform=IntervalJoin("page", within=("0 seconds", "10 seconds"), how="left"),
        sink=Append(str(tmp_path / "pairs")),
    )
    run(job, spark)
    before = sorted(map(str, rows(tmp_path / "pairs")))
    with pytest.raises(ArgumentError, match="leaves nothing to compare"):
        replay(job, spark, start={name: {0: 4} for name in names})
    found = replay(job, spark, start={name: {0: 2} for name in names})
    assert found is not None
    # The newest event before is of second 25, and a result reaches 10 s back.
    assert found.since == START + timedelta(seconds=35)
    assert (found.found.agree, found.found.rows, found.before) == (True, 1, 2)
    switch(job, spark)
    assert sorted(map(str, rows(tmp_path / "pairs"))) == before
    for name, seconds in zip(names, ([200], [201]), strict=True):
        sent(broker.servers, name, seconds)
    run(job, spark)
    pairs = [
        ((row["event_time_left"] - START).seconds, row["event_time_right"] is not None)
        for row in rows(tmp_path / "pairs")
    ]
    assert sorted(pairs) == [
        (1, True), (20, True), (45, True), (70, False), (100, True), (200, True)
    ]  # fmt: skip


def test_records_before_the_start_may_be_gone_where_a_commit_tells_their_event_times(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    left = Left.made(spark, broker, topic, tmp_path)
    before = left.views()
    broker.delete_records(topic, {0: 9})
    for at, gone in ((5, "before the start are gone.*0 up to 5"), (9, "start are gone.*7 up to 9")):
        with pytest.raises(SourceError, match=gone):
            replay(left.job(), spark, start={topic: {0: at}})
    with pytest.raises(
        SourceError, match=f"not yet read are gone.*{topic}-0 from offset 7 up to 9"
    ):
        replay(left.job(), spark, start={topic: {0: 7}})
    # Nothing has begun, so that it may begin somewhere else.
    # A batch ended here, and its commit tells that second 31 was the newest by then.
    sent(broker.servers, topic, [90])
    run(left.job(), spark)
    sent(broker.servers, topic, [105, 121])
    run(left.job(), spark)
    found = replay(left.job(), spark, start={topic: {0: len([*FIRST, *SECOND])}})
    assert found is not None
    assert found.since == START + timedelta(seconds=81)
    assert (found.found.agree, found.found.rows) == (True, 2)
    switch(left.job(), spark)
    assert left.views() == {**before, 70: 1, 90: 1, 100: 1}


def test_another_reading_is_compared_by_event_times_that_are_read_anew_and_not_switched(
    spark: SparkSession, left: Left
) -> None:
    later = Input(reading(left.broker.servers, left.topic, lateness="1 second"))
    wider = Windowed(Tumbling("10 seconds"), aggs={"n": count()})
    job = left.job(inputs={"pages": later}, transform=wider)
    found = replay(job, spark, start={left.topic: {0: len(FIRST)}})
    assert found is not None
    assert found.since == START + timedelta(seconds=41)
    with pytest.raises(CheckpointError, match=r"pages\.reading was"):
        switch(job, spark)
