"""Records read from Kafka: good rows on, bad ones to the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commit import Batch, planned
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.eventtime import instant
from tidegate.formats import json_format
from tidegate.jvm import observed
from tidegate.jvm.session import java_object
from tidegate.sinks import SideTable
from tidegate.sources import KafkaSource, Reading
from tidegate.sources.aside import Behind
from tidegate.sources.reading import OBSERVATION
from tidegate.testing.broker import Broker

from .raw import RECEIVED, produce, raw

FORMAT_TEXT = "page STRING, ms BIGINT, at TIMESTAMP"


def reading(servers: str, topic: str, **others: Any) -> Reading:
    source = KafkaSource(servers=servers, topics=[topic])
    settings: dict[str, Any] = {"time": "at", "lateness": "10 seconds"} | others
    return Reading(source=source, format=json_format(FORMAT_TEXT), **settings)


def click(page: str, at: datetime = RECEIVED) -> bytes:
    return f'{{"page":"{page}","ms":5,"at":"{at.isoformat()}"}}'.encode()


def run_stream(
    frame: DataFrame, checkpoint: Path, work: Callable[[DataFrame, int, Any], None]
) -> None:
    """Run what there is, one call of `work` a batch; a failure inside comes out of
    awaitTermination."""
    spark = frame.sparkSession

    def each(batch: DataFrame, number: int) -> None:
        work(batch, number, spark.streams.active[0])

    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@pytest.mark.broker
def test_poison_lands_in_the_dead_letters_once_and_its_neighbours_in_the_stream(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    hour = timedelta(hours=1)
    poison = [
        b"",
        None,
        b"not json",
        b'{"page":"\xff"}',
        b'{"page":"/a","ms":"5"}',
        b'{"page":"/a"}',
        b"[" * 100_000,
        click("/future", RECEIVED + hour + timedelta(milliseconds=1)),
    ]
    good = [click("/a"), click("/b", RECEIVED + hour), click("/c", RECEIVED - 100 * hour)]
    produce(broker.servers, topic, [*poison[:4], *good[:2]], key=b"k", headers=[("h", b"1")])
    produce(broker.servers, topic, [*poison[4:], *good[2:]], partition=1)
    wanted = reading(broker.servers, topic, keep=["offset"], value_cap=20)
    seen: list[tuple[set[str], dict[str, Any] | None, Batch]] = []
    table, checkpoint = str(tmp_path / "dead"), tmp_path / "checkpoint"

    def work(batch: DataFrame, number: int, query: Any) -> None:
        pages = {row.page for row in batch.persist().collect()}
        counted = observed(query, OBSERVATION)
        plan = planned(
            spark, str(checkpoint), job="j", query_id=query.id, run_id=query.runId, number=number
        )
        dead = wanted.dead(batch.sparkSession, plan.start, plan.end)
        outcomes = [SideTable(path=table).write(dead, plan, expected=len(poison)) for _ in range(2)]
        assert outcomes == ["written", "skipped"]
        seen.append((pages, counted, plan))

    run_stream(wanted.stream(spark), checkpoint, work)
    [(pages, counted, plan)] = seen
    micros = [int((RECEIVED + step).timestamp() * 1e6) for step in (-100 * hour, hour)]
    assert pages == {"/a", "/b", "/c"}
    assert counted == {"rows": 11, "dead": 8, "earliest": micros[0], "latest": micros[1]}
    assert (plan.start, plan.end) == ({topic: {0: 0, 1: 0}}, {topic: {0: 6, 1: 5}})

    rows = spark.read.format("delta").load(table).orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset, row.stage, row.reason) for row in rows] == [
        (0, 0, "decode", "empty value"),
        (0, 1, "decode", "null value"),
        (0, 2, "decode", "not a JSON object"),
        (0, 3, "decode", "invalid UTF-8"),
        (1, 0, "decode", "wrong type: ms"),
        (1, 1, "event_time", "no event time"),
        (1, 2, "decode", "not a JSON object"),
        (1, 3, "event_time", "event time more than 1 hour ahead of the record's timestamp"),
    ]
    kept = [None if value is None else value[:20] for value in poison]
    assert [row.value for row in rows] == kept
    assert [row.value_bytes for row in rows] == [
        None if value is None else len(value) for value in poison
    ]
    assert (rows[0].topic, rows[0].key, rows[0].headers) == (topic, b"k", [("h", b"1")])
    again = wanted.rows(spark, plan.start, plan.end)
    assert again.columns == [
        "page",
        "ms",
        "at",
        "event_time",
        "topic",
        "partition",
        "offset",
        "timestamp",
    ]
    assert {row.page for row in again.collect()} == pages


@pytest.mark.broker
def test_a_clock_far_ahead_is_clamped_to_the_limit_where_that_is_asked_for(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    hour, day = timedelta(hours=1), timedelta(days=1)
    near = [RECEIVED - day, RECEIVED + hour]
    beyond = [RECEIVED + hour + timedelta(microseconds=1), datetime(2099, 1, 1, tzinfo=UTC)]
    produce(broker.servers, topic, [click("/a", at) for at in [*near, *beyond]])
    wanted = reading(broker.servers, topic, future="clamp", keep=["offset"])
    found: dict[int, int] = {}
    counts: list[dict[str, Any] | None] = []

    def work(batch: DataFrame, number: int, query: Any) -> None:
        rows = batch.select("offset", F.unix_micros("event_time").alias("micros")).collect()
        found.update({row.offset: row.micros for row in rows})
        counts.append(observed(query, OBSERVATION))

    run_stream(wanted.stream(spark), tmp_path / "checkpoint", work)
    limit = int((RECEIVED + hour).timestamp() * 1e6)
    assert found == {0: int((RECEIVED - day).timestamp() * 1e6), 1: limit, 2: limit, 3: limit}
    assert [(seen["dead"], seen["clamped"], seen["latest"]) for seen in counts if seen] == [
        (0, 2, limit)
    ]
    again = (
        wanted.rows(spark, {}, {topic: {0: 4}})
        .where("offset = 3")
        .select(*map(F.unix_micros, ("event_time", "at")))
    )
    assert [tuple(row) for row in again.collect()] == [(limit, int(beyond[1].timestamp() * 1e6))], (
        "the field stays"
    )


@pytest.mark.broker
def test_the_second_batch_begins_where_the_first_ended_and_bad_times_leave_the_watermark(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    wanted, checkpoint = reading(broker.servers, topic), tmp_path / "checkpoint"
    plans: list[Batch] = []

    def work(batch: DataFrame, number: int, query: Any) -> None:
        batch.collect()
        plans.append(
            planned(spark, str(checkpoint), job="j", query_id=query.id, run_id="r", number=number)
        )

    counted = wanted.stream(spark).groupBy(F.window("event_time", "1 minute")).count()
    produce(
        broker.servers, topic, [click("/a"), click("/x", RECEIVED + timedelta(days=9000)), b"bad"]
    )
    run_stream(counted, checkpoint, work)
    produce(broker.servers, topic, [click("/b")])
    run_stream(counted, checkpoint, work)
    data = [plan for plan in plans if plan.start != plan.end]
    assert [(plan.start, plan.end) for plan in data] == [
        ({topic: {0: 0}}, {topic: {0: 3}}),
        ({topic: {0: 3}}, {topic: {0: 4}}),
    ]
    assert data[-1].watermark == RECEIVED - timedelta(seconds=10)
    assert plans[0].watermark == plans[0].late_watermark == datetime(1970, 1, 1, tzinfo=UTC)
    assert all(later.late_watermark == earlier.watermark for earlier, later in pairwise(plans))


@pytest.mark.broker
def test_a_field_that_is_called_as_a_kafka_column_is_leaves_that_one_a_longer_name(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    produce(
        broker.servers,
        topic,
        [b'{"timestamp":1714564800000,"offset":"o"}', b'{"timestamp":9000000000000000000}'],
    )
    wanted = Reading(
        source=KafkaSource(servers=broker.servers, topics=[topic]),
        format=json_format("timestamp BIGINT, offset STRING"),
        time=instant(F.col("timestamp")),
        lateness="1 minute",
    )
    [row] = wanted.rows(spark, {}, {topic: {0: 2}}).collect()
    assert (row.timestamp, row.offset, row.kafka_offset, row.topic) == (
        1714564800000,
        "o",
        0,
        topic,
    )
    [dead] = wanted.dead(spark, {}, {topic: {0: 2}}).collect()
    assert (dead.offset, dead.stage, dead.reason) == (1, "event_time", "no event time")


@pytest.mark.broker
def test_what_is_set_aside_is_read_once_and_only_good_rows_are_asked_whether_they_are_late(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    untimed = b'{"page":"/x","ms":0}'
    zero = b'{"page":"/0","ms":0,"at":"2020-01-01T00:00:00Z"}'
    early = click("/early", RECEIVED - timedelta(hours=2))
    produce(broker.servers, topic, [click("/a"), untimed, b"bad", zero, early])
    wanted = reading(broker.servers, topic, where="ms > 0", future_tolerance=None)

    # Raises where it is asked of a record without a time, or of one that `where` leaves out.
    def late_at(time: Column) -> Column:
        return F.window(time, "1 minute")["end"] + F.make_interval(mins=F.lit(0) / F.col("ms"))

    behind = Behind(late_at(F.col("event_time")), RECEIVED - timedelta(hours=1))
    aside = wanted.aside(spark, {}, {topic: {0: 5}}, behind)
    assert aside.counts(RECEIVED - timedelta(hours=3)) == (2, 1, 1)
    assert aside.counts(RECEIVED - timedelta(hours=1)) == (2, 1, 0)
    letters = aside.dead()
    assert [(row.offset, row.reason) for row in letters.orderBy("offset").collect()] == [
        (1, "no event time"),
        (2, "not a JSON object"),
    ]
    assert letters.schema == wanted.dead(spark, {}, {}).schema
    [late] = aside.late().collect()
    assert (late.page, late.offset) == ("/early", 4)
    assert late.watermark.replace(tzinfo=UTC) == RECEIVED - timedelta(hours=1)
    assert aside.late().columns == [*wanted.rows(spark, {}, {}).columns, "closes", "watermark"]


@pytest.mark.broker
def test_a_later_watermark_lets_nothing_be_compiled_anew(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    hours = [click(f"/{ago}", RECEIVED - timedelta(hours=ago)) for ago in range(1, 5)]
    produce(broker.servers, topic, hours)
    wanted = reading(broker.servers, topic, future_tolerance=None)

    def late(ago: int) -> tuple[int, int, int]:
        """Return the counts of a batch whose watermark is so many hours ago."""
        watermark = RECEIVED - timedelta(hours=ago)
        aside = wanted.aside(spark, {}, {topic: {0: 4}}, Behind(F.col("event_time"), watermark))
        found = aside.counts(watermark - timedelta(hours=1))
        assert {row.watermark for row in aside.late().collect()} == {watermark.replace(tzinfo=None)}
        return found

    assert late(4) == (0, 1, 1)
    before = compiled(spark)
    assert late(3) == (0, 2, 1)
    assert late(2) == (0, 3, 1)
    assert compiled(spark) == before


def compiled(spark: SparkSession) -> int:
    """Return how many classes Spark has compiled."""
    found = java_object(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(found.METRIC_COMPILATION_TIME().getCount())


def test_a_value_is_parsed_once_on_the_way_to_the_good_rows(spark: SparkSession) -> None:
    wanted = reading("nowhere:9092", "clicks")
    judged = wanted._rows.judged(raw(spark, [b"{}"]))
    good = wanted._good(judged, OBSERVATION).select("page", "event_time")
    plan = good._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("columnNameOfCorruptRecord") == 1


def test_what_does_not_fit_is_refused_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="time names 'when'"):
        reading("s:1", "t", time="when")
    with pytest.raises(ColumnTypeError, match="bigint"):
        reading("s:1", "t", time="ms")
    with pytest.raises(ColumnTypeError, match="bigint"):
        reading("s:1", "t", time=F.col("ms") + 1).stream(spark)
    with pytest.raises(ArgumentError, match="keep"):
        reading("s:1", "t", keep=["value"])
    with pytest.raises(ArgumentError, match="lateness"):
        reading("s:1", "t", lateness="-1 second")
    with pytest.raises(ArgumentError, match="value_cap"):
        reading("s:1", "t", value_cap=-1)
