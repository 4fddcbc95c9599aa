"""Joins of inputs with bad records, extreme values and null keys account for each record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.raw_records import produce
from tests.support.readers import assert_readers_agree
from tidegate import Input, Job, KafkaSource, json_format, run
from tidegate.errors import DataError
from tidegate.joins import IntervalJoin, LookupJoin
from tidegate.sinks import Append, Sink, SnapshotJoin, TableLayout
from tidegate.testing import Broker
from tidegate.views import KeyedTable, View

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAX, MIN = 2**63 - 1, -(2**63)
WIDEST = Decimal("9" * 38)
LATEST, EARLIEST = "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"
BY_KEY = TableLayout(partition_by=["k"])
LEFT = "k STRING, n BIGINT, qty INT, until TIMESTAMP, at TIMESTAMP"
RIGHT = "k STRING, d DECIMAL(38, 0), x DOUBLE, since TIMESTAMP"
LEFT_ROWS = [
    ("a", MAX, 1, LATEST, 0),
    ("b", MIN, 1, EARLIEST, 1),
    (None, 3, 1, None, 2),
    ("", 4, 1, None, 3),
    ("a", 5, 0, None, 4),
    ("é/ü%", 6, 1, LATEST, 5),
]
"""Key, number, quantity, a time, and the second of the event."""
RIGHT_ROWS = [
    ("a", str(WIDEST), 1.7976931348623157e308, 0),
    (None, "1", 4.9e-324, 2),
    ("", "4", 0.0, 3),
    ("é/ü%", str(WIDEST.copy_negate()), -0.0, 5),
]
BAD = [b"bad", b'{"k": "a"}', b'{"k": 5, "at": {}}', b""]
"""Records that cannot be decoded, or have no event time."""


def at(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


def left_records(rows_: Sequence[tuple[Any, ...]] = LEFT_ROWS) -> list[bytes]:
    names = ("k", "n", "qty", "until")
    return [
        json.dumps({**dict(zip(names, row, strict=False)), "at": at(row[-1])}).encode()
        for row in rows_
    ]


def right_records(rows_: Sequence[tuple[Any, ...]] = RIGHT_ROWS) -> list[bytes]:
    names = ("k", "d", "x")
    return [
        json.dumps({**dict(zip(names, row, strict=False)), "since": at(row[-1])}).encode()
        for row in rows_
    ]


def send(broker: Broker, topic: str, records: list[bytes]) -> None:
    broker.create_topic(topic, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, records)


def job_input(broker: Broker, topic: str, schema: str, time: str, **others: Any) -> Input:
    return Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format(schema),
        time=time,
        watermark_delay="0 seconds",
        future_tolerance=None,
        **others,
    )


def faulty_job(root: Path, inputs: dict[str, Input], sink: Sink, **others: Any) -> Job:
    dead = str(root / "dead")
    return Job(name="faulty", inputs=inputs, sink=sink, dead_letters=dead, **others)


def stages(root: Path) -> Counter[str]:
    return Counter(row["stage"] for row in rows(root / "dead"))


def left_input(broker: Broker, topic: str) -> Input:
    return job_input(broker, topic, LEFT, "at", where="100 / qty > 0")


def test_two_streams(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    closing = ("end", 0, 1, None, 600)
    send(broker, topic, [*left_records(), *BAD, *left_records([closing])])
    send(broker, f"{topic}-r", [*right_records(), *BAD, *right_records([("end", "0", 0.0, 601)])])
    inputs = {
        "left": left_input(broker, topic),
        "right": job_input(broker, f"{topic}-r", RIGHT, "since"),
    }
    join = IntervalJoin("k", within=("1 second", "1 second"), how="left")
    sink = Append(str(tmp_path / "table"), layout=BY_KEY)
    done = run(faulty_job(tmp_path, inputs, sink, transform=join), spark)
    assert stages(tmp_path)["where"] == 1
    assert stages(tmp_path)["sink"] == 1, "the pair with an empty key"
    assert stages(tmp_path)["decode"] + stages(tmp_path)["event_time"] == 2 * len(BAD)
    assert (done.rows_in, done.dead_letters) == (7 + 5 + 2 * len(BAD), 2 * len(BAD) + 2)
    found = {
        (row["k"], row["n"], row["d"]) for row in rows(tmp_path / "table") if row["k"] != "end"
    }
    assert found == {
        ("a", MAX, WIDEST),
        ("b", MIN, None),
        (None, 3, None),
        ("é/ü%", 6, WIDEST.copy_negate()),
    }
    assert_readers_agree(spark, tmp_path / "table")


def test_a_stream_and_a_table(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    send(broker, topic, [*left_records(), *BAD])
    names = "k STRING, d DECIMAL(38, 0), title STRING"
    lookup = [("a", WIDEST, "one"), (None, Decimal(1), "null"), ("é/ü%", -Decimal(1), None)]
    path = str(tmp_path / "names")
    spark.createDataFrame(lookup, names).write.format("delta").save(path)
    layout = TableLayout(partition_by=["k", "title"])
    target = Append(str(tmp_path / "table"), layout=layout)
    sink = SnapshotJoin(table=path, join=LookupJoin("k", how="left"), sink=target)
    job = faulty_job(tmp_path, {"left": left_input(broker, topic)}, sink)
    done = run(job, spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (10, 4, 6)
    assert (stages(tmp_path)["where"], stages(tmp_path)["sink"]) == (1, 1)
    expected = {
        ("a", MAX, "one"),
        ("b", MIN, None),
        (None, 3, None),
        ("é/ü%", 6, None),
    }
    assert {(row["k"], row["n"], row["title"]) for row in rows(tmp_path / "table")} == expected
    assert_readers_agree(spark, tmp_path / "table")
    # The table has a text that the target would store as null.
    empty = spark.createDataFrame([("z", Decimal(1), "")], names)
    empty.write.format("delta").mode("append").save(path)
    produce(broker.bootstrap_servers, topic, left_records([("z", 7, 1, None, 9)]))
    for _ in range(2):
        with pytest.raises(DataError, match="'title' is an empty text, which Delta would store"):
            run(job, spark)
    assert len(rows(tmp_path / "table")) == 4
    spark.sql(f"UPDATE delta.`{path}` SET title = 'last' WHERE k = 'z'")
    run(job, spark)
    assert {(row["k"], row["n"], row["title"]) for row in rows(tmp_path / "table")} == {
        *expected,
        ("z", 7, "last"),
    }


def test_two_tables(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    send(broker, topic, [*left_records(), *BAD])
    send(broker, f"{topic}-r", [*right_records(), *BAD])

    def table(name: str, columns: Sequence[str], key: str) -> KeyedTable:
        def changes(frame: DataFrame) -> DataFrame:
            return frame.selectExpr(*columns, "event_time AS changed", "false AS deleted")

        return KeyedTable(
            str(tmp_path / name),
            output=name,
            input=name,
            key=key,
            lookup_by="k",
            order_by="changed",
            to_changes=changes,
        )

    sink = View(
        str(tmp_path / "table"),
        left=table("left", ["n", "k", "until"], "n"),
        right=table("right", ["k", "d", "x"], "k"),
        on="k",
        how="left",
    )
    inputs = {
        "left": left_input(broker, topic),
        "right": job_input(broker, f"{topic}-r", RIGHT, "since"),
    }
    done = run(faulty_job(tmp_path, inputs, sink), spark)
    assert (done.rows_in, done.dead_letters) == (18, 2 * len(BAD) + 2)
    assert stages(tmp_path)["where"] == 1
    (unkeyed,) = [row for row in rows(tmp_path / "dead") if row["stage"] == "sink"]
    assert unkeyed["reason"] == "the key column 'k' is null"
    assert json.loads(unkeyed["value"])["d"] == 1
    expected = {
        (MAX, "a", WIDEST),
        (MIN, "b", None),
        (3, None, None),
        (4, "", Decimal(4)),
        (6, "é/ü%", WIDEST.copy_negate()),
    }
    assert {(row["n"], row["k"], row["d"]) for row in rows(tmp_path / "table")} == expected
