"""A job that replicates the topics of a database, from Kafka to Delta."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.support.delta_tables import rows
from tests.support.replicated_database import Database
from tests.support.replicated_topics import (
    FIRST_MILLIS,
    INT,
    LOCAL_TIME,
    LONG,
    MAP,
    MONEY,
    TEXT,
    SourceRecords,
    schema_record,
    send_changes,
)
from tests.support.sink_batches import batch, commits
from tidegate import KafkaSource, Maintenance, run
from tidegate.cli import app
from tidegate.errors import ArgumentError
from tidegate.job.policies import Limits
from tidegate.replication import (
    ReplicatedTables,
    TableOptions,
    request_resume,
)
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]
USERS = SourceRecords({"id": INT, "name": TEXT})
ORDERS = SourceRecords({"no": INT, "price": MONEY}, key=("no",))


def test_topics_become_tables_and_new_topics_and_columns_appear(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path, keep="both")
    database.send(
        "users",
        USERS.change("c", 1, {"id": 1, "name": "ann"}),
        USERS.change("c", 2, {"id": 2, "name": "bob"}),
        USERS.change("u", 3, {"id": 1, "name": "Ann"}),
        USERS.change("d", 4, id=2, name="bob"),
        USERS.tombstone(id=2),
    )
    summary = database.run(spark)
    assert (summary.rows_in, summary.dead_letters) == (5, 0)
    assert database.rows("users") == [
        {"id": 1, "name": "Ann", "deleted": False},
        {"id": 2, "name": None, "deleted": True},
    ]
    # Another topic, and a column with a wider type and a new one while an old one is missing.
    wider = SourceRecords({"id": LONG, "age": INT, "born": LOCAL_TIME})
    database.send("users", wider.change("c", 5, {"id": 2**40, "age": 7, "born": 1_000_000}))
    database.send("orders", ORDERS.change("r", 6, {"no": 1, "price": "AfQ="}))
    database.run(spark)
    # Delta's feature for wider types, which other readers do not have yet.
    users = spark.read.format("delta").load(str(tmp_path / "tables" / "public.users"))
    found = users.drop("changed_at", "position").orderBy("id").collect()
    assert [row.asDict() for row in found] == [
        {"id": 1, "name": "Ann", "age": None, "born": None, "deleted": False},
        {"id": 2, "name": None, "age": None, "born": None, "deleted": True},
        {
            "id": 2**40,
            "name": None,
            "age": 7,
            "born": datetime(1970, 1, 1, 0, 0, 1),
            "deleted": False,
        },
    ]
    assert database.rows("orders") == [{"no": 1, "price": Decimal("5.00"), "deleted": False}]
    versions = spark.read.format("delta").load(str(tmp_path / "tables" / "public.users_history"))
    assert {(row["id"], row["op"]) for row in versions.collect()} == {
        (1, "create"),
        (1, "update"),
        (2, "create"),
        (2, "delete"),
        (2**40, "create"),
    }
    states = database.states()
    assert {name: (state["state"], state["positions"]) for name, state in states.items()} == {
        "users": ("active", [(0, 6)]),
        "orders": ("active", [(0, 1)]),
    }
    assert (states["users"]["changes"], states["users"]["batch"]) == (6, 1)


def test_a_table_that_fails_is_paused_and_the_others_continue(
    spark: SparkSession, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "ann"}))
    database.send("retyped", USERS.change("c", 2, {"id": 1, "name": "ann"}))
    database.send("deleted", USERS.change("c", 3, {"id": 1, "name": "ann"}))
    database.send("keyless", replace(USERS, key=()).change("c", 4, {"id": 1, "name": "ann"}))
    database.send("plain", (b'{"id": 1}', b'{"op": "c", "after": {"id": 1}}'))
    database.send("mapped", SourceRecords({"id": INT, "tags": MAP}).change("c", 5, {"id": 1}))
    database.run(spark)
    shutil.rmtree(tmp_path / "tables" / "public.deleted")
    number = SourceRecords({"id": INT, "name": INT})
    database.send("users", USERS.change("u", 6, {"id": 1, "name": "Ann"}))
    database.send("retyped", number.change("u", 7, {"id": 1, "name": 2}))
    database.send("deleted", USERS.change("u", 8, {"id": 1, "name": "Ann"}))
    database.send("keyless", replace(USERS, key=()).change("u", 9, {"id": 1, "name": "Ann"}))
    with caplog.at_level("WARNING"):
        summary = database.run(spark)
    assert (summary.rows_in, summary.dead_letters) == (4, 0)
    waiting = f"1 records wait for paused or resuming tables: {database.topic('keyless')}"
    assert any(waiting in message for message in caplog.messages), caplog.messages
    assert database.rows("users") == [{"id": 1, "name": "Ann", "deleted": False}]
    assert database.rows("retyped") == [{"id": 1, "name": "ann", "deleted": False}]
    states = {
        name: (state["positions"], (state["reason"] or "").splitlines()[:1])
        for name, state in database.states().items()
    }
    deleted = tmp_path / "tables" / "public.deleted"
    assert states == {
        "users": ([(0, 2)], []),
        "retyped": ([(0, 1)], ["column 'name' was string and is int"]),
        "deleted": ([(0, 1)], [f"table {deleted} was deleted or replaced"]),
        "keyless": ([(0, 0)], ["the records have no key"]),
        "plain": ([(0, 0)], ["the records have no schema part with the columns of a row"]),
        "mapped": ([(0, 0)], ["invalid type of column 'tags': 'map'"]),
    }
    assert not deleted.exists()


def test_records_that_cannot_be_decoded_are_dead_letters_and_declared_tables_need_no_schema(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    plain = TableOptions(columns="id INT, op STRING", key="id", rename={"op": "source_op"})
    database.options["options_by_topic"] = {database.topic("plain"): plain}
    database.send(
        "users",
        USERS.change("c", 1, {"id": 1, "name": "ann"}),
        (b"{}", b"not JSON"),
        USERS.change("x", 2, {"id": 1, "name": "ann"}),
        (None, None),
    )
    row = {"id": 7, "op": "o"}
    source = {"lsn": 1, "ts_ms": FIRST_MILLIS}
    value = {"op": "c", "after": row, "before": None, "source": source, "ts_ms": FIRST_MILLIS}
    database.send("plain", (b'{"id": 7}', json.dumps(value).encode()))
    heartbeat = {"type": "struct", "name": "io.debezium.connector.common.Heartbeat", "fields": []}
    database.send("beats", (b"{}", schema_record(heartbeat, {"ts_ms": 1})))
    job = replace(database.job(), limits=Limits(dead_ratio=1.0))
    summary = run(job, spark)
    assert (summary.rows_in, summary.dead_letters) == (6, 3)
    assert database.rows("users") == [{"id": 1, "name": "ann", "deleted": False}]
    assert database.rows("plain") == [{"id": 7, "source_op": "o", "deleted": False}]
    dead_letters = rows(Path(job.locations.dead_letters.path))
    found = {(row["offset"], row["value"], row["stage"], row["reason"]) for row in dead_letters}
    assert {(offset, stage, reason) for offset, _, stage, reason in found} == {
        (1, "decode", "not a JSON object"),
        (2, "decode", "unknown operation: x"),
        (3, "decode", "no key and no value"),
    }
    assert (1, b"not JSON") in {(offset, value) for offset, value, _, _ in found}
    assert {name: state["skipped"] for name, state in database.states().items()} == {
        "users": 0,
        "plain": 0,
        "beats": 1,
    }


def test_too_many_dead_letters_pause_a_table(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path, limits=Limits(dead_rows=1))
    database.send("users", (b"{}", b"not JSON"), USERS.change("c", 1, {"id": 1, "name": "a"}))
    bad = (b"{}", b"not JSON")
    database.send("broken", bad, USERS.change("c", 2, {"id": 1, "name": "a"}), bad)
    summary = run(replace(database.job(), limits=Limits(dead_ratio=None)), spark)
    assert (summary.rows_in, summary.rows_out, summary.dead_letters) == (5, 1, 1)
    states = {name: (state["state"], state["reason"]) for name, state in database.states().items()}
    assert states["users"] == ("active", None)
    assert states["broken"][1].startswith("too many dead letters: 2 of 3 records")


def test_two_topics_with_the_same_table_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path, table_name="{table}")
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "ann"}))
    same_batch, later = (f"{database.server}.public.{name}.users" for name in ("v2", "v3"))
    for topic in (same_batch, later):
        broker.create_topic(topic, partitions=1)
        change = USERS.change("c", 2, {"id": 2, "name": "b"})
        send_changes(broker.bootstrap_servers, topic, [change])
        database.run(spark)
    stored = {row["topic"]: row for row in rows(tmp_path / "replication")}
    for topic in (same_batch, later):
        assert (stored[topic]["state"], stored[topic]["positions"]) == ("paused", [(0, 0)])
        assert str(stored[topic]["reason"]).startswith("the table 'users' is that of the topic")
    assert len(rows(tmp_path / "tables" / "users")) == 1


@pytest.mark.parametrize("name", ["{column}", "{0}", "{table"])
def test_an_invalid_table_name_is_refused(name: str) -> None:
    source = KafkaSource("localhost:9092", "shop.public.users")
    with pytest.raises(ArgumentError, match="invalid table_name"):
        ReplicatedTables("/tables/replication", source=source, root="/tables", table_name=name)


def test_a_resumed_table_catches_up_in_parts(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path, catch_up_records=3)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("ticks", USERS.change("c", 2, {"id": 1, "name": "0"}))
    database.run(spark)
    table, aside = tmp_path / "tables" / "public.users", tmp_path / "aside"
    table.rename(aside)
    database.send("users", USERS.change("u", 3, {"id": 1, "name": "b"}), (b"{}", b"not JSON"))
    paused = database.run(spark)
    assert (paused.rows_in, paused.rows_out, paused.dead_letters) == (2, 0, 0)
    missed = [USERS.change("c", number, {"id": number, "name": "c"}) for number in range(4, 9)]
    database.send("users", *missed)
    database.run(spark)
    assert database.states()["users"]["positions"] == [(0, 1)]
    with pytest.raises(ArgumentError, match="is active"):
        request_resume(str(database.control), [database.topic("ticks")])
    aside.rename(table)
    request_resume(str(database.control), [database.topic("users")])
    found = []
    for number in range(4):
        database.send("ticks", USERS.change("u", 20 + number, {"id": 1, "name": str(number)}))
        run(replace(database.job(), limits=Limits(dead_ratio=1.0)), spark)
        state = database.states()["users"]
        found.append((state["state"], state["positions"][0][1]))
        assert database.rows("ticks")[0]["name"] == str(number)
    # The request is taken into account with the next batch, and acted on with the one after it.
    assert found == [("resuming", 1), ("resuming", 4), ("resuming", 7), ("active", 8)]
    assert [row["name"] for row in database.rows("users")] == ["b", "c", "c", "c", "c", "c"]
    assert (state["changes"], state["dead_letters"]) == (7, 1)
    assert len(rows(tmp_path / "replication.dead_letters")) == 1
    assert list((database.control / "_requests").iterdir()) == []


def test_a_paused_table_continues_without_records_that_its_topic_has_deleted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.run(spark)
    table, aside = tmp_path / "tables" / "public.users", tmp_path / "aside"
    table.rename(aside)
    missed = [USERS.change("c", number, {"id": number, "name": "c"}) for number in range(2, 6)]
    database.send("users", *missed)
    database.run(spark)
    broker.delete_records(database.topic("users"), {0: 3})
    aside.rename(table)

    def states_after(number: int, *, skip_lost: bool) -> list[tuple[str, int, str | None]]:
        request_resume(str(database.control), [database.topic("users")], skip_lost=skip_lost)
        found = []
        for each in range(2):
            change = USERS.change("c", 10 * number + each, {"id": 10 * number + each, "name": "d"})
            database.send("users", change)
            database.run(spark)
            state = database.states()["users"]
            found.append((state["state"], state["positions"][0][1], state["reason"]))
        return found

    lost = "2 offsets that the topic has deleted (partition 0: from 1 up to 3)"
    unreadable = f"the records since the pause cannot be read: {lost}"
    assert states_after(1, skip_lost=False) == [
        ("resuming", 1, None),
        ("paused", 1, f"{unreadable}; resume with --skip-lost to continue without them"),
    ]
    # The name of the option is in the reason; the row of the table has what is missing.
    assert states_after(2, skip_lost=True) == [
        ("resuming", 3, f"resumed without {lost}"),
        ("active", 9, f"resumed without {lost}"),
    ]
    assert [row["id"] for row in database.rows("users")] == [1, 4, 5, 10, 11, 20, 21]
    assert list((database.control / "_requests").iterdir()) == []


def test_a_table_whose_columns_do_not_fit_is_replaced_by_a_new_one(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.run(spark)
    numbers = SourceRecords({"id": INT, "name": INT})
    database.send("users", numbers.change("u", 2, {"id": 1, "name": 5}))
    database.run(spark)
    (tmp_path / "tables" / "public.users").rename(tmp_path / "aside")
    request_resume(str(database.control), [database.topic("users")], recreate=True)
    for position in (3, 4):
        database.send("users", numbers.change("r", position, {"id": position, "name": 7}))
        database.run(spark)
    assert [(row["id"], row["name"]) for row in database.rows("users")] == [(1, 5), (3, 7), (4, 7)]


def test_declared_columns_that_do_not_fit_the_table_pause_it(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.run(spark)
    declared = TableOptions(columns="id INT, name BINARY", key="id")
    database.options["options_by_topic"] = {database.topic("users"): declared}
    database.send("users", USERS.change("u", 2, {"id": 1, "name": "b"}))
    database.run(spark)
    state = database.states()["users"]
    assert (state["state"], state["positions"]) == ("paused", [(0, 1)])
    assert state["reason"].startswith("column 'name' was string and is binary")
    assert database.rows("users")[0]["name"] == "a"


def test_the_history_of_an_outbox_has_the_payloads_of_deleted_events(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    outbox = SourceRecords({"id": TEXT, "aggregatetype": TEXT, "payload": TEXT})
    database = Database(broker, tmp_path, keep="history")
    event = {"id": "e1", "aggregatetype": "order", "payload": '{"total": 5}'}
    created = outbox.change("c", 1, event)
    deleted = outbox.change("d", 2, id="e1")
    database.send("outbox", created, deleted, outbox.tombstone(id="e1"), created)
    database.run(spark)
    versions = database.rows("outbox_history")
    assert [(row["id"], row["payload"]) for row in versions if row["op"] == "create"] == [
        ("e1", '{"total": 5}')
    ]


def test_status_shows_the_lag_of_each_table(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "a"}))
    database.send("keyless", replace(USERS, key=()).change("c", 2, {"id": 1, "name": "a"}))
    database.run(spark)
    database.send("users", *[USERS.change("u", 3, {"id": 1, "name": "b"})] * 3)
    arguments = ["status", str(tmp_path), "--servers", broker.bootstrap_servers]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    assert "public.users active 3 1 0 0 0" in lines
    assert "public.keyless paused 1 0 0 0 -1" in lines
    assert f"{database.topic('keyless')} is paused: the records have no key" in lines
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    (job,) = [json.loads(line) for line in shown.output.splitlines()]
    assert [table["lag"] for table in job["replicated_tables"]] == [1, 3]
    resumed = CliRunner().invoke(app, ["resume", str(database.control), database.topic("keyless")])
    assert (resumed.exit_code, "resumed with the next batches" in resumed.output) == (0, True)
    refused = CliRunner().invoke(app, ["resume", str(tmp_path / "tables"), "users"])
    assert refused.exit_code == 2


def test_replicated_tables_take_turns_in_compaction_unless_they_are_paused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path, keep="history")
    database.send("retyped", USERS.change("c", 0, {"id": 0, "name": "ann"}))
    for number in range(4):
        database.send("users", USERS.change("c", number, {"id": number, "name": "ann"}))
        database.send("orders", ORDERS.change("c", number, {"no": number, "price": "AfQ="}))
        run(replace(database.job(), maintenance=Maintenance(compact_every=2)), spark)
        if number == 0:
            wrong = SourceRecords({"id": TEXT, "name": TEXT})
            database.send("retyped", wrong.change("c", 1, {"id": "a", "name": "ann"}))
    tables = tmp_path / "tables"
    paths = [str(tables / f"public.{name}_history") for name in ("orders", "users")]
    assert database.job().sink.created_tables(spark) == paths
    compacted = [
        [index for index, each in enumerate(commits(path)) if each["operation"] == "OPTIMIZE"]
        for path in paths
    ]
    # A version for each batch: orders after the batches 0 and 2, users after 1 and 3.
    assert compacted == [[3], [2, 5]]
    assert [len(rows(Path(path))) for path in paths] == [4, 4]


def test_a_batch_that_the_control_table_has_is_not_decoded_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = KafkaSource("localhost:9092", pattern="db.*")
    control = str(tmp_path / "replication")
    sink = ReplicatedTables(control, source=source, root=str(tmp_path / "tables"))
    key, value = USERS.change("c", 1, {"id": 1, "name": "a"})
    good = ("db.public.users", 0, 0, datetime(2026, 3, 2), key, value)
    bad = ("db.public.users", 0, 1, datetime(2026, 3, 2), key, b"not JSON")
    columns = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, "
    first = batch(0, start={"db.public.users": {0: 0}}, end={"db.public.users": {0: 2}})
    records = {"rows": spark.createDataFrame([good, bad], f"{columns} value BINARY")}
    with sink.accepted(records, first.plan) as accepted:
        assert [rows.count() for rows, _ in accepted.rejected_records] == [1]
        assert accepted.write(sink, first, 1) == "written"
    with sink.accepted(records, first.plan) as accepted:
        assert (accepted.rejections, accepted.rejected_records) == ((), ())
        assert accepted.write(sink, first, 1) == "skipped"
    (state,) = rows(Path(control))
    assert (state["changes"], state["dead_letters"], state["positions"]) == (1, 1, [(0, 2)])
