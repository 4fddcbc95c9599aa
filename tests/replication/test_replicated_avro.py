"""A job that replicates topics in Avro, whose schemas are in a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.avro_corpus import with_header
from tests.support.connect_avro import AvroConverter
from tests.support.delta_tables import rows
from tests.support.registry_server import registry_server
from tests.support.replicated_database import Database
from tests.support.replicated_topics import (
    DATE,
    FIRST_MILLIS,
    INT,
    INTEGERS,
    LOCAL_TIME,
    LONG,
    MONEY,
    TEXT,
    ZONED_TIME,
    SourceRecords,
    schema_record,
    send_changes,
)
from tidegate import KafkaSource, run
from tidegate.errors import ArgumentError, RegistryError
from tidegate.formats import SchemaRegistry
from tidegate.formats.registered_schemas import RegisteredSchema
from tidegate.job.policies import Limits
from tidegate.process.exit_codes import exit_code
from tidegate.replication import ReplicatedTables
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]
USERS = SourceRecords({"id": INT, "name": TEXT})
ORDERS = SourceRecords(
    {
        "no": INT,
        "price": MONEY,
        "day": DATE,
        "placed": LOCAL_TIME,
        "paid": ZONED_TIME,
        "sizes": INTEGERS,
    },
    key=("no",),
)
HEARTBEAT = {
    "type": "struct",
    "name": "io.debezium.connector.common.Heartbeat",
    "fields": [{**LONG, "field": "ts_ms"}],
}
UNKNOWN = 4_000_000_000


@pytest.fixture
def converter() -> Iterator[AvroConverter]:
    with registry_server() as registry:
        yield AvroConverter(registry)


def run_with_dead_letters(database: Database, spark: SparkSession) -> dict[tuple[str, int], str]:
    """Run the job; return the reasons of all dead letters by table and offset."""
    run(replace(database.job(), limits=Limits(dead_ratio=1.0)), spark)
    stored = rows(Path(f"{database.control}.dead_letters"))
    return {(row["topic"].rpartition(".")[2], row["offset"]): row["reason"] for row in stored}


def paused(database: Database) -> list[str]:
    return [name for name, state in database.states().items() if state["state"] != "active"]


def test_topics_in_avro_become_tables_and_follow_their_registered_schemas(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter, keep="both")
    database.send(
        "users",
        USERS.change("c", 1, {"id": 1, "name": "ann"}),
        USERS.change("c", 2, {"id": 2, "name": "bob"}),
        USERS.change("u", 3, {"id": 1, "name": "Ann"}),
        USERS.change("d", 4, id=2, name="bob"),
        USERS.tombstone(id=2),
    )
    order = {
        "no": 1,
        "price": "AfQ=",
        "day": 1,
        "placed": 1_000_000,
        "paid": "2026-03-02T13:00:00+01:00",
        "sizes": [1, 2],
    }
    database.send("orders", ORDERS.change("r", 5, order))
    database.send("beats", (schema_record(HEARTBEAT, {"ts_ms": 1}),) * 2)
    assert run_with_dead_letters(database, spark) == {}
    assert database.rows("users") == [
        {"id": 1, "name": "Ann", "deleted": False},
        {"id": 2, "name": None, "deleted": True},
    ]
    assert database.rows("orders") == [
        {
            "no": 1,
            "price": Decimal("5.00"),
            "day": date(1970, 1, 2),
            "placed": datetime(1970, 1, 1, 0, 0, 1),
            "paid": datetime(2026, 3, 2, 12, tzinfo=UTC),
            "sizes": [1, 2],
            "deleted": False,
        }
    ]
    # A restart with a wider type and a new column, while an old column and the new ones are
    # missing in some records of the batch; an unknown schema, and a key that cannot be read.
    wider = SourceRecords({"id": LONG, "age": INT})
    unreadable_key = (with_header(1, b""), None)
    value = converter.convert_change(*USERS.change("u", 7, {"id": 1, "name": "x"}), "t")[1]
    assert value is not None
    database.send(
        "users",
        USERS.change("u", 6, {"id": 1, "name": "Ann 2"}),
        wider.change("c", 8, {"id": 2**40, "age": 7}),
        wider.change("d", 9, id=1, age=None),
    )
    bad = [(None, with_header(UNKNOWN, b"\0")), unreadable_key, (b"key", None), (None, value[:-1])]
    send_changes(database.servers, database.topic("users"), bad)
    database.send("users", wider.tombstone(id=1))
    assert run_with_dead_letters(database, spark) == {
        ("users", 8): f"unknown schema id: {UNKNOWN}",
        ("users", 9): "tombstone with an unreadable key",
        ("users", 10): "tombstone with an unreadable key",
        ("users", 11): "truncated record",
    }
    stored = spark.read.format("delta").load(str(tmp_path / "tables" / "public.users"))
    found = stored.select("id", "name", "age", "deleted").orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        (1, None, None, True),
        (2, None, None, True),
        (2**40, None, 7, False),
    ]
    history = spark.read.format("delta").load(str(tmp_path / "tables" / "public.users_history"))
    versions = [(row["id"], row["name"], row["op"]) for row in history.collect()]
    assert (1, "Ann 2", "update") in versions
    assert (1, None, "delete") in versions
    states = database.states()
    assert {name: (each["positions"], each["skipped"]) for name, each in states.items()} == {
        "users": ([(0, 13)], 0),
        "orders": ([(0, 1)], 0),
        "beats": ([(0, 1)], 1),
    }
    assert paused(database) == []


def test_a_column_of_another_type_pauses_the_table(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("keyless", replace(USERS, key=()).change("c", 2, {"id": 1, "name": "a"}))
    send_changes(database.servers, database.topic("users"), [(b"", b"{}")])
    broker.create_topic(database.topic("json"), partitions=1)
    send_changes(database.servers, database.topic("json"), [USERS.change("c", 1, {"id": 1})])
    database.run(spark)
    database.send(
        "users", SourceRecords({"id": INT, "name": INT}).change("u", 3, {"id": 1, "name": 2})
    )
    database.run(spark)
    reasons = {
        name: (state["reason"] or "").splitlines()[0] for name, state in database.states().items()
    }
    assert reasons == {
        "users": "column 'name' was string and is int",
        "keyless": "the records have no key",
        "json": "the records have no schema in the registry with the columns of a row",
    }
    assert database.rows("users") == [{"id": 1, "name": "a", "deleted": False}]


def test_records_of_unknown_schemas_are_dead_letters_until_the_registry_has_them(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter)
    database.send("keys", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("users", USERS.change("c", 2, {"id": 1, "name": "a"}), USERS.tombstone(id=2))
    known = dict(converter.registry.by_id)
    assert len(known) == 2
    converter.registry.by_id.clear()
    assert run_with_dead_letters(database, spark) == {
        ("keys", 0): "unknown schema id: 2",
        ("users", 0): "unknown schema id: 2",
    }
    stored = rows(Path(f"{database.control}.dead_letters"))
    assert {row["value"][:5] for row in stored} == {with_header(2, b"")}
    # Only the schema of the values is known.
    converter.registry.by_id[2] = known[2]
    database.send("users", USERS.change("c", 3, {"id": 3, "name": "c"}))
    found = run_with_dead_letters(database, spark)
    assert found["users", 2] == "unreadable key: unknown schema id: 1"
    stored = rows(Path(f"{database.control}.dead_letters"))
    assert {row["value"][:5] for row in stored} == {with_header(2, b"")}
    assert paused(database) == []
    assert not (tmp_path / "tables").exists()
    converter.registry.by_id.update(known)
    for table in ("keys", "users"):
        database.send(table, USERS.change("c", 4, {"id": 4, "name": "d"}))
    assert run_with_dead_letters(database, spark) == found
    assert database.rows("users") == [{"id": 4, "name": "d", "deleted": False}]
    states = database.states()["users"]
    assert (states["changes"], states["dead_letters"], states["skipped"]) == (1, 2, 1)
    # Records whose schema is not Avro.
    converter.registry.register(77, "other", "{}", schemaType="JSON")
    broker.create_topic(database.topic("other"), partitions=1)
    send_changes(database.servers, database.topic("other"), [(b"k", with_header(77, b"{}"))])
    found = run_with_dead_letters(database, spark)
    assert found["other", 0] == "incompatible schema 77: JSON, expected AVRO"
    assert paused(database) == []


def test_too_many_records_of_unknown_schemas_pause_the_table(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter, limits=Limits(dead_rows=1))
    database.send("users", *[USERS.change("c", 1, {"id": 1, "name": "a"})] * 2)
    converter.registry.by_id.clear()
    assert run_with_dead_letters(database, spark) == {}
    state = database.states()["users"]
    assert (state["state"], state["positions"]) == ("paused", [(0, 0)])
    assert state["reason"].startswith("too many dead letters: 2 of 2 records")


def test_a_registry_that_is_unavailable_stops_the_job_before_it_writes(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("orders", ORDERS.change("c", 2, {"no": 1}))
    # The second schema is not available.
    converter.registry.planned_responses += [200, 503]
    with pytest.raises(RegistryError, match="is unavailable") as failure:
        database.run(spark)
    assert exit_code(failure.value) == 3
    assert (database.rows("users"), database.states()) == ([], {})
    database.run(spark)
    assert (len(database.rows("users")), len(database.rows("orders"))) == (1, 1)


@dataclass
class LateRegistry:
    """Has a schema only from the second request on."""

    schemas: Mapping[int, Mapping[str, Any]]
    late_id: int
    requests: list[int] = field(default_factory=list)

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        self.requests.append(schema_id)
        if schema_id == self.late_id and self.requests.count(schema_id) == 1:
            return None
        return RegisteredSchema(self.schemas[schema_id]["schema"])


def test_no_column_is_lost_if_a_schema_is_registered_during_a_batch(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("users", SourceRecords({"id": INT, "age": INT}).change("c", 2, {"id": 2}))
    late_id = len(converter.ids)
    database.options["registry"] = LateRegistry(converter.registry.by_id, late_id)
    found = run_with_dead_letters(database, spark)
    assert found == {("users", 1): f"unknown schema id: {late_id}"}
    assert [row["id"] for row in database.rows("users")] == [1]


def test_flattened_rows_in_avro(
    spark: SparkSession, broker: Broker, tmp_path: Path, converter: AvroConverter
) -> None:
    database = Database(broker, tmp_path, converter=converter, shape="flattened")
    fields = [{**INT, "field": "id"}, {**TEXT, "optional": True, "field": "name"}]
    key = {"type": "struct", "name": "s.public.users.Key", "fields": fields[:1]}
    added = [{**TEXT, "field": name} for name in ("__deleted", "__op")]
    added.append({**LONG, "field": "__source_ts_ms"})
    value = {"type": "struct", "name": "s.public.users.Value", "fields": [*fields, *added]}

    def flat(op: str, **row: Any) -> tuple[bytes | None, bytes | None]:
        of_op = {"__deleted": str(op == "d").lower(), "__op": op, "__source_ts_ms": FIRST_MILLIS}
        return schema_record(key, {"id": row["id"]}), schema_record(value, {**row, **of_op})

    tombstone = (schema_record(key, {"id": 2}), None)
    changes = [flat("c", id=number, name="a") for number in (1, 2, 3)]
    database.send("users", *changes, flat("d", id=3, name="a"), tombstone)
    assert run_with_dead_letters(database, spark) == {}
    assert database.rows("users") == [
        {"id": 1, "name": "a", "deleted": False},
        {"id": 2, "name": None, "deleted": True},
        {"id": 3, "name": None, "deleted": True},
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"encoding": "avro"}, "invalid registry: None with encoding 'avro'"),
        ({"registry": SchemaRegistry("http://localhost:1")}, "invalid registry: .* 'json'"),
        ({"encoding": "avro", "registry": "http://localhost:1"}, "invalid registry"),
        ({"encoding": "protobuf"}, "invalid registry: None with encoding 'protobuf'"),
        ({"encoding": "xml"}, "invalid encoding: 'xml'"),
        (
            {"encoding": "avro", "registry": {1: json.dumps("int")}, "decimals": "precise"},
            "invalid decimals and timestamps",
        ),
    ],
)
def test_an_encoding_without_its_registry_is_refused(options: dict[str, Any], problem: str) -> None:
    source = KafkaSource("localhost:9092", "shop.public.users")
    with pytest.raises(ArgumentError, match=problem):
        ReplicatedTables("/tables/replication", source=source, root="/tables", **options)
