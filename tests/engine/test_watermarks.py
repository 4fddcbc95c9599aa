"""Watermarks per partition, and watermarks that advance while an input is idle, on a topic."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tidegate import Job, Summary, run
from tidegate.aggregates import count
from tidegate.engine.runner import describe_open_results
from tidegate.engine.streams import build_streams
from tidegate.engine.topic_monitor import TopicMonitor
from tidegate.errors import ArgumentError, SourceError
from tidegate.formats import json_format
from tidegate.jobs.job_command import format_summary
from tidegate.process.shutdown import Stop
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.testing import Broker
from tidegate.testing.child_process import wait_until
from tidegate.transform import Stateful
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.jobs

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def send_records(servers: str, topic: str, rows: Iterable[tuple[int, float]]) -> None:
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
    clicks = Input(
        source=KafkaSource(bootstrap_servers=servers, topics=[topic], max_records_per_batch=200),
        format=json_format("page STRING NOT NULL, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    return Job(
        name="watermarks",
        inputs={"clicks": replace(clicks, where=where, **settings)},
        transform=WindowAggregation(Tumbling("1 minute"), by="page", aggs={"n": count()}),
        sink=Append(path=str(root / "views")),
        checkpoint=str(root / "checkpoint"),
        dead_letters=str(root / "dead"),
        late_rows=str(root / "late"),
        every=every,
    )


@pytest.mark.broker
def test_a_slow_partition_is_not_late_because_a_fast_one_ran_ahead(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    # Both partitions have 300 rows, one second and 100 seconds apart, read 100 at a time.
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(
        broker.bootstrap_servers,
        topic,
        [(part, step * second) for step in range(300) for part, second in ((0, 1), (1, 100))],
    )

    def run_counts(root: Path, **settings: Any) -> tuple[int, int]:
        done = run(job(broker.bootstrap_servers, topic, root, **settings), spark)
        slow = [row["n"] for row in rows(root / "views") if row["page"] == "p0"]
        return done.late_rows, sum(slow)

    # The third batch is the first with the watermark of a batch with rows.
    assert run_counts(tmp_path / "one") == (100, 200)
    assert run_counts(tmp_path / "each", watermarks="partition") == (0, 240), (
        "the last minute of the slow partition is open"
    )


@pytest.mark.broker
def test_the_last_window_of_an_idle_topic_is_emitted_and_later_rows_are_late(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    # Event time advances with the clock from the last row to the end of its window. Spark must not
    # push the condition below the watermark, where it would drop the heartbeats.
    each = job(
        broker.bootstrap_servers,
        topic,
        tmp_path,
        every="1 second",
        where="page = 'p0'",
        idle_timeout="2 seconds",
    )
    send_records(broker.bootstrap_servers, topic, [(0, 10), (0, 70), (0, 115)])
    stop, failures = Stop(), list[str]()

    def send_late_row() -> None:
        try:
            wait_until(
                lambda: len(rows(tmp_path / "views")) == 2, timeout=180, event="the last window"
            )
            send_records(broker.bootstrap_servers, topic, [(0, 80)])
            wait_until(lambda: len(rows(tmp_path / "late")) == 1, timeout=60, event="the late row")
        except Exception as error:
            failures.append(str(error))
        finally:
            stop.request()

    sender = threading.Thread(target=send_late_row)
    sender.start()
    done = run(each, spark, stop=stop)
    sender.join()
    assert failures == []
    assert sorted(row["n"] for row in rows(tmp_path / "views")) == [1, 2]
    assert (done.rows_in, done.late_rows, done.dead_letters) == (4, 1, 0)


@pytest.mark.broker
def test_the_last_lines_of_an_idle_job_have_the_numbers_and_times_of_its_tables(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [(0, 10), (0, 70), (0, 115)])
    servers = broker.bootstrap_servers
    waiting_root, idle_root = tmp_path / "waiting", tmp_path / "idle"

    def run_until(each: Job, root: Path, windows: int) -> Summary:
        stop = Stop()

        def stop_with_windows() -> None:
            try:
                wait_until(
                    lambda: len(rows(root / "views")) == windows, timeout=120, event="windows"
                )
            finally:
                stop.request()

        stopper = threading.Thread(target=stop_with_windows)
        stopper.start()
        done = run(each, spark, stop=stop)
        stopper.join()
        return done

    # The newest event is at 115 s: the second window needs another event, since no input is idle.
    waiting = job(servers, topic, waiting_root, every="1 second")
    done = run_until(waiting, waiting_root, 1)
    assert format_summary(done, "written").endswith(
        "3 rows read, 1 written, 0 late, 0 dead letters, stopped on request"
    )
    assert describe_open_results(waiting, spark) == (
        "the watermark is 2026-03-02 09:01:55Z; the next results are emitted when it reaches "
        "2026-03-02 09:02:00Z: with an event at 2026-03-02 09:02:00Z or later"
    )
    # Without another event, the clock advances the watermark past the end of the second window.
    idle = job(servers, topic, idle_root, every="1 second", idle_timeout="1 second")
    done = run_until(idle, idle_root, 2)
    assert format_summary(done, "written").endswith(
        "3 rows read, 2 written, 0 late, 0 dead letters, stopped on request"
    )
    last_line = str(describe_open_results(idle, spark))
    watermark_text, next_text = re.findall(
        r"watermark is (\S+ \S+Z);.* reaches (\S+ \S+Z):", last_line
    )[0]
    watermark, next_result = map(datetime.fromisoformat, (watermark_text, next_text))
    emitted = [row["window"]["end"] for row in rows(idle_root / "views")]
    assert max(emitted) == START + timedelta(minutes=2) <= watermark < next_result
    assert next_result == watermark.replace(second=0) + timedelta(minutes=1)
    assert last_line.endswith(
        f"with an event at {next_text} or later, or when the clock has advanced as far after the "
        "idle_timeout"
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, " or later in each input"),
        ("1 minute", None, " or later in each input; after its idle_timeout, first follows the "),
        ("1 minute", "1 minute", " in each input, or when the clock has advanced as far after"),
    ],
)
def test_the_open_results_of_several_inputs_name_the_idle_ones(
    spark: SparkSession, tmp_path: Path, first: str | None, second: str | None, expected: str
) -> None:
    one = job("nowhere:9092", "clicks", tmp_path, every="1 second")
    inputs = {
        "first": replace(one.inputs["clicks"], idle_timeout=first),
        "second": replace(
            one.inputs["clicks"],
            source=KafkaSource("nowhere:9092", "searches"),
            idle_timeout=second,
        ),
    }

    def both(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.unionByName(right)

    transform = Stateful(both, late_from=Tumbling("1 minute").late_at)
    late_rows = {name: str(tmp_path / name) for name in inputs}
    two = replace(one, inputs=inputs, transform=transform, late_rows=late_rows)
    commits = tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    milliseconds = int(START.timestamp() * 1000)
    (commits / "0").write_text(f'v1\n{{"nextBatchWatermarkMs":{milliseconds}}}')
    assert expected in str(describe_open_results(two, spark))


@pytest.mark.broker
def test_added_partitions_are_reported_and_read_after_the_next_start(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(
        broker.bootstrap_servers, topic, [(part, second) for second in (10, 70) for part in (0, 1)]
    )
    each = job(broker.bootstrap_servers, topic, tmp_path, watermarks="partition")
    running = build_streams(each, spark)
    assert run(each, spark).rows_in == 4
    broker.add_partitions(topic, 5)
    ticks = iter(range(0, 1000, 100))
    with TopicMonitor(each, running, spark, {}, clock=lambda: next(ticks)) as topics:
        topics.warn_new_partitions()
        topics.warn_new_partitions()
    warnings = [line for line in caplog.messages if "new partitions" in line]
    assert warnings == [
        f"clicks: new partitions {topic}-2, {topic}-3, {topic}-4 are read after the next start of "
        "the job"
    ]
    send_records(
        broker.bootstrap_servers,
        topic,
        [(part, second) for second in (80, 130) for part in range(5)],
    )
    assert [stream.source_names for stream in build_streams(each, spark)["clicks"]] == [
        [f"{topic}-0", f"{topic}-2", f"{topic}-4"],
        [f"{topic}-1", f"{topic}-3"],
    ]
    assert run(each, spark).rows_in == 10
    send_records(broker.bootstrap_servers, topic, [(part, 190) for part in range(5)])
    assert run(each, spark).rows_in == 5
    assert sum(row["n"] for row in rows(tmp_path / "views")) == 2 + 7 + 5, "three minutes are final"


def test_invalid_watermark_settings_raise(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=r"^invalid idle_timeout"):
        job("nowhere:9092", "clicks", tmp_path, idle_timeout="10 seconds")
    with pytest.raises(ArgumentError, match=r"^invalid watermarks: 0"):
        job("nowhere:9092", "clicks", tmp_path, watermarks=0)
    with pytest.raises(SourceError, match="the topic no-such-topic does not exist"):
        run(job(broker.bootstrap_servers, "no-such-topic", tmp_path, watermarks="partition"), spark)
