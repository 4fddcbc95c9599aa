"""A watermark for each partition, and one that goes on when its input is quiet, on a real topic."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, SourceError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.stop import Stop
from tidegate.runtime.query.run import run
from tidegate.runtime.query.streams import streams
from tidegate.runtime.query.topics import Topics
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker
from tidegate.testing.process import until
from tidegate.windows import Tumbling, Windowed

from ..tables import rows

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def sent(servers: str, topic: str, rows: Iterable[tuple[int, float]]) -> None:
    """Send one record for each partition and second after the start."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for partition, second in rows:
        record = {"page": f"p{partition}", "event_time": str(START + timedelta(seconds=second))}
        producer.produce(topic, json.dumps(record).encode(), partition=partition)
    producer.flush()


def job(
    servers: str,
    topic: str,
    root: Path,
    *,
    every: str | None = None,
    where: str | None = None,
    **settings: Any,
) -> Job:
    reading = Reading(
        source=KafkaSource(servers=servers, topics=[topic], max_rows=200),
        format=json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        lateness="0 seconds",
        future_tolerance=None,
    )
    return Job(
        name="watermarks",
        inputs={"clicks": Input(reading, **settings)},
        transform=Windowed(Tumbling("1 minute"), by="page", aggs={"n": count()}, where=where),
        sink=Append(path=str(root / "views")),
        checkpoint=str(root / "checkpoint"),
        dead=str(root / "dead"),
        late=str(root / "late"),
        every=every,
    )


@pytest.mark.broker
def test_a_slow_partition_is_not_late_because_a_fast_one_ran_ahead(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    # Both have a row for each of 300 steps, of one second here and of 100 there, and are read 100
    # steps at a time.
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(
        broker.servers,
        topic,
        [(part, step * second) for step in range(300) for part, second in ((0, 1), (1, 100))],
    )

    def drained(root: Path, **settings: Any) -> tuple[int, int]:
        done = run(job(broker.servers, topic, root, **settings), spark)
        slow = [row["n"] for row in rows(root / "views") if row["page"] == "p0"]
        return done.late, sum(slow)

    # The third batch is the first that is judged by the watermark of a batch with rows.
    assert drained(tmp_path / "one") == (100, 200)
    assert drained(tmp_path / "each", watermarks="partition") == (0, 240), (
        "the slow one's last minute is open"
    )


@pytest.mark.broker
def test_the_last_window_of_a_quiet_topic_comes_out_and_what_comes_then_is_late(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    # From the last row to the end of its window event time goes as the clock does. A condition that
    # Spark would push below the watermark leaves out the heartbeats there.
    each = job(
        broker.servers, topic, tmp_path, every="1 second", where="page = 'p0'", idle="2 seconds"
    )
    sent(broker.servers, topic, [(0, 10), (0, 70), (0, 115)])
    stop, told = Stop(), list[str]()

    def meanwhile() -> None:
        try:
            until(lambda: len(rows(tmp_path / "views")) == 2, within=180, what="the last window")
            sent(broker.servers, topic, [(0, 80)])
            until(lambda: len(rows(tmp_path / "late")) == 1, within=60, what="the late row")
        except Exception as error:
            told.append(str(error))
        finally:
            stop.ask()

    beside = threading.Thread(target=meanwhile)
    beside.start()
    done = run(each, spark, stop=stop)
    beside.join()
    assert told == []
    assert sorted(row["n"] for row in rows(tmp_path / "views")) == [1, 2]
    assert (done.rows_in, done.late, done.dead) == (4, 1, 0)


@pytest.mark.broker
def test_partitions_that_are_added_are_noticed_and_read_from_the_next_start_on(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [(part, second) for second in (10, 70) for part in (0, 1)])
    each = job(broker.servers, topic, tmp_path, watermarks="partition")
    running = streams(each, spark)
    assert run(each, spark).rows_in == 4
    broker.add_partitions(topic, 5)
    ticks = iter(range(0, 1000, 100))
    with Topics(each, running, spark, {}, clock=lambda: next(ticks)) as topics:
        topics.look()
        topics.look()
    said = [line for line in caplog.messages if "partitions were added" in line]
    assert said == [
        f"clicks: partitions were added, and {topic}-2, {topic}-3, {topic}-4 are read from the "
        "next start of the job on"
    ]
    sent(broker.servers, topic, [(part, second) for second in (80, 130) for part in range(5)])
    assert [stream.reads for stream in streams(each, spark)["clicks"]] == [
        [f"{topic}-0", f"{topic}-2", f"{topic}-4"],
        [f"{topic}-1", f"{topic}-3"],
    ]
    assert run(each, spark).rows_in == 10
    sent(broker.servers, topic, [(part, 190) for part in range(5)])
    assert run(each, spark).rows_in == 5
    assert sum(row["n"] for row in rows(tmp_path / "views")) == 2 + 7 + 5, (
        "three minutes are closed"
    )


def test_what_does_not_go_together_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match="idle"):
        job("nowhere:9092", "clicks", tmp_path, idle="10 seconds")
    with pytest.raises(ArgumentError, match="watermarks is 0"):
        job("nowhere:9092", "clicks", tmp_path, watermarks=0)
    with pytest.raises(SourceError, match="there is no topic no-such-topic at "):
        run(job(broker.servers, "no-such-topic", tmp_path, watermarks="partition"), spark)
