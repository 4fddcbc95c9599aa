"""Result rows that a sink cannot store are dead letters, and the others are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import by_spark, is_there, rows
from tests.support.postgres_server import Server
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, Limits, json_format, run
from tidegate import aggregates as agg
from tidegate.errors import DeadLetterLimitError, TidegateError
from tidegate.jobs.output_sections import with_date
from tidegate.sinks import (
    Append,
    CorrectedWindows,
    FanOut,
    KafkaSink,
    MapRows,
    Mirror,
    Sink,
    TableLayout,
    Upsert,
)
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.jobs

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
BY_COUNTRY = TableLayout(partition_by=["country"])
COUNTS = WindowAggregation(Tumbling("1 hour"), by="country", aggs={"n": agg.count()})
UNSTORABLE = ["", "__HIVE_DEFAULT_PARTITION__", "x" * 300, ":" * 100]


def send(broker: Broker, topic: str, countries: Sequence[str | None], minute: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, country in enumerate(countries):
        at = START + timedelta(minutes=minute, seconds=number)
        record = {"country": country, "amount": number, "at": at.isoformat()}
        producer.produce(topic, json.dumps(record).encode(), partition=0)
    producer.flush()


def job(broker: Broker, topic: str, root: Path, sink: Sink, **others: Any) -> Job:
    visits = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format("country STRING, amount INT, at TIMESTAMP"),
        time="at",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    arguments: dict[str, Any] = {"dead_letters": str(root / "dead"), "limits": Limits()} | others
    return Job(name="visits", inputs={"visits": visits}, sink=sink, **arguments)


def reasons(root: Path) -> list[str]:
    """Return the reasons of the rows that the sink has rejected."""
    found = rows(root / "dead") if is_there(root / "dead") else []
    assert all((row["stage"], row["topic"], row["offset"]) == ("sink", None, None) for row in found)
    return sorted(row["reason"] for row in found)


@pytest.mark.broker
@pytest.mark.parametrize("threshold", [None, 0], ids=["stream", "backfill"])
def test_text_that_a_partition_cannot_hold_is_a_dead_letter(
    threshold: int | None, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ["de", None, "é/ü", *UNSTORABLE])
    sink = Append(str(tmp_path / "table"), layout=BY_COUNTRY)
    done = run(job(broker, topic, tmp_path, sink, backfill_threshold=threshold), spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (7, 3, 4)
    label = "the partition column 'country'"
    assert reasons(tmp_path) == [
        f"{label} is '__HIVE_DEFAULT_PARTITION__', which Delta would store as null",
        f"{label} is an empty text, which Delta would store as null",
        f"{label} is too long for the name of a folder",
        f"{label} is too long for the name of a folder",
    ]
    assert {json.loads(row["value"])["country"] for row in rows(tmp_path / "dead")} == {*UNSTORABLE}
    for read in (rows, by_spark(spark)):
        assert {row["country"] for row in read(tmp_path / "table")} == {"de", None, "é/ü"}


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["changes", "corrections", "upsert"])
def test_a_count_is_not_split_where_a_partition_is_empty_text(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    sink: Sink = CorrectedWindows(
        str(tmp_path / "table"), aggregation=COUNTS, log=None, layout=BY_COUNTRY
    )
    others: dict[str, Any] = {"emit": "changes"}
    if kind == "corrections":
        others = {"allowed_lateness": "1 day"}
    if kind == "upsert":
        sink = Upsert(str(tmp_path / "table"), keys=["window", "country"], layout=BY_COUNTRY)
        others = {}
    visits = job(broker, topic, tmp_path, sink, transform=COUNTS, **others)
    for minute in range(3):
        send(broker, topic, ["", None, "de"], minute)
        run(visits, spark)
    send(broker, topic, ["end"], 60)
    run(visits, spark)
    found = [row for row in rows(tmp_path / "table") if row["country"] != "end"]
    assert sorted((str(row["country"]), row["n"]) for row in found) == [("None", 3), ("de", 3)]
    rejected = [json.loads(row["value"]) for row in rows(tmp_path / "dead")]
    assert {row["country"] for row in rejected} == {""}


@pytest.mark.broker
def test_rows_are_checked_before_a_function_that_only_adds_columns(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ["", "de"])
    target = Append(str(tmp_path / "table"), layout=TableLayout(partition_by=["date", "country"]))
    sink = MapRows(rows=partial(with_date, time="at"), sink=target, adds_columns=True)
    done = run(job(broker, topic, tmp_path, sink), spark)
    assert (done.rows_out, done.dead_letters) == (1, 1)
    assert [row["country"] for row in rows(tmp_path / "table")] == ["de"]


@pytest.mark.broker
def test_rows_that_violate_constraints_of_the_table_are_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    path = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (country STRING NOT NULL, amount INT, at TIMESTAMP, "
        "event_time TIMESTAMP) USING DELTA"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (10 / (amount - 3) < 9)")
    send(broker, topic, ["a", None, "b", "zero", "nine"])
    done = run(job(broker, topic, tmp_path, Append(str(path))), spark)
    assert (done.rows_out, done.dead_letters) == (2, 3), "two rows violate it, one by an error"
    null_reason, *check_reasons = reasons(tmp_path)
    assert null_reason == "the NOT NULL column 'country' is null"
    for reason in check_reasons:
        assert reason.startswith("the table's CHECK constraint 'small' is violated: 10 / ")
    assert {row["country"] for row in rows(path)} == {"a", "b"}


@pytest.mark.broker
def test_a_row_without_a_key_is_not_sent_to_a_topic(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-out"):
        broker.create_topic(name, retention_ms=-1)
    send(broker, topic, ["de", None, "at"])
    sink = KafkaSink(
        str(tmp_path / "sent"),
        bootstrap_servers=broker.bootstrap_servers,
        topic=f"{topic}-out",
        key="country",
    )
    target = Append(str(tmp_path / "table"))
    done = run(job(broker, topic, tmp_path, FanOut(target, other_sinks=[sink])), spark)
    assert (done.rows_out, done.dead_letters) == (2, 1)
    assert reasons(tmp_path) == ["the key column 'country' is null"]
    assert [row["rows"] for row in rows(tmp_path / "sent")] == [2]
    assert {row["country"] for row in rows(tmp_path / "table")} == {"de", "at"}


@pytest.mark.broker
def test_a_row_that_postgresql_cannot_hold_does_not_stop_its_mirror(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, postgres: Server
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ["a\0b", "c", None, "c"])
    send(broker, topic, ["c"], 60)
    store = postgres.store("rejected_rows")
    columns = {"begin": "window.start", "country": "country", "n": "n"}
    mirror = Mirror(
        str(tmp_path / "mirror"), store=store, key=["begin", "country"], columns=columns
    )
    target = Append(str(tmp_path / "table"))
    sink = FanOut(target, other_sinks=[mirror])
    done = run(job(broker, topic, tmp_path, sink, transform=COUNTS), spark)
    assert reasons(tmp_path) == [
        "PostgreSQL cannot represent the value of the column 'country'",
        "the key column 'country' is null",
    ]
    assert postgres.run("SELECT country, n FROM rejected_rows") == [["c", 2]]
    assert [(row["country"], row["n"]) for row in rows(tmp_path / "table")] == [("c", 2)]
    assert (done.rows_out, done.dead_letters) == (1, 2)


@pytest.mark.broker
def test_too_many_rejected_rows_stop_the_job_before_anything_is_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ["", "", "de"])
    sink = Append(str(tmp_path / "table"), layout=BY_COUNTRY)
    with pytest.raises(DeadLetterLimitError, match="2 of 3 rows") as failed:
        run(job(broker, topic, tmp_path, sink, limits=Limits(dead_rows=1)), spark)
    assert "2 x sink: the partition column 'country' is an empty text" in str(failed.value)
    assert not is_there(tmp_path / "table")
    assert not is_there(tmp_path / "dead")


@pytest.mark.broker
def test_an_error_in_each_batch_precedes_all_commits_and_a_corrected_function_continues(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ["a", "b"])
    produce(broker.bootstrap_servers, topic, [b"bad"])
    send(broker, topic, ["c"], 1)

    def broken(visits: DataFrame) -> DataFrame:
        return visits.withColumn("share", F.lit(1) / F.col("amount"))

    def corrected(visits: DataFrame) -> DataFrame:
        return visits.withColumn("share", F.try_divide(F.lit(1), F.col("amount")))

    sink = Append(str(tmp_path / "table"))
    with pytest.raises(TidegateError, match="DIVIDE_BY_ZERO"):
        run(job(broker, topic, tmp_path, sink, each_batch=broken), spark)
    assert not is_there(tmp_path / "dead"), "the dead letter is committed with the batch"
    done = run(job(broker, topic, tmp_path, sink, each_batch=corrected), spark)
    assert len(rows(tmp_path / "table")) == 3
    assert done.rows_out == 3
