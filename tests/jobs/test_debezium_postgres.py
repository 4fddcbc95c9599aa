"""Tables of PostgreSQL, captured by Debezium with its defaults, are equal to those of the jobs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.support.debezium_connect import Connect, PostgresCapture, connect
from tests.support.postgres_columns import COLUMNS, SETUP, SourceColumn
from tests.support.postgres_server import Server
from tests.support.source_tables import RandomTransactions, SourceTable, differences
from tidegate import Input, Job, KafkaSource, run
from tidegate.formats import debezium_format
from tidegate.sinks import CurrentTable, FanOut, HistoryTable
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

ADDED = SourceColumn("added", "text", "STRING", lambda random: f"'{random.randint(0, 9)}'")


@dataclass(frozen=True)
class CapturedTables:
    """The tables after all changes: their topics have everything."""

    capture: PostgresCapture
    default_identity: SourceTable
    full_identity: SourceTable


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
    # By default Debezium skips truncates.
    capture = PostgresCapture(
        connect_process, postgres, database, database, skipped_operations="none"
    )
    for statement in SETUP:
        capture.run(statement)
    by_key = SourceTable(capture.run, "by_key", COLUMNS)
    full = SourceTable(capture.run, "full_rows", COLUMNS)
    by_key.create()
    full.create("FULL")
    with postgres.connect(database) as connection:
        first = RandomTransactions(by_key, connection, Random(1), keys=40)
        second = RandomTransactions(full, connection, Random(2), keys=40, truncates=0.02)
        for transactions in (first, second):
            transactions.run(25)
            transactions.table.forget_changes()
        capture.start()
        first.run(60)
        second.run(60)
        capture.wait_until_sent()
        capture.take_snapshot("public.by_key")
        first.run(40)
        second.run(40)
        second.table = second.table.with_added(ADDED)
        second.run(60)
        capture.wait_until_sent()
    yield CapturedTables(capture, first.table, second.table)
    capture.stop()


def assert_tables_equal_the_source(
    spark: SparkSession,
    capture: PostgresCapture,
    table: SourceTable,
    root: Path,
    position: Literal["log", "source"],
) -> None:
    changes = Input(
        KafkaSource(capture.connect.bootstrap_servers, capture.topic(f"public.{table.name}")),
        debezium_format(table.stored_schema, key="id", position=position),
        time="event_time",
        watermark_delay="0 seconds",
    )
    current, history = root / "current", root / "history"
    sink = FanOut(CurrentTable(str(current)), other_sinks=[HistoryTable(str(history))])
    summary = run(Job(name=table.name, inputs={"changes": changes}, sink=sink), spark)
    assert summary.dead_letters == 0
    assert differences(table.expected_rows(), table.stored_rows(current)) == []
    assert differences(table.expected_versions(), table.stored_versions(history)) == []


def test_a_table_with_replica_identity_default_and_an_incremental_snapshot(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.default_identity
    assert_tables_equal_the_source(spark, captured.capture, table, tmp_path, "log")


def test_a_table_with_replica_identity_full_truncates_and_another_column(
    spark: SparkSession, captured: CapturedTables, tmp_path: Path
) -> None:
    table = captured.full_identity
    assert_tables_equal_the_source(spark, captured.capture, table, tmp_path, "source")
