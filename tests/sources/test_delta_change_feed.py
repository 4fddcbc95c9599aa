"""The changes of a Delta table: between versions, followed exactly once, and rebuilt."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate import follow
from tidegate.changelogs import (
    diff_snapshots,
    history_rows,
    latest_changes,
    snapshot_as_changes,
    to_upsert_records,
)
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import ColumnError, SourceError, TableError, TableMismatchError
from tidegate.formats import upsert_json_format
from tidegate.sinks import Append, CurrentTable, KafkaSink, MapRows
from tidegate.sources import DeltaChangeFeed, net_changes
from tidegate.testing import Broker, crash_after
from tidegate.testing.crash_points import CrashError

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

State = dict[int, tuple[str | None, float | None]]
COLUMNS = "id bigint, v string, x double"
FEED = {"delta.enableChangeDataFeed": "true"}
KEYS = range(60)
VALUES = [("a", 1.0), ("b", None), (None, float("nan"))]


def create_table(spark: SparkSession, path: Path, state: State) -> str:
    rows = [(key, *value) for key, value in state.items()]
    frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
    frame.write.format("delta").options(**FEED).save(str(path))
    return str(path)


def merge_random(spark: SparkSession, path: str, draw: random.Random, state: State) -> State:
    """Merge random updates (some without a change), inserts and deletes into the table."""
    after = dict(state)
    rows = []
    for key in KEYS:
        action = draw.choice(["none", "set", "set", "delete", "same"])
        value = state.get(key, ("c", 2.0)) if action == "same" else draw.choice(VALUES)
        if action == "none":
            continue
        rows.append((key, *value, action == "delete"))
        after.pop(key, None) if action == "delete" else after.update({key: value})
    source = spark.createDataFrame(rows, f"{COLUMNS}, gone boolean").alias("new")
    merge = DeltaTable.forPath(spark, path).alias("old").merge(source, "old.id = new.id")
    columns: dict[str, str | Column] = {name: f"new.{name}" for name in ("id", "v", "x")}
    ended = merge.whenMatchedDelete("new.gone").whenMatchedUpdate(set=columns)
    ended.whenNotMatchedInsert("NOT new.gone", values=columns).execute()
    return after


def as_text(state: State) -> dict[int, str]:
    """Return the values as text, so that NaN equals itself."""
    return {key: repr(tuple(value)) for key, value in state.items()}


def expected_changes(old: State, new: State) -> dict[int, tuple[str, str | None]]:
    before, after = as_text(old), as_text(new)
    found: dict[int, tuple[str, str | None]] = {}
    for key in before | after:
        if before.get(key) != after.get(key):
            op = "update" if key in before and key in after else "create"
            found[key] = ("delete", None) if key not in after else (op, after[key])
    return found


def found_changes(changes: DataFrame) -> dict[int, tuple[str, str | None]]:
    rows = changes.collect()
    found = {row.key.id: (row.op, row.after and repr(tuple(row.after)[1:])) for row in rows}
    assert len(found) == len(rows), "two changes of one key"
    return found


def state_of(rows: Iterable[Row]) -> dict[int, str]:
    return {row.id: repr((row.v, row.x)) for row in rows}


@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_the_changes_of_any_history_rebuild_the_same_table(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    history: list[State] = [{key: draw.choice(VALUES) for key in KEYS if key % 3}]
    path = create_table(spark, tmp_path / "t", history[0])
    changelog = Append(str(tmp_path / "changelog"))
    source = DeltaChangeFeed(path, key="id")
    history.append(merge_random(spark, path, draw, history[-1]))
    with crash_after(changelog.path, batch=1), pytest.raises(CrashError):
        follow(source, changelog, spark, job="out")
    spark.read.format("delta").load(path).write.format("delta").mode("overwrite").save(path)
    history.append(history[-1])
    history.append(merge_random(spark, path, draw, history[-1]))
    done = follow(source, changelog, spark, job="out")
    assert (done.version, done.batches) == (3, 1), "2 changes nothing, 0 and 1 are committed"
    assert follow(source, changelog, spark, job="out").batches == 0

    for old, new in ((0, 3), (1, 2)):
        assert found_changes(net_changes(spark, path, old, new, key="id")) == expected_changes(
            history[old], history[new]
        )

    log = spark.read.format("delta").load(changelog.path).persist()
    assert state_of(latest_changes(log).where("NOT deleted").collect()) == as_text(history[-1])
    periods = history_rows(log).where("valid_to IS NULL OR valid_from < valid_to").collect()
    past = [(row.id, row.position.offset, repr((row.v, row.x))) for row in periods]
    expected = [(key, 0, value) for key, value in as_text(history[0]).items()]
    for version in range(1, 4):
        changed = expected_changes(history[version - 1], history[version]).items()
        expected += [(key, version, value) for key, (_, value) in changed if value is not None]
    assert sorted(past) == sorted(expected)
    log.unpersist()


def test_missing_changes_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(1, "a", 1.0)], COLUMNS).write.format("delta").save(path)
    source = DeltaChangeFeed(path, key="id")
    target = CurrentTable(str(tmp_path / "current"), layout=TableLayout(properties=FEED))
    with pytest.raises(TableError, match=r"ALTER TABLE .* SET TBLPROPERTIES"):
        follow(source, target, spark, job="out")
    spark.sql(f"UPDATE delta.`{path}` SET v = 'unrecorded'")
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"UPDATE delta.`{path}` SET v = 'b'")
    with pytest.raises(SourceError, match="the feed was enabled later"):
        follow(source, target, spark, job="out")
    assert not (tmp_path / "current").exists()
    assert follow(source, target, spark, job="out", starting_version=2).changes == 2
    assert [tuple(row) for row in target.rows(spark).collect()] == [(1, "b", 1.0)]
    with pytest.raises(ColumnError, match=r"invalid columns of .*: changed_at, deleted, position"):
        follow(DeltaChangeFeed(target.path, key="id"), Append(path), spark, job="out")
    with pytest.raises(TableMismatchError, match="contains another version"):
        follow(DeltaChangeFeed(path, key="id", columns=["id"]), target, spark, job="out")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'again', 0.0)")
    with pytest.raises(ColumnError, match="id=1 is the key of several rows"):
        follow(source, target, spark, job="out")


def test_a_table_that_is_published_to_a_topic_is_read_as_the_same_table(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2)
    path = create_table(spark, tmp_path / "t", {1: ("a", 1.0), 2: ("b", None), 3: (None, 3.0)})
    kafka_sink = KafkaSink(
        str(tmp_path / "sent"), bootstrap_servers=broker.bootstrap_servers, topic=topic, key="id",
        deleted="deleted", headers=["op", "position"],
    )  # fmt: skip
    sink = MapRows(rows=to_upsert_records, sink=kafka_sink)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN (w STRING)")
    source = DeltaChangeFeed(path, key="id", columns=["id", "v", "w"])
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    spark.sql(f"UPDATE delta.`{path}` SET x = 0, w = if(id = 3, 'z', w)")
    assert follow(source, sink, spark, job="out").changes == 5, "x is not a column of the changes"
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    raw = spark.read.format("kafka").options(**options, includeHeaders="true").load()
    form = upsert_json_format(
        "id bigint not null, v string, w string, changed_at timestamp", key="id", time="changed_at"
    )
    read = form.decode(raw).select("headers", "bad", "record.*")
    found: dict[int, Any] = {}
    for row in read.orderBy("partition", "offset").collect():
        headers = {each.key: bytes(each.value).decode() for each in row.headers}
        change = (headers["op"], headers["position"], row.deleted, row.v, row.w)
        found.setdefault(row.id, []).append(change)
        assert not row.bad
    assert found == {
        1: [("snapshot", "0", False, "a", None)],
        2: [("snapshot", "0", False, "b", None), ("delete", "2", True, None, None)],
        3: [("snapshot", "0", False, None, None), ("update", "3", False, None, "z")],
    }


def test_two_snapshots_have_the_changes_between_them_and_a_history(spark: SparkSession) -> None:
    old = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "id int, v string")
    new = spark.createDataFrame([(1, "a"), (3, "c"), (4, None)], "id int, v string")
    at = datetime(2026, 1, 2, tzinfo=UTC)
    found = diff_snapshots(old, new, key="id", position=[7], snapshot_time=at)
    flat = found.select(
        "op", "key.id", "before.v", F.col("after.v").alias("now"), "position.source"
    )
    expected = spark.createDataFrame(
        [
            ("delete", 2, "b", None, [7]),
            ("update", 3, None, "c", [7]),
            ("create", 4, None, None, [7]),
        ],
        "op string, id int, v string, now string, source array<bigint>",
    )
    assert_df_equality(flat, expected, ignore_row_order=True, ignore_nullable=True)
    first = snapshot_as_changes(
        old, key="id", position=[1], snapshot_time=datetime(2026, 1, 1, tzinfo=UTC)
    )
    past = history_rows(first.union(found)).select("id", "v", F.dayofmonth("valid_to").alias("to"))
    history = [(1, "a", None), (2, "b", 2), (2, None, 2), (3, None, 2), (3, "c", None)]
    expected_history = spark.createDataFrame(
        [*history, (4, None, None)], "id int, v string, to int"
    )
    assert_df_equality(past, expected_history, ignore_row_order=True, ignore_nullable=True)
    twice = old.union(old.where("id = 1"))
    with pytest.raises(Exception, match=r'\{"id":1\} is the key of several rows'):
        diff_snapshots(twice, new, key="id", position=[7], snapshot_time=at).collect()
