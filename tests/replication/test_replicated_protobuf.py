"""A job that replicates topics in Protobuf, whose schemas are in a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.connect_protobuf import CONNECT, ProtobufConverter
from tests.support.delta_tables import rows
from tests.support.registry_server import registry_server
from tests.support.replicated_database import Database
from tests.support.replicated_topics import (
    INT,
    LOCAL_TIME,
    LONG,
    MONEY,
    TEXT,
    ZONED_TIME,
    SourceRecords,
    send_changes,
)
from tidegate import run
from tidegate.formats.protobuf import protobuf_declaration
from tidegate.formats.registered_schemas import RegisteredSchema
from tidegate.job.policies import Limits
from tidegate.replication import TableOptions
from tidegate.testing import Broker

DAY = {"type": "int32", "name": f"{CONNECT}Date"}
TEXTS = {"type": "array", "items": TEXT}
USERS = SourceRecords({"id": INT, "name": TEXT, "visits": INT})
ORDERS = SourceRecords(
    {
        "no": INT,
        "price": MONEY,
        "day": DAY,
        "placed": {"type": "int64", "name": f"{CONNECT}Timestamp"},
        "paid": ZONED_TIME,
        "tags": TEXTS,
    },
    key=("no",),
)


@pytest.fixture
def converter() -> Iterator[ProtobufConverter]:
    with registry_server() as registry:
        yield ProtobufConverter(registry)


def run_with_dead_letters(database: Database, spark: SparkSession) -> dict[int, str]:
    """Run the job; return the reasons of all dead letters by offset."""
    run(replace(database.job(), limits=Limits(dead_ratio=1.0)), spark)
    return {row["offset"]: row["reason"] for row in rows(Path(f"{database.control}.dead_letters"))}


@pytest.mark.broker
@pytest.mark.jobs
def test_topics_in_protobuf_become_tables_and_follow_their_registered_schemas(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: ProtobufConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter)
    database.send(
        "users",
        USERS.change("c", 1, {"id": 0, "name": "", "visits": 0}),
        USERS.change("c", 2, {"id": 2, "name": None, "visits": None}),
        USERS.change("c", 3, {"id": 3, "name": "eve", "visits": 3}),
        USERS.change("d", 4, id=3, name="eve"),
        USERS.tombstone(id=3),
    )
    order = {
        "no": 1,
        "price": "AfQ=",
        "day": 1,
        "placed": 1_000,
        "paid": "2026-03-02T13:00:00+01:00",
        "tags": ["a", "b"],
    }
    database.send("orders", ORDERS.change("r", 5, order))
    assert run_with_dead_letters(database, spark) == {}
    assert database.rows("users") == [
        {"id": 0, "name": "", "visits": 0, "deleted": False},
        {"id": 2, "name": None, "visits": None, "deleted": False},
        {"id": 3, "name": None, "visits": None, "deleted": True},
    ]
    assert database.rows("orders") == [
        {
            "no": 1,
            "price": Decimal("5.00"),
            "day": date(1970, 1, 2),
            "placed": datetime(1970, 1, 1, 0, 0, 1),
            # The converter does not keep the type ZonedTimestamp.
            "paid": "2026-03-02T13:00:00+01:00",
            "tags": ["a", "b"],
            "deleted": False,
        }
    ]
    # The fields have other numbers without the column; one is wider, and one is new.
    changed = SourceRecords({"id": INT, "visits": LONG, "city": TEXT})
    database.send(
        "users",
        USERS.change("u", 6, {"id": 2, "name": "bob", "visits": 1}),
        changed.change("c", 7, {"id": 4, "visits": 2**40, "city": "Oslo"}),
    )
    unknown = b"\0" + (99).to_bytes(4, "big") + b"\0"
    send_changes(database.servers, database.topic("users"), [(None, unknown)])
    assert run_with_dead_letters(database, spark) == {7: "unknown schema id: 99"}
    stored = spark.read.format("delta").load(str(tmp_path / "tables" / "public.users"))
    found = stored.select("id", "name", "visits", "city").orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        (0, "", 0, None),
        (2, "bob", 1, None),
        (3, None, None, None),
        (4, None, 2**40, "Oslo"),
    ]


@pytest.mark.broker
@pytest.mark.jobs
def test_declared_columns_have_the_types_that_the_converter_does_not_keep(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: ProtobufConverter
) -> None:
    database = Database(
        broker,
        tmp_path,
        converter=converter,
        timestamps="microseconds",
        options_by_topic={},
    )
    columns = "id INT, at TIMESTAMP_NTZ, zoned TIMESTAMP"
    database.options["options_by_topic"] = {
        database.topic("visits"): TableOptions(columns=columns, key="id")
    }
    visits = SourceRecords({"id": INT, "at": LOCAL_TIME, "zoned": ZONED_TIME})
    row = {"id": 1, "at": 1_000_001, "zoned": "2026-03-02T13:00:00+01:00"}
    database.send("visits", visits.change("c", 1, row))
    assert run_with_dead_letters(database, spark) == {}
    assert database.rows("visits") == [
        {
            "id": 1,
            "at": datetime(1970, 1, 1, 0, 0, 1, 1),
            "zoned": datetime(2026, 3, 2, 12, tzinfo=UTC),
            "deleted": False,
        }
    ]


@pytest.mark.broker
@pytest.mark.jobs
def test_a_converter_that_writes_nulls_as_defaults_leaves_dead_letters(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: ProtobufConverter
) -> None:
    converter.nullables = "plain"
    database = Database(broker, tmp_path, converter=converter)
    database.send(
        "users",
        USERS.change("c", 1, {"id": 0, "name": "ann", "visits": 1}),
        USERS.change("c", 2, {"id": 2, "name": "bob", "visits": None}),
    )
    assert run_with_dead_letters(database, spark) == {1: "null or default: after.visits"}
    assert database.rows("users") == [{"id": 0, "name": "ann", "visits": 1, "deleted": False}]


def test_messages_are_declared_in_the_types_of_kafka_connect() -> None:
    text = """
    syntax = "proto3"; package shop; import "confluent/type/decimal.proto";
    message Row {
      uint32 count = 1; optional bool active = 2; google.protobuf.Int64Value total = 3;
      .confluent.type.Decimal price = 4 [(confluent.field_meta) = {
        params: [{ key: "precision", value: "10" }, { value: "2", key: "scale" }] }];
      google.type.TimeOfDay time = 5; repeated double points = 6; map<string, int32> counts = 7;
      uint64 huge = 8; Row again = 9; Kind kind = 10; VariableScaleDecimal credit = 11;
      Lost lost = 12;
      enum Kind { NONE = 0; }
      message VariableScaleDecimal { int32 scale = 1; bytes value = 2; }
    }
    """
    declared = json.loads(str(protobuf_declaration(RegisteredSchema(text, "PROTOBUF"))))
    scale = {"type": "int32", "field": "scale"}
    decimal = {"connect.decimal.precision": "10", "scale": "2"}
    assert declared == {
        "type": "struct",
        "name": "shop.Row",
        "fields": [
            {"type": "int64", "field": "count"},
            {"type": "boolean", "field": "active"},
            {"type": "int64", "field": "total"},
            {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": decimal, "field": "price"},
            {"type": "int32", "name": f"{CONNECT}Time", "field": "time"},
            {"type": "array", "items": {"type": "float64"}, "field": "points"},
            {"type": "map", "field": "counts"},
            {"type": "uint64", "field": "huge"},
            {"type": "shop.Row", "field": "again"},
            {"type": "string", "field": "kind"},
            {
                "type": "struct",
                "name": "io.debezium.data.VariableScaleDecimal",
                "fields": [scale, {"type": "bytes", "field": "value"}],
                "field": "credit",
            },
            {"type": "Lost", "field": "lost"},
        ],
    }
    for other in ("{", 'syntax = "proto3";'):
        assert protobuf_declaration(RegisteredSchema(other, "PROTOBUF")) is None
    assert protobuf_declaration(RegisteredSchema("{}", "AVRO")) is None
