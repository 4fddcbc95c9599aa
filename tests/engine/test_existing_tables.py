"""Tables that another program has created or changed: column mapping, types and column order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import Reader, by_spark
from tests.support.delta_tables import rows as by_deltalake
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, Limits, json_format, run
from tidegate.changelogs.change_schema import POSITION_TYPE
from tidegate.errors import TableError
from tidegate.formats import debezium_format
from tidegate.sinks import Append, CurrentTable, Sink, Upsert
from tidegate.testing import Broker

pytestmark = [pytest.mark.jobs, pytest.mark.broker]

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
SINKS: dict[str, Any] = {
    "append": Append,
    "upsert": lambda path: Upsert(path, keys=["id"]),
    "current": CurrentTable,
}
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
Order = tuple[int, str | None, int]
"""Identifier, country and amount."""


def order_job(broker: Broker, topic: str, root: Path, kind: str, amount: str = "INT") -> Job:
    """Return a job that writes orders; an amount of this type."""
    schema = f"id INT, country STRING, amount {amount}"
    is_current = kind == "current"
    orders = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        debezium_format(schema, key="id") if is_current else json_format(f"{schema}, at TIMESTAMP"),
        time="event_time" if is_current else "at",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    sink: Sink = SINKS[kind](str(root / "table"))
    return Job(
        name="orders",
        inputs={"orders": orders},
        sink=sink,
        each_batch=None if is_current else (lambda rows: rows.drop("event_time")),
        dead_letters=str(root / "dead"),
        limits=Limits(dead_ratio=None),
    )


def send(broker: Broker, topic: str, kind: str, orders: Sequence[Order], second: int = 0) -> None:
    """Send orders of consecutive seconds, and then a record that is not JSON."""
    values = []
    for number, (id_, country, amount) in enumerate(orders):
        at = START + timedelta(seconds=second + number)
        row: dict[str, Any] = {"id": id_, "country": country, "amount": amount}
        if kind == "current":
            row = {"op": "c", "after": row, "source": {"ts_ms": int(at.timestamp() * 1000)}}
        else:
            row["at"] = at.isoformat()
        values.append(json.dumps(row).encode())
    produce(broker.bootstrap_servers, topic, [*values, b"bad"])


def create_table(spark: SparkSession, path: Path, kind: str, properties: str = "") -> None:
    """Create the table with its columns in another order than that of the job."""
    further = {
        "append": ["at TIMESTAMP"],
        "upsert": ["at TIMESTAMP"],
        "current": [
            f"position {POSITION_TYPE.simpleString()}", "deleted BOOLEAN", "changed_at TIMESTAMP"
        ],
    }[kind]  # fmt: skip
    columns = ", ".join(["amount INT", *further, "country STRING NOT NULL", "id INT"])
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING DELTA PARTITIONED BY (country) {properties}"
    )


def read_orders(read: Reader, table: Path) -> list[tuple[Any, ...]]:
    names = ("id", "country", "amount")
    return sorted(tuple(row[name] for name in names) for row in read(table, names))


def read_letters(read: Reader, table: Path) -> list[tuple[str, str, Any]]:
    """Return the stage, the reason and the offset of each dead letter."""
    names = ("stage", "reason", "offset")
    found = [tuple(row[name] for name in names) for row in read(table, names)]
    return sorted(found, key=str)


@pytest.mark.parametrize("kind", SINKS)
def test_a_job_writes_to_a_table_with_its_columns_in_another_order(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    table = tmp_path / "table"
    create_table(spark, table, kind)
    job = order_job(broker, topic, tmp_path, kind)
    send(broker, topic, kind, [(1, "de", 10), (2, None, 20)])
    assert run(job, spark).dead_letters == 2
    send(broker, topic, kind, [(1, "fr", 11), (3, "de", 30)], 10)
    assert run(job, spark).dead_letters == 1
    replaced = [(1, "de", 10)] if kind == "append" else []
    for read in (by_deltalake, by_spark(spark)):
        assert read_orders(read, table) == [*replaced, (1, "fr", 11), (3, "de", 30)]
        assert read_letters(read, tmp_path / "dead") == [
            ("decode", "not a JSON object", 2),
            ("decode", "not a JSON object", 5),
            ("sink", "the NOT NULL column 'country' is null", None),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SINKS)
def test_a_job_continues_with_the_wider_type_that_a_mapped_column_got_between_two_runs(
    kind: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    table, dead, read = tmp_path / "table", tmp_path / "dead", by_spark(spark)
    create_table(spark, table, kind, MAPPED)
    job = order_job(broker, topic, tmp_path, kind)
    send(broker, topic, kind, [(1, "de", 10), (2, None, 20)])
    run(job, spark)
    assert read_orders(by_deltalake, table) == [(1, "de", 10)]
    # delta-rs does not read tables with widened columns.
    widen_amount(spark, table)
    spark.sql(f"ALTER TABLE delta.`{dead}` SET {MAPPED}")
    send(broker, topic, kind, [(1, "fr", 2**40), (3, "de", 30)], 10)
    with pytest.raises(TableError, match="amount was bigint and is int") as refused:
        run(job, spark)
    assert "the types of the table in the schema of the job" in refused.value.remedy
    assert (len(read(dead)), read_orders(read, table)) == (2, [(1, "de", 10)])
    wider = order_job(broker, topic, tmp_path, kind, "BIGINT")
    assert (done := run(wider, spark)).dead_letters == 1, done
    assert run(wider, spark).rows_in == 0
    replaced = [(1, "de", 10)] if kind == "append" else []
    assert read_orders(read, table) == [*replaced, (1, "fr", 2**40), (3, "de", 30)]
    assert read_letters(read, dead) == [
        ("decode", "not a JSON object", 2),
        ("decode", "not a JSON object", 5),
        ("sink", "the NOT NULL column 'country' is null", None),
    ]


def widen_amount(spark: SparkSession, table: Path) -> None:
    """Change the type of a column, as another program does."""
    statement = f"ALTER TABLE delta.`{table}`"
    spark.sql(f"{statement} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"{statement} ALTER COLUMN amount TYPE BIGINT")
