"""The latest change of each key, with deleted keys marked."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from hypothesis import given
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.changelog_frames import changes, values_by_key
from tests.support.changelog_oracle import Change, current
from tests.support.changelog_strategies import logs
from tests.support.hypothesis_profiles import few
from tidegate.changelogs import latest_changes
from tidegate.errors import ColumnError, ColumnTypeError


def test_the_latest_change_of_each_key_remains_and_deleted_keys_are_marked(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "ann", "Ann", (1,), 10),
        Change("update", "ann", "Anna", (5,), 50),
        Change("update", "ann", "An", (3,), 30),
        Change("create", "bob", "Bob", (2,), 20),
        Change("delete", "bob", None, (4,), 40),
        Change("tombstone", "bob", None, None, 41),
        Change("create", "bob", "Bob", (2,), 20),
        Change("snapshot", "cem", "Cem", (1,), 10),
        Change("snapshot", "cem", "Cemil", (1,), 10),
        Change("tombstone", "dan", None, None, 60),
    ]
    latest = latest_changes(changes(spark, log)).selectExpr(
        "id",
        "v",
        "deleted",
        "position.source[0] as position",
        "unix_millis(changed_at) % 1000 as changed",
    )
    expected = spark.createDataFrame(
        [
            ("ann", "Anna", False, 5, 50),
            ("bob", None, True, 4, 40),
            ("cem", "Cem", False, 1, 10),
            ("dan", None, True, None, 60),
        ],
        latest.schema,
    )
    assert_df_equality(latest, expected, ignore_row_order=True, ignore_nullable=True)


def test_an_update_that_changes_the_key_deletes_the_old_key(spark: SparkSession) -> None:
    frame = changes(
        spark, [Change("create", "a", "x", (1,), 1), Change("update", "b", "x", (2,), 2)]
    )
    with_before = frame.selectExpr(
        "op",
        "key",
        "if(op = 'update', named_struct('id', 'a', 'v', 'x'), null) as before",
        "after",
        "unavailable",
        "position",
        "event_time",
    )
    rows = latest_changes(with_before).collect()
    assert {(row.id, row.v, row.deleted) for row in rows} == {("a", None, True), ("b", "x", False)}


@pytest.mark.draws
@few()
@given(logs())
def test_the_latest_changes_of_a_log_equal_its_changes_applied_one_by_one(
    spark: SparkSession, log: list[Change]
) -> None:
    rows = latest_changes(changes(spark, log)).where("not deleted").collect()
    assert values_by_key(rows) == current(log)


def test_a_frame_without_the_change_schema_raises(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="op"):
        latest_changes(spark.range(1))
    with pytest.raises(ColumnTypeError, match="structs"):
        latest_changes(changes(spark, []).withColumn("key", F.col("op")))
