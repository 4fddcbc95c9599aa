"""Changes reduced to the newest of each key, with deleted keys marked."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from hypothesis import given
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.changes import newest
from tidegate.errors import ColumnError, ColumnTypeError

from ..drawing import few
from .frames import changes, living
from .oracle import Change, current
from .strategies import logs


def test_the_newest_change_of_each_key_stays_and_deleted_keys_are_marked(
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
    found = newest(changes(spark, log)).selectExpr(
        "id",
        "v",
        "deleted",
        "position[0] as position",
        "unix_millis(changed_at) % 1000 as changed",
        "tombstone is null",
    )
    expected = spark.createDataFrame(
        [
            ("ann", "Anna", False, 5, 50, True),
            ("bob", None, True, 4, 40, False),
            ("cem", "Cemil", False, 1, 10, True),
            ("dan", None, True, None, 60, False),
        ],
        found.schema,
    )
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def test_an_update_that_changes_the_key_ends_the_old_one(spark: SparkSession) -> None:
    frame = changes(
        spark, [Change("create", "a", "x", (1,), 1), Change("update", "b", "x", (2,), 2)]
    )
    told = frame.selectExpr(
        "op",
        "key",
        "if(op = 'update', named_struct('id', 'a', 'v', 'x'), null) as before",
        "after",
        "position",
        "event_time",
        "place",
    )
    assert {(row.id, row.v, row.deleted) for row in newest(told).collect()} == {
        ("a", None, True),
        ("b", "x", False),
    }


@pytest.mark.draws
@few()
@given(logs())
def test_a_whole_log_at_once_leaves_what_its_changes_leave_one_by_one(
    spark: SparkSession, log: list[Change]
) -> None:
    assert living(newest(changes(spark, log)).where("not deleted").collect()) == current(log)


def test_a_frame_that_holds_no_changes_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="op"):
        newest(spark.range(1))
    with pytest.raises(ColumnTypeError, match="structs"):
        newest(changes(spark, []).withColumn("key", F.col("op")))
