"""Records of a Kafka topic become good rows or dead letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.raw_records import RECEIVED, produce, raw
from tidegate.commit.batch import BatchPlan, CommitContext, read_batch_plan
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.event_time import epoch_to_timestamp
from tidegate.formats import json_format
from tidegate.jvm import observed_metrics
from tidegate.jvm.spark_internals import java_object
from tidegate.sinks import SideOutputTable
from tidegate.sources import Input, KafkaSource
from tidegate.sources.input import OBSERVATION
from tidegate.sources.side_output_rows import LatenessTest
from tidegate.testing.broker import Broker

LATE = RECEIVED - timedelta(hours=5)
FORMAT_TEXT = "page STRING, ms BIGINT, at TIMESTAMP"


def input_of(servers: str, topic: str, **others: Any) -> Input:
    source = KafkaSource(bootstrap_servers=servers, topics=[topic])
    settings: dict[str, Any] = {"time": "at", "watermark_delay": "10 seconds"} | others
    return Input(source=source, format=json_format(FORMAT_TEXT), **settings)


def click(page: str, at: datetime = RECEIVED) -> bytes:
    return f'{{"page":"{page}","ms":5,"at":"{at.isoformat()}"}}'.encode()


def run_stream(
    frame: DataFrame, checkpoint: Path, work: Callable[[DataFrame, int, Any], None]
) -> None:
    """Run the stream to the end, with one call of `work` per batch, and raise its failure."""
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
def test_unreadable_records_are_dead_letters_once_and_the_others_are_in_the_stream(
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
    produce(
        broker.bootstrap_servers, topic, [*poison[:4], *good[:2]], key=b"k", headers=[("h", b"1")]
    )
    produce(broker.bootstrap_servers, topic, [*poison[4:], *good[2:]], partition=1)
    clicks = input_of(broker.bootstrap_servers, topic, kafka_columns=["offset"], max_value_bytes=20)
    batches: list[tuple[set[str], dict[str, Any] | None, BatchPlan]] = []
    table, checkpoint = str(tmp_path / "dead"), tmp_path / "checkpoint"

    def work(batch: DataFrame, number: int, query: Any) -> None:
        pages = {row.page for row in batch.persist().collect()}
        metrics = observed_metrics(query, OBSERVATION)
        plan = read_batch_plan(
            spark, str(checkpoint), job="j", query_id=query.id, run_id=query.runId, number=number
        )
        dead = clicks.dead_letters(batch.sparkSession, plan.start, plan.end)
        outcomes = [
            SideOutputTable(path=table).write(dead, CommitContext(plan=plan), expected=len(poison))
            for _ in range(2)
        ]
        assert outcomes == ["written", "skipped"]
        batches.append((pages, metrics, plan))

    run_stream(clicks.stream(spark), checkpoint, work)
    [(pages, metrics, plan)] = batches
    micros = [int((RECEIVED + step).timestamp() * 1e6) for step in (-100 * hour, hour)]
    assert pages == {"/a", "/b", "/c"}
    assert metrics == {"rows": 11, "dead_letters": 8, "earliest": micros[0], "latest": micros[1]}
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
    stored_values = [None if value is None else value[:20] for value in poison]
    assert [row.value for row in rows] == stored_values
    assert [row.value_bytes for row in rows] == [
        None if value is None else len(value) for value in poison
    ]
    assert (rows[0].topic, rows[0].key, rows[0].headers) == (topic, b"k", [("h", b"1")])
    reread = clicks.good_rows(spark, plan.start, plan.end)
    assert reread.columns == [
        "page",
        "ms",
        "at",
        "event_time",
        "topic",
        "partition",
        "offset",
        "timestamp",
    ]
    assert {row.page for row in reread.collect()} == pages


@pytest.mark.broker
@pytest.mark.parametrize("on_future", ["reject", "clamp"])
def test_a_record_timestamp_in_seconds_is_not_compared_with_the_event_time(
    on_future: Any, spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    in_seconds = datetime.fromtimestamp(RECEIVED.timestamp() / 1000, UTC)
    produce(broker.bootstrap_servers, topic, [click("/a")], at=in_seconds)
    produce(broker.bootstrap_servers, topic, [click("/b", RECEIVED + timedelta(hours=2))])
    clicks = input_of(broker.bootstrap_servers, topic, on_future=on_future)
    good = clicks.good_rows(spark, {}, {topic: {0: 2}}).orderBy("offset").collect()
    assert good[0].event_time.replace(tzinfo=UTC) == RECEIVED
    assert len(good) == (1 if on_future == "reject" else 2)


@pytest.mark.broker
def test_a_record_without_a_timestamp_has_no_event_time_and_is_not_checked_for_the_future(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic(topic, retention_ms=-1)
    without = datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1)
    produce(servers, topic, [click("/a"), click("/b")], at=without)
    produce(servers, topic, [click("/c")])
    end = {topic: {0: 3}}
    by_record = input_of(servers, topic, time=F.col("timestamp"))
    good = by_record.good_rows(spark, {}, end).collect()
    assert [(row.page, row.event_time.replace(tzinfo=UTC)) for row in good] == [("/c", RECEIVED)]
    letters = by_record.dead_letters(spark, {}, end).orderBy("offset").collect()
    assert [(row.offset, row.timestamp, row.reason) for row in letters] == [
        (0, None, "no event time"),
        (1, None, "no event time"),
    ]
    by_field = input_of(servers, topic, kafka_columns=["timestamp"])
    rows = by_field.stream(spark).writeStream.format("memory").queryName("without_timestamp")
    rows.trigger(availableNow=True).start().awaitTermination()
    found = {row.page: row.timestamp for row in spark.table("without_timestamp").collect()}
    assert found == {"/a": None, "/b": None, "/c": RECEIVED.replace(tzinfo=None)}


@pytest.mark.broker
@pytest.mark.parametrize("name", ["EVENT_TIME", "Event_Time", "event_time"])
def test_a_time_field_named_event_time_in_any_case_is_the_column_event_time(
    name: str, spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    values = [f'{{"PAGE":"/","{name}":"{at.isoformat()}"}}'.encode() for at in (RECEIVED, LATE)]
    produce(broker.bootstrap_servers, topic, [*values, b"{}"])
    source = KafkaSource(bootstrap_servers=broker.bootstrap_servers, topics=[topic])
    pages = Input(
        source, json_format(f"PAGE STRING, {name} TIMESTAMP"), time=name, watermark_delay="0 s"
    )
    assert pages.columns == ["PAGE", "event_time"]
    late_at = F.col("event_time") + F.make_dt_interval(hours=F.lit(1))
    side_outputs = pages.side_outputs(
        spark, {}, {topic: {0: 3}}, LatenessTest(late_at, RECEIVED - timedelta(hours=1))
    )
    assert [row["PAGE"] for row in side_outputs.late_rows().collect()] == ["/"]
    assert [row["reason"] for row in side_outputs.dead_letters().collect()] == ["no event time"]
    assert pages.good_rows(spark, {}, {topic: {0: 3}}).columns[:2] == pages.columns


@pytest.mark.broker
def test_on_future_clamp_clamps_event_times_to_the_tolerance(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    hour, day = timedelta(hours=1), timedelta(days=1)
    near = [RECEIVED - day, RECEIVED + hour]
    beyond = [RECEIVED + hour + timedelta(microseconds=1), datetime(2099, 1, 1, tzinfo=UTC)]
    produce(broker.bootstrap_servers, topic, [click("/a", at) for at in [*near, *beyond]])
    clicks = input_of(broker.bootstrap_servers, topic, on_future="clamp", kafka_columns=["offset"])
    times: dict[int, int] = {}
    counts: list[dict[str, Any] | None] = []

    def work(batch: DataFrame, number: int, query: Any) -> None:
        rows = batch.select("offset", F.unix_micros("event_time").alias("micros")).collect()
        times.update({row.offset: row.micros for row in rows})
        counts.append(observed_metrics(query, OBSERVATION))

    run_stream(clicks.stream(spark), tmp_path / "checkpoint", work)
    limit = int((RECEIVED + hour).timestamp() * 1e6)
    assert times == {0: int((RECEIVED - day).timestamp() * 1e6), 1: limit, 2: limit, 3: limit}
    assert [(each["dead_letters"], each["clamped"], each["latest"]) for each in counts if each] == [
        (0, 2, limit)
    ]
    reread = (
        clicks.good_rows(spark, {}, {topic: {0: 4}})
        .where("offset = 3")
        .select(*map(F.unix_micros, ("event_time", "at")))
    )
    assert [tuple(row) for row in reread.collect()] == [
        (limit, int(beyond[1].timestamp() * 1e6))
    ], "the field is not clamped"


@pytest.mark.broker
def test_the_second_batch_starts_at_the_end_of_the_first_and_bad_times_do_not_move_the_watermark(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    clicks, checkpoint = input_of(broker.bootstrap_servers, topic), tmp_path / "checkpoint"
    plans: list[BatchPlan] = []

    def work(batch: DataFrame, number: int, query: Any) -> None:
        batch.collect()
        plans.append(
            read_batch_plan(
                spark, str(checkpoint), job="j", query_id=query.id, run_id="r", number=number
            )
        )

    counted = clicks.stream(spark).groupBy(F.window("event_time", "1 minute")).count()
    produce(
        broker.bootstrap_servers,
        topic,
        [click("/a"), click("/x", RECEIVED + timedelta(days=9000)), b"bad"],
    )
    run_stream(counted, checkpoint, work)
    produce(broker.bootstrap_servers, topic, [click("/b")])
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
def test_a_kafka_column_with_the_name_of_a_field_gets_a_prefix(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    produce(
        broker.bootstrap_servers,
        topic,
        [b'{"timestamp":1714564800000,"offset":"o"}', b'{"timestamp":9000000000000000000}'],
    )
    clicks = Input(
        source=KafkaSource(bootstrap_servers=broker.bootstrap_servers, topics=[topic]),
        format=json_format("timestamp BIGINT, offset STRING"),
        time=epoch_to_timestamp(F.col("timestamp")),
        watermark_delay="1 minute",
    )
    [row] = clicks.good_rows(spark, {}, {topic: {0: 2}}).collect()
    assert (row.timestamp, row.offset, row.kafka_offset, row.topic) == (
        1714564800000,
        "o",
        0,
        topic,
    )
    [dead] = clicks.dead_letters(spark, {}, {topic: {0: 2}}).collect()
    assert (dead.offset, dead.stage, dead.reason) == (1, "event_time", "no event time")


@pytest.mark.broker
def test_side_outputs_are_read_once_and_only_good_rows_can_be_late(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    untimed = b'{"page":"/x","ms":0}'
    zero = b'{"page":"/0","ms":0,"at":"2020-01-01T00:00:00Z"}'
    early = click("/early", RECEIVED - timedelta(hours=2))
    produce(broker.bootstrap_servers, topic, [click("/a"), untimed, b"bad", zero, early])
    clicks = input_of(broker.bootstrap_servers, topic, where="ms > 0", future_tolerance=None)

    # Raises for a record without a time, and for one that `where` drops.
    def late_at(time: Column) -> Column:
        return F.window(time, "1 minute")["end"] + F.make_interval(mins=F.lit(0) / F.col("ms"))

    lateness_test = LatenessTest(late_at(F.col("event_time")), RECEIVED - timedelta(hours=1))
    side_outputs = clicks.side_outputs(spark, {}, {topic: {0: 5}}, lateness_test)
    assert side_outputs.count_rows(RECEIVED - timedelta(hours=3)) == (2, 1, 1)
    assert side_outputs.count_rows(RECEIVED - timedelta(hours=1)) == (2, 1, 0)
    letters = side_outputs.dead_letters()
    assert [(row.offset, row.reason) for row in letters.orderBy("offset").collect()] == [
        (1, "no event time"),
        (2, "not a JSON object"),
    ]
    assert letters.schema == clicks.dead_letters(spark, {}, {}).schema
    [late] = side_outputs.late_rows().collect()
    assert (late.page, late.offset) == ("/early", 4)
    assert late.watermark.replace(tzinfo=UTC) == RECEIVED - timedelta(hours=1)
    assert side_outputs.late_rows().columns == [
        *clicks.good_rows(spark, {}, {}).columns,
        "final_at",
        "watermark",
    ]


@pytest.mark.broker
def test_a_later_watermark_does_not_compile_code_again(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    hours = [click(f"/{ago}", RECEIVED - timedelta(hours=ago)) for ago in range(1, 5)]
    produce(broker.bootstrap_servers, topic, hours)
    clicks = input_of(broker.bootstrap_servers, topic, future_tolerance=None)

    def late(ago: int) -> tuple[int, int, int]:
        """Return the counts of a batch with a watermark of some hours ago."""
        watermark = RECEIVED - timedelta(hours=ago)
        side_outputs = clicks.side_outputs(
            spark, {}, {topic: {0: 4}}, LatenessTest(F.col("event_time"), watermark)
        )
        counts = side_outputs.count_rows(watermark - timedelta(hours=1))
        assert {row.watermark for row in side_outputs.late_rows().collect()} == {
            watermark.replace(tzinfo=None)
        }
        return counts

    assert late(4) == (0, 1, 1)
    compiled_before = compiled_classes(spark)
    assert late(3) == (0, 2, 1)
    assert late(2) == (0, 3, 1)
    assert compiled_classes(spark) == compiled_before


def compiled_classes(spark: SparkSession) -> int:
    """Return the number of classes that Spark has compiled."""
    metrics = java_object(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_a_value_of_a_good_row_is_parsed_once(spark: SparkSession) -> None:
    clicks = input_of("nowhere:9092", "clicks")
    decoded = clicks._decode(raw(spark, [b"{}"]))
    good = clicks._good_rows(decoded, OBSERVATION).select("page", "event_time")
    plan = good._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("columnNameOfCorruptRecord") == 1


def test_invalid_arguments_are_refused_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="invalid time: 'when'"):
        input_of("s:1", "t", time="when")
    with pytest.raises(ColumnTypeError, match="bigint"):
        input_of("s:1", "t", time="ms")
    with pytest.raises(ColumnTypeError, match="bigint"):
        input_of("s:1", "t", time=F.col("ms") + 1).stream(spark)
    with pytest.raises(ArgumentError, match="invalid kafka_columns"):
        input_of("s:1", "t", kafka_columns=["value"])
    with pytest.raises(ArgumentError, match="invalid watermark_delay"):
        input_of("s:1", "t", watermark_delay="-1 second")
    with pytest.raises(ArgumentError, match="invalid max_value_bytes: -1"):
        input_of("s:1", "t", max_value_bytes=-1)
