"""Result rows that a sink cannot store are dead letters, and the others are written."""

from __future__ import annotations

import json
import re
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
from tidegate.changelogs import Fold
from tidegate.changelogs.change_schema import POSITION_TYPE
from tidegate.errors import DataError, DeadLetterLimitError, TidegateError
from tidegate.formats import debezium_format
from tidegate.jobs.output_sections import with_date
from tidegate.patterns import DeviationDetection, DeviationRule, PastWindows
from tidegate.process.exit_codes import EXIT_CODES, run_with_exit_code
from tidegate.sinks import (
    Alarms,
    Append,
    CorrectedWindows,
    CurrentTable,
    FanOut,
    HistoryTable,
    KafkaSink,
    MapRows,
    Mirror,
    Projection,
    Sink,
    TableLayout,
    TemporalJoin,
    Upsert,
    VersionedTable,
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
def test_a_computed_value_that_violates_a_constraint_stops_the_job_with_its_name(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    path = tmp_path / "table"
    sink = CorrectedWindows(str(path), aggregation=COUNTS, log=None)
    visits = job(broker, topic, tmp_path, sink, transform=COUNTS, emit="changes")
    send(broker, topic, ["de", "at"])
    run(visits, spark)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT few CHECK (n < 3)")
    send(broker, topic, ["de", "de", "at"], minute=1)
    for _ in range(2):
        assert run_with_exit_code(lambda: run(visits, spark)) == EXIT_CODES[DataError][0]
        output = capsys.readouterr().err
        assert output.startswith("DataError: ")
        assert re.search(r"constraint few \(n < 3\) violated", output, re.IGNORECASE), output
        assert "Exception" not in output
        assert [row["n"] for row in rows(path)] == [1, 1]
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT few")
    assert run(visits, spark).dead_letters == 0
    assert sorted((row["country"], row["n"]) for row in rows(path)) == [("at", 2), ("de", 3)]


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


def visits_input(broker: Broker, topic: str, schema: str, **others: Any) -> Input:
    arguments: dict[str, Any] = {"time": "at", "future_tolerance": None} | others
    source = KafkaSource(broker.bootstrap_servers, topic)
    return Input(source, json_format(schema), watermark_delay="0 seconds", **arguments)


def produce_json(broker: Broker, topic: str, records: Sequence[dict[str, Any]]) -> None:
    broker.create_topic(topic, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [json.dumps(record).encode() for record in records])


@pytest.mark.broker
def test_alarms_and_their_windows_reject_a_key_that_a_partition_cannot_hold(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    windows = CorrectedWindows(str(tmp_path / "hours"), aggregation=COUNTS, log=None)
    rules = {"calm": DeviationRule("n", PastWindows(1), ratio=2)}
    sink = Alarms(
        str(tmp_path / "alarms"),
        windows=windows,
        deviations=DeviationDetection("1 hour", by="country", rules=rules),
        layout=BY_COUNTRY,
    )
    for minute, countries in ((0, ["", "de"]), (60, ["", "de"]), (120, ["end"])):
        send(broker, topic, countries, minute)
    run(job(broker, topic, tmp_path, sink, transform=COUNTS), spark)
    assert {row["country"] for row in rows(tmp_path / "hours")} == {"de"}
    assert {row["country"] for row in rows(tmp_path / "alarms")} <= {"de"}
    assert {json.loads(row["value"])["country"] for row in rows(tmp_path / "dead")} == {""}


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["current", "history"])
def test_changes_whose_row_a_table_cannot_store_are_dead_letters(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    path, position = str(tmp_path / "table"), POSITION_TYPE.simpleString()
    added = (
        f"changed_at TIMESTAMP, deleted BOOLEAN, position {position}"
        if kind == "current"
        else "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN, op STRING, "
        f"position {position}"
    )
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, country STRING, name STRING NOT NULL, {added}) "
        "USING DELTA PARTITIONED BY (country)"
    )
    changes = [(1, "de", "a"), (2, "", "b"), (3, "fr", None), (1, "", "c"), (4, None, "d")]
    records = [
        {
            "op": "c",
            "after": {"id": id_, "country": country, "name": name},
            "source": {"ts_ms": 1_772_445_600_000 + second * 1_000},
        }
        for second, (id_, country, name) in enumerate(changes)
    ]
    produce_json(broker, topic, records)
    rows_format = debezium_format("id INT, country STRING, name STRING", key="id")
    customers = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        rows_format,
        time="event_time",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    sink = CurrentTable(path) if kind == "current" else HistoryTable(path)
    applied = Job(
        name="customers",
        inputs={"customers": customers},
        sink=sink,
        dead_letters=str(tmp_path / "dead"),
        limits=Limits(dead_ratio=None),
    )
    done = run(applied, spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (5, 2, 3)
    assert reasons(tmp_path) == [
        "the NOT NULL column 'name' is null",
        *["the partition column 'country' is an empty text, which Delta would store as null"] * 2,
    ]
    found = {(row["id"], row["country"], row["name"]) for row in rows(tmp_path / "table")}
    assert found == {(1, "de", "a"), (4, None, "d")}


@pytest.mark.broker
def test_events_with_a_key_that_a_state_table_cannot_store_are_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    records = [
        {"country": country, "type": "visit", "at": (START + timedelta(seconds=n)).isoformat()}
        for n, country in enumerate(["de", "", "de", "__HIVE_DEFAULT_PARTITION__"])
    ]
    produce_json(broker, topic, records)
    fold = Fold(
        key="country",
        type_column="type",
        initial={"n": (0, "BIGINT")},
        handlers={"visit": {"n": "state.n + 1"}},
    )
    visits = visits_input(
        broker,
        topic,
        "country STRING, type STRING, at TIMESTAMP",
        kafka_columns=["topic", "partition", "offset"],
    )
    sink = Projection(str(tmp_path / "table"), fold=fold, layout=BY_COUNTRY)
    folded = Job(
        name="visits",
        inputs={"visits": visits},
        sink=sink,
        dead_letters=str(tmp_path / "dead"),
    )
    done = run(folded, spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (4, 2, 2)
    assert [(row["country"], row["n"]) for row in rows(tmp_path / "table")] == [("de", 2)]


@pytest.mark.broker
def test_events_and_changes_that_a_temporal_join_cannot_store_are_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    def at(second: int) -> str:
        return (START + timedelta(seconds=second)).isoformat()

    plans = [(1, "free", 0), (1, "", 1), (2, "pro", 2), (3, "free", 60)]
    changes = [{"user": user, "plan": plan, "since": at(second)} for user, plan, second in plans]
    visits = [(1, "de", 5), (1, "", 6), (2, "x" * 300, 7), (2, "fr", 8), (9, "it", 9)]
    events = [{"user": user, "country": text, "at": at(second)} for user, text, second in visits]
    produce_json(broker, f"{topic}-plans", changes)
    produce_json(broker, topic, events)
    layout = TableLayout(partition_by=["country", "plan"])
    sink = TemporalJoin(
        str(tmp_path / "table"),
        versions=VersionedTable(str(tmp_path / "plans"), key="user", order=["offset"]),
        pending_table=str(tmp_path / "pending"),
        watermark_delay="10 seconds",
        layout=layout,
    )
    plans_input = visits_input(
        broker,
        f"{topic}-plans",
        "user INT, plan STRING, since TIMESTAMP",
        time="since",
        kafka_columns=["offset"],
    )
    joined = Job(
        name="activity",
        inputs={
            "events": visits_input(broker, topic, "user INT, country STRING, at TIMESTAMP"),
            "changes": plans_input,
        },
        sink=sink,
        dead_letters=str(tmp_path / "dead"),
    )
    done = run(joined, spark)
    assert (done.rows_in, done.dead_letters) == (9, 3)
    assert reasons(tmp_path) == [
        "the partition column 'country' is an empty text, which Delta would store as null",
        "the partition column 'country' is too long for the name of a folder",
        "the partition column 'plan' is an empty text, which Delta would store as null",
    ]
    found = {(row["user"], row["country"], row["plan"]) for row in rows(tmp_path / "table")}
    assert found == {(1, "de", "free"), (2, "fr", "pro"), (9, "it", None)}
