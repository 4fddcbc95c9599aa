"""A row that cannot be used is a dead letter, is discarded, or stops the job (`on_error`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import is_there, rows
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, Rule, json_format, patterns, run
from tidegate import aggregates as agg
from tidegate.commit.table_log import parse_stamp
from tidegate.errors import RejectedRowError
from tidegate.joins import IntervalJoin
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Session, Tumbling, WindowAggregation

pytestmark = pytest.mark.jobs

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCHEMA = "item STRING, amount DOUBLE, qty INT, code STRING, at TIMESTAMP"
ORDERS = [("a", 10.0, 2, "1", 0), ("a", 10.0, 0, "abc", 1), ("a", 20.0, 5, "2", 2)]
CLOSING = ("a", 40.0, 1, "3", 120)
"""Closes the windows of the first minute."""


def send(broker: Broker, topic: str, orders: Sequence[tuple[Any, ...]]) -> None:
    """Send orders: item, amount, quantity, code, and the second after START."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for item, amount, qty, code, second in orders:
        record = {"item": item, "amount": amount, "qty": qty, "code": code}
        record["at"] = (START + timedelta(seconds=second)).isoformat()
        producer.produce(topic, json.dumps(record).encode(), partition=0)
    producer.flush()


def orders_input(broker: Broker, topic: str, **others: Any) -> Input:
    source = KafkaSource(broker.bootstrap_servers, topic, max_records_per_batch=2)
    arguments: dict[str, Any] = {"time": "at", "future_tolerance": None} | others
    return Input(source, json_format(SCHEMA), watermark_delay="0 seconds", **arguments)


def windows_job(root: Path, orders: Input, **others: Any) -> Job:
    """Return a job that counts the orders of each item and minute."""
    aggregation = WindowAggregation(Tumbling("1 minute"), by="item", aggs={"n": agg.count()})
    return Job(
        name="orders",
        inputs={"orders": orders},
        transform=aggregation,
        sink=Append(str(root / "table")),
        dead_letters=str(root / "dead"),
        **others,
    )


def append_job(root: Path, orders: Input, **others: Any) -> Job:
    """Return a job that writes each order."""
    return Job(
        name="orders",
        inputs={"orders": orders},
        sink=Append(str(root / "table")),
        dead_letters=str(root / "dead"),
        **others,
    )


def dead_letters(root: Path) -> list[tuple[int, str, str]]:
    found = rows(root / "dead") if is_there(root / "dead") else []
    return sorted((row["offset"], row["stage"], row["reason"]) for row in found)


@pytest.mark.broker
@pytest.mark.parametrize(
    "where",
    [
        "amount / qty > 3",
        "amount / qty > 3 OR amount / qty < -3",
        "cast(code AS INT) > 0",
        "cast(code AS INT) > 0 AND cast(code AS INT) < 9",
        "exists(array(qty), q -> 10 / q > 1)",
        "if(qty = 0, raise_error('no quantity'), true)",
    ],
)
@pytest.mark.parametrize("job", [windows_job, append_job], ids=["windows", "append"])
def test_a_row_for_which_where_raises_is_a_dead_letter_and_the_others_are_written(
    job: Callable[..., Job],
    where: str,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [*ORDERS, CLOSING])
    done = run(job(tmp_path, orders_input(broker, topic, where=where)), spark)
    assert dead_letters(tmp_path) == [(1, "where", f"the condition raises an error: {where}")]
    assert (done.rows_in, done.dead_letters, done.filtered_rows) == (4, 1, 0)
    found = rows(tmp_path / "table")
    assert sum(row.get("n", 1) for row in found) == (2 if job is windows_job else 3)


@pytest.mark.broker
def test_a_corrected_where_is_accepted_on_the_same_checkpoint(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ORDERS)
    orders = orders_input(broker, topic, where="amount / qty > 3", on_error="stop")
    with pytest.raises(RejectedRowError, match="batch 0 has 1 rows that stop the job") as failed:
        run(windows_job(tmp_path, orders), spark)
    assert "1 x where: the condition raises an error: amount / qty > 3" in str(failed.value)
    assert "partition 0, offset 1" in str(failed.value)
    assert exit_code(failed.value) == 4
    assert not is_there(tmp_path / "table")
    send(broker, topic, [CLOSING])
    corrected = replace(orders, where="qty != 0 AND amount / qty > 3")
    done = run(windows_job(tmp_path, corrected), spark)
    assert [row["n"] for row in rows(tmp_path / "table")] == [2]
    assert (done.filtered_rows, done.dead_letters) == (1, 0)


@pytest.mark.broker
@pytest.mark.parametrize("on_error", ["dead_letter", "drop", "stop"])
def test_each_on_error_does_what_it_says_to_undecodable_records(
    on_error: Any, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [ORDERS[0]])
    produce(broker.bootstrap_servers, topic, [b"bad"])
    send(broker, topic, [ORDERS[2]])
    job = append_job(tmp_path, orders_input(broker, topic, on_error=on_error))
    if on_error == "stop":
        with pytest.raises(RejectedRowError, match="1 x decode: not a JSON object"):
            run(job, spark)
        assert not is_there(tmp_path / "table")
        return
    done = run(job, spark)
    assert len(rows(tmp_path / "table")) == 2
    letters = [(1, "decode", "not a JSON object")] if on_error == "dead_letter" else []
    assert dead_letters(tmp_path) == letters
    assert (done.rows_in, done.rows_out) == (3, 2)
    assert done.dead_letters + done.discarded_rows == 1
    assert done.discarded_rows == (on_error == "drop")


@pytest.mark.broker
@pytest.mark.parametrize("threshold", [None, 0], ids=["stream", "backfill"])
@pytest.mark.parametrize("watermarks", ["global", "log"])
def test_rules_count_violations_and_the_first_violated_rule_decides(
    watermarks: Any,
    threshold: int | None,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    many = [*ORDERS, ("b", -1.0, 0, "4", 3), ("b", None, 1, "5", 4), ("c", 1.0, 1, "6", 5)]
    send(broker, topic, [*many, CLOSING])
    rules = [
        Rule("known item", "item != 'c'", on_error="drop"),
        Rule("positive amount", "amount > 0"),
        Rule("price", "amount / qty > 3"),
    ]
    orders = orders_input(broker, topic, rules=rules, watermarks=watermarks)
    done = run(windows_job(tmp_path, orders, backfill_threshold=threshold), spark)
    assert dead_letters(tmp_path) == [
        (1, "rule", "price: not amount / qty > 3"),
        (3, "rule", "positive amount: not amount > 0"),
        (4, "rule", "positive amount: not amount > 0"),
    ]
    assert done.rule_violations == {"known item": 1, "positive amount": 2, "price": 1}
    assert (done.rows_in, done.dead_letters, done.discarded_rows) == (7, 3, 1)
    assert [(row["item"], row["n"]) for row in rows(tmp_path / "table")] == [("a", 2)]
    commits = sorted((tmp_path / "dead" / "_delta_log").glob("*.json"))
    stamps = [parse_stamp(commit.read_bytes()) for commit in commits]
    counts = [stamp.row_counts for stamp in stamps if stamp is not None]
    assert sum(each.get("rule positive amount", 0) for each in counts) == 2


@pytest.mark.broker
def test_rows_that_violate_a_rule_do_not_advance_the_watermark(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [("a", 1.0, 1, "1", 0), ("x", 1.0, 1, "1", 10**6)])
    send(broker, topic, [("a", 1.0, 1, "1", 1), ("a", 1.0, 1, "1", 2), CLOSING, CLOSING])
    orders = orders_input(broker, topic, rules=[Rule("known", "item = 'a'")])
    done = run(windows_job(tmp_path, orders), spark)
    assert (done.late_rows, done.dead_letters) == (0, 1)
    assert [row["n"] for row in rows(tmp_path / "table")] == [3]


@pytest.mark.broker
def test_an_event_ahead_of_the_clock_raises_an_alarm_that_names_what_prevents_it(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"retention_ms": -1, "message_timestamp_after_max_ms": 10**15}
    broker.create_topic(topic, **config)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    record = json.dumps({"item": "a", "at": tomorrow.isoformat()}).encode()
    produce(broker.bootstrap_servers, topic, [record], at=tomorrow)
    done = run(append_job(tmp_path, orders_input(broker, topic, future_tolerance="1 hour")), spark)
    assert done.rows_out == 1
    (alarm,) = [each.message for each in caplog.records if "clock" in each.message]
    assert "23:59" in alarm or "1 day, 0:00:00" in alarm
    assert "message.timestamp.type=LogAppendTime" in alarm


@pytest.mark.broker
def test_a_rule_with_stop_names_the_rule_and_the_record(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ORDERS)
    rules = [Rule("large", "amount > 15"), Rule("quantity", "qty > 0", on_error="stop")]
    orders = orders_input(broker, topic, where="amount > 0", rules=rules[1:])
    with pytest.raises(RejectedRowError) as failed:
        run(append_job(tmp_path, orders), spark)
    assert "1 x rule: quantity: not qty > 0 (first: " in str(failed.value)
    done = run(append_job(tmp_path, replace(orders, rules=rules)), spark)
    assert done.rule_violations == {"large": 2, "quantity": 0}, "the first violated rule decides"


@pytest.mark.broker
def test_a_condition_of_a_join_input_that_raises_leaves_one_dead_letter(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-right"):
        broker.create_topic(name, retention_ms=-1)
        send(broker, name, [*ORDERS, CLOSING])
    left = orders_input(broker, topic, where="amount / qty > 3")
    right = orders_input(broker, f"{topic}-right", where="cast(code AS INT) > 0")
    job = Job(
        name="pairs",
        inputs={"left": left, "right": right},
        transform=IntervalJoin(["item", "code"], within=("0s", "0s"), how="inner"),
        sink=Append(str(tmp_path / "table")),
        dead_letters=str(tmp_path / "dead"),
    )
    done = run(job, spark)
    assert done.dead_letters == 2
    assert [letter[1] for letter in dead_letters(tmp_path)] == ["where", "where"]
    assert len(rows(tmp_path / "table")) == 3


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["aggregate", "pattern", "measure", "gap"])
def test_an_expression_of_the_transform_that_raises_leaves_one_dead_letter(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, [*ORDERS, CLOSING, ("end", 1.0, 1, "9", 10_000)])
    price = F.col("amount") / F.col("qty")
    many = patterns.sequence(patterns.step("many", "cast(code AS INT) > 0"), within="1 minute")
    every = patterns.sequence(patterns.step("many"), within="1 minute")
    prices = {"price": patterns.events_of("many").first(price)}
    gap = F.make_dt_interval(secs=F.col("code").cast("int"))
    transforms: dict[str, Any] = {
        "aggregate": WindowAggregation(Tumbling("1 minute"), by="item", aggs={"n": agg.avg(price)}),
        "pattern": patterns.MatchSequence(many, by="item"),
        "measure": patterns.MatchSequence(every, by="item", measures=prices),
        "gap": WindowAggregation(Session(gap), by="item", aggs={"n": agg.count()}),
    }
    orders = orders_input(broker, topic)
    job = replace(windows_job(tmp_path, orders), transform=transforms[kind])
    done = run(job, spark)
    assert done.dead_letters == 1
    ((offset, stage, reason),) = dead_letters(tmp_path)
    assert (offset, stage) == (1, "expression")
    assert reason.startswith("an expression of the transform raises an error: ")
    assert rows(tmp_path / "table")


@pytest.mark.broker
def test_a_time_expression_that_raises_leaves_a_dead_letter(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    send(broker, topic, ORDERS)
    seconds = F.col("code").cast("bigint")
    time = F.timestamp_seconds(F.when(seconds > 0, seconds).otherwise(seconds))
    orders = orders_input(broker, topic, time=time)
    done = run(append_job(tmp_path, orders), spark)
    assert (done.rows_out, done.dead_letters) == (2, 1)
    assert dead_letters(tmp_path) == [(1, "event_time", "no event time")]
