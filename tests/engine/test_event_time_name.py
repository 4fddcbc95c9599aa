"""Jobs whose field of the event time is named EVENT_TIME, as the column that every input adds."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import by_spark
from tests.support.delta_tables import rows as by_deltalake
from tests.support.kafka_topics import START, send_records
from tidegate import Input, Job, KafkaSource, Rule, json_format, merge_late_rows, replay, run
from tidegate import aggregates as agg
from tidegate.joins import IntervalJoin
from tidegate.sinks import Append, CorrectedWindows
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.jobs, pytest.mark.broker]


def visits(broker: Broker, topic: str) -> Input:
    return Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format("PAGE STRING, EVENT_TIME TIMESTAMP"),
        time="EVENT_TIME",
        watermark_delay="0 seconds",
        future_tolerance=None,
        where="EVENT_TIME IS NOT NULL",
        rules=[Rule("after the start", f"EVENT_TIME >= TIMESTAMP '{START.isoformat()}'")],
    )


def send(broker: Broker, topic: str, *seconds: int) -> None:
    at = [(START + timedelta(seconds=second)).isoformat() for second in seconds]
    records = [json.dumps({"PAGE": "/a", "EVENT_TIME": each}) for each in at]
    send_records(broker.bootstrap_servers, topic, records)


def test_windows_count_late_rows_that_are_replayed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    aggs = {"n": agg.count(), "last": agg.max("EVENT_TIME")}
    views = WindowAggregation(Tumbling("10 seconds"), by="PAGE", aggs=aggs)
    job = Job(
        name="views",
        inputs={"visits": visits(broker, topic)},
        transform=views,
        sink=CorrectedWindows(str(tmp_path / "views"), aggregation=views, log=None),
        allowed_lateness="1 second",
    )
    send(broker, topic, 1, -5, 200)
    assert run(job, spark).dead_letters == 1
    send(broker, topic, 3)
    assert run(job, spark).late_rows == 1
    for read in (by_deltalake, by_spark(spark)):
        (late,) = read(tmp_path / "views.late")
        assert [name for name in late if name.lower() == "event_time"] == ["event_time"]
        assert late["event_time"] == START + timedelta(seconds=3)
    assert (merge_late_rows(job, spark), merge_late_rows(job, spark)) == (1, 0)
    for read in (by_deltalake, by_spark(spark)):
        found = {row["window"]["start"]: row for row in read(tmp_path / "views")}
        first = next(row for row in found.values() if row["n"] == 2)
        assert (first["PAGE"], first["last"]) == ("/a", START + timedelta(seconds=3))
    comparison = replay(job, spark)
    assert comparison is not None
    # Its table before the merge lacks the late row, which is not late in the replay.
    assert (comparison.differences.different, comparison.late_differences) == (1, (1, 0))
    (replayed,) = by_deltalake(tmp_path / "views.replay")
    assert (replayed["n"], replayed["last"]) == (2, START + timedelta(seconds=3))


def test_two_inputs_are_joined_by_it(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    inputs = {}
    for side, seconds in (("left", (1, 30, 100)), ("right", (4, 90, 101))):
        name = broker.create_topic(f"{topic}-{side}", retention_ms=-1)
        send(broker, name, *seconds)
        inputs[side] = visits(broker, name)
    job = Job(
        name="pairs",
        inputs=inputs,
        transform=IntervalJoin("PAGE", within=("0 s", "5 s"), how="inner"),
        sink=Append(str(tmp_path / "pairs")),
    )
    assert run(job, spark).rows_out == 2
    for read in (by_deltalake, by_spark(spark)):
        found = read(tmp_path / "pairs")
        assert sorted(
            (row["event_time_left"] - START, row["event_time_right"] - START) for row in found
        ) == [
            (timedelta(seconds=1), timedelta(seconds=4)),
            (timedelta(seconds=100), timedelta(seconds=101)),
        ]
