"""Tables of PostgreSQL, captured by Debezium with its defaults, are equal to those of the jobs."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.connect_avro import AvroConverter
from tests.support.debezium_connect import Connect, PostgresCapture, connect
from tests.support.delta_tables import rows
from tests.support.postgres_columns import COLUMNS, SETUP, SourceColumn, comparable
from tests.support.postgres_server import Server
from tests.support.registry_server import FakeRegistry, registry_server
from tests.support.replicated_topics import read_records, send_changes
from tests.support.source_tables import RandomTransactions, SourceTable, differences
from tidegate import Input, Job, KafkaSource, Limits, run
from tidegate.formats import SchemaRegistry, debezium_format
from tidegate.replication import ReplicatedTables, replicated_input
from tidegate.sinks import CurrentTable, FanOut, HistoryTable, Sink
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

ADDED = SourceColumn("added", "text", "STRING", lambda random: f"'{random.randint(0, 9)}'")
_JSON = "org.apache.kafka.connect.json.JsonConverter"
WITHOUT_SCHEMAS = {
    "key_converter": _JSON,
    "key_converter_schemas_enable": "false",
    "value_converter": _JSON,
    "value_converter_schemas_enable": "false",
    # By default the precision of the column determines the unit.
    "time_precision_mode": "microseconds",
}
FLATTENED = {
    "transforms": "flatten",
    "transforms_flatten_type": "io.debezium.transforms.ExtractNewRecordState",
}
CAPTURES: Mapping[str, Mapping[str, str]] = {
    # By default Debezium skips truncates.
    "defaults": {"skipped_operations": "none"},
    "without_schemas": WITHOUT_SCHEMAS,
    "flattened": FLATTENED
    | {
        "transforms_flatten_add_fields": "op,lsn,source.ts_us",
        "transforms_flatten_delete_tombstone_handling_mode": "rewrite-with-tombstone",
    },
    "tombstones": FLATTENED | {"transforms_flatten_delete_tombstone_handling_mode": "tombstone"},
}
"""Connectors of the same tables, with the options in which they differ from the defaults."""


@dataclass(frozen=True)
class CapturedTables:
    """The tables after all changes: their topics have everything."""

    captures: Mapping[str, PostgresCapture]
    by_key: SourceTable
    full_rows: SourceTable


@pytest.fixture(scope="session")
def connect_process(broker: Broker) -> Iterator[Connect]:
    with connect(broker.bootstrap_servers) as process:
        yield process


@pytest.fixture(scope="session")
def captured(connect_process: Connect, postgres: Server) -> Iterator[CapturedTables]:
    """Two tables with a column of each type, changed at random, before and after the snapshot.

    One has REPLICA IDENTITY DEFAULT and an incremental snapshot; the other has REPLICA IDENTITY
    FULL, is truncated, and gets another column."""
    database = f"typed_{uuid.uuid4().hex[:8]}"
    postgres.run(f"CREATE DATABASE {database}")
    captures = {
        name: PostgresCapture(connect_process, postgres, database, f"{database}_{name}", **options)
        for name, options in CAPTURES.items()
    }
    run_in_database = captures["defaults"].run
    for statement in SETUP:
        run_in_database(statement)
    by_key = SourceTable(run_in_database, "by_key", COLUMNS)
    full = SourceTable(run_in_database, "full_rows", COLUMNS)
    by_key.create()
    full.create("FULL")
    with postgres.connect(database) as connection:
        first = RandomTransactions(by_key, connection, Random(1), keys=40)
        second = RandomTransactions(full, connection, Random(2), keys=40, truncates=0.02)
        for transactions in (first, second):
            transactions.run(25)
            transactions.table.forget_changes()
        for capture in captures.values():
            capture.start()
        first.run(60)
        second.run(60)
        # All connectors read the same signals, and take the snapshot during the next changes.
        captures["defaults"].take_snapshot("public.by_key")
        first.run(40)
        second.run(40)
        second.table = second.table.with_added(ADDED)
        second.run(60)
        for capture in captures.values():
            capture.wait_until_sent()
    yield CapturedTables(captures, first.table, second.table)
    for capture in captures.values():
        capture.stop()


def captured_changes(capture: PostgresCapture, table: SourceTable, **options: Any) -> Input:
    return Input(
        KafkaSource(capture.connect.bootstrap_servers, capture.topic(f"public.{table.name}")),
        debezium_format(table.stored_schema, key="id", **options),
        time="event_time",
        watermark_delay="0 seconds",
    )


def run_job(spark: SparkSession, changes: Input, sink: Sink) -> None:
    job = Job(name="captured", inputs={"changes": changes}, sink=sink)
    run(job, spark)
    dead_letters = rows(Path(job.locations.dead_letters.path))
    assert Counter(row["reason"] for row in dead_letters) == Counter()


def assert_tables_equal_the_source(
    spark: SparkSession, changes: Input, table: SourceTable, root: Path
) -> None:
    current, history = root / "current", root / "history"
    sink = FanOut(CurrentTable(str(current)), other_sinks=[HistoryTable(str(history))])
    run_job(spark, changes, sink)
    assert differences(table.expected_rows(), table.stored_rows(current)) == []
    assert differences(table.expected_versions(), table.stored_versions(history)) == []


def test_a_table_with_replica_identity_default_and_an_incremental_snapshot(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.by_key
    changes = captured_changes(captured.captures["defaults"], table)
    assert_tables_equal_the_source(spark, changes, table, tmp_path)


def test_a_table_with_replica_identity_full_truncates_and_another_column(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.full_rows
    changes = captured_changes(captured.captures["defaults"], table)
    assert_tables_equal_the_source(spark, changes, table, tmp_path)


def test_records_without_a_schema_part(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    columns = tuple(column for column in COLUMNS if column.name != "short_clock")
    table = replace(captured.by_key, columns=columns)
    changes = captured_changes(
        captured.captures["without_schemas"], table, decimals="precise", timestamps="microseconds"
    )
    assert_tables_equal_the_source(spark, changes, table, tmp_path)


def test_flattened_rows_with_rewritten_deletes_and_tombstones(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.by_key
    changes = captured_changes(captured.captures["flattened"], table, shape="flattened")
    assert_tables_equal_the_source(spark, changes, table, tmp_path)


def test_flattened_rows_whose_deletes_are_tombstones(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.by_key
    changes = captured_changes(captured.captures["tombstones"], table, shape="flattened")
    run_job(spark, changes, CurrentTable(str(tmp_path / "current")))
    assert differences(table.expected_rows(), table.stored_rows(tmp_path / "current")) == []


UNUSUAL_COLUMNS = {
    "moment": ("timestamp", "TIMESTAMP_NTZ"),
    "short_moment": ("timestamp(3)", "TIMESTAMP"),
    "instant": ("timestamptz", "TIMESTAMP"),
    "instant_text": ("timestamptz", "STRING"),
    "day": ("date", "DATE"),
    "price": ("numeric(10, 2)", "DECIMAL(10, 2)"),
    "any_number": ("numeric", "DOUBLE"),
    "number_text": ("numeric", "STRING"),
    "moments": ("timestamp[]", "ARRAY<TIMESTAMP>"),
}
"""The type of each column in the source and in the Delta table."""


def unusual_values(decimals: str, times: str) -> list[tuple[str, str, Any]]:
    """Return columns, values, and the stored value or the start of the reason of a dead letter."""
    nan = "NAN" if decimals == "string" else "NaN"
    # The connector sends null for times that 64-bit nanoseconds cannot represent.
    sentinel = None if times == "nanoseconds" else datetime(9999, 12, 31)
    return [
        ("moment", "infinity", "not finite: after.moment = infinity"),
        ("moment", "-infinity", "not finite: after.moment = -infinity"),
        ("moment", "9999-12-31", sentinel),
        ("moment", "2026-03-01 10:00", datetime(2026, 3, 1, 10)),
        ("short_moment", "infinity", "not finite: after.short_moment = infinity"),
        ("short_moment", "-infinity", "not finite: after.short_moment = -infinity"),
        ("instant", "infinity", "not finite: after.instant = infinity"),
        ("instant", "-infinity", "not finite: after.instant = -infinity"),
        ("instant", "0044-03-15 00:00Z BC", "out of range: after.instant = -0043-03-15T"),
        ("instant", "10000-01-01 00:00Z", "out of range: after.instant = +10000-01-01T"),
        ("instant_text", "infinity", "infinity"),
        ("day", "infinity", "out of range: after.day = "),
        ("day", "-infinity", "out of range: after.day = "),
        ("day", "10000-01-01", "out of range: after.day = "),
        ("day", "9999-12-31", date(9999, 12, 31)),
        ("price", "NaN", f"not finite: after.price = {nan}"),
        ("price", "7.90", Decimal("7.90")),
        ("any_number", "NaN", math.nan),
        ("any_number", "Infinity", math.inf),
        ("any_number", "-Infinity", -math.inf),
        ("number_text", "NaN", nan),
        ("moments", "{2026-03-01 10:00,infinity}", "not finite: after.moments = infinity"),
    ]


@pytest.mark.parametrize(
    ("decimals", "times"),
    [("string", "adaptive"), ("double", "nanoseconds"), ("double", "isostring")],
)
def test_values_that_are_not_finite_are_stored_or_dead_letters_that_name_their_column(
    spark: SparkSession,
    connect_process: Connect,
    postgres: Server,
    tmp_path: Path,
    decimals: str,
    times: str,
) -> None:
    database = f"unusual_{uuid.uuid4().hex[:8]}"
    postgres.run(f"CREATE DATABASE {database}")
    modes = {"decimal_handling_mode": decimals, "time_precision_mode": times}
    capture = PostgresCapture(connect_process, postgres, database, database, **modes)
    columns = ", ".join(f"{name} {source}" for name, (source, _) in UNUSUAL_COLUMNS.items())
    capture.run(f"CREATE TABLE unusual (id bigint PRIMARY KEY, {columns})")
    values = unusual_values(decimals, times)

    def insert(first: int) -> None:
        for number, (column, value, _) in enumerate(values, first):
            capture.run(f"INSERT INTO unusual (id, {column}) VALUES ({number}, '{value}')")

    insert(0)
    capture.start()
    insert(len(values))
    capture.wait_until_sent()
    capture.stop()
    stored = ", ".join(f"{name} {stored}" for name, (_, stored) in UNUSUAL_COLUMNS.items())
    job = Job(
        name="unusual",
        inputs={
            "changes": Input(
                KafkaSource(capture.connect.bootstrap_servers, capture.topic("public.unusual")),
                debezium_format(f"id BIGINT NOT NULL, {stored}", key="id"),
                time="event_time",
                watermark_delay="0 seconds",
            )
        },
        sink=CurrentTable(str(tmp_path / "rows")),
        limits=Limits(dead_ratio=None),
    )
    run(job, spark)
    found = {row["offset"]: row["reason"] for row in rows(Path(job.locations.dead_letters.path))}
    reasons = ("not finite: ", "out of range: ")
    expected_rows = {}
    for number, (column, _, outcome) in enumerate(values * 2):
        if str(outcome).startswith(reasons):
            assert found.pop(number).startswith(outcome)
        else:
            unset = dict.fromkeys(UNUSUAL_COLUMNS)
            expected_rows[number] = comparable({"id": number, **unset, column: outcome})
    assert found == {}
    names = ["id", *UNUSUAL_COLUMNS]
    stored_rows = map(comparable, rows(tmp_path / "rows", names))
    assert differences(expected_rows, {row[0]: row for row in stored_rows}) == []


def derived(table: SourceTable) -> SourceTable:
    """Return a table with the values that it has if the schema parts define its columns.

    A numeric without a precision is text, without trailing zeros. A point has its WKB too."""
    columns = [
        replace(column, expected="trim_scale({0})::text") if column.type == "numeric" else column
        for column in table.columns
        if column.name != "place"
    ]
    return replace(table, columns=tuple(columns))


def send_in_avro(
    broker: Broker, capture: PostgresCapture, table: str, registry: FakeRegistry
) -> None:
    """Send the records of a topic to another one, as an Avro converter would have sent them."""
    topic = capture.topic(table)
    avro_topic = f"avro.{topic}"
    broker.create_topic(avro_topic, partitions=1)
    converter = AvroConverter(registry)
    records = read_records(broker.bootstrap_servers, topic)
    converted = [converter.convert_change(key, value, topic) for key, value in records]
    send_changes(broker.bootstrap_servers, avro_topic, converted)


def assert_tables_are_replicated(
    spark: SparkSession, tables: Sequence[SourceTable], root: Path, pattern: str, **options: Any
) -> None:
    source = KafkaSource(options.pop("servers"), pattern=rf"{pattern}\.(by_key|full_rows)")
    sink = ReplicatedTables(
        str(root / "control"), source=source, root=str(root), keep="both", **options
    )
    run(Job(name="replicated", inputs={"changes": replicated_input(source)}, sink=sink), spark)
    states = {row["table"]: (row["state"], row["reason"]) for row in rows(root / "control")}
    assert states == {"public.by_key": ("active", None), "public.full_rows": ("active", None)}
    for table in map(derived, tables):
        current, history = root / f"public.{table.name}", root / f"public.{table.name}_history"
        assert differences(table.expected_rows(), table.stored_rows(current)) == []
        assert differences(table.expected_versions(), table.stored_versions(history)) == []
    assert not (root / "control.dead_letters").exists()


@pytest.mark.parametrize(
    ("capture", "shape", "encoding"),
    [
        ("defaults", "envelope", "json"),
        ("defaults", "envelope", "avro"),
        ("flattened", "flattened", "json"),
    ],
)
def test_both_tables_are_replicated_by_one_job_with_the_columns_of_the_schemas(
    spark: SparkSession,
    broker: Broker,
    captured: CapturedTables,
    tmp_path: Path,
    capture: str,
    shape: Any,
    encoding: str,
) -> None:
    source_capture = captured.captures[capture]
    tables = [captured.by_key, captured.full_rows] if shape == "envelope" else [captured.by_key]
    pattern, options = source_capture.topic("public"), {"shape": shape}
    options["servers"] = broker.bootstrap_servers
    if encoding == "json":
        assert_tables_are_replicated(spark, tables, tmp_path, pattern, **options)
        return
    with registry_server() as registry:
        for table in ("by_key", "full_rows"):
            send_in_avro(broker, source_capture, f"public.{table}", registry)
        options |= {"encoding": "avro", "registry": SchemaRegistry(registry.url)}
        assert_tables_are_replicated(spark, tables, tmp_path, rf"avro\.{pattern}", **options)
