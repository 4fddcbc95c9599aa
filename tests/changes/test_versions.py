"""Changes as versions of a key, each with its beginning and end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from chispa import assert_df_equality
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession

from tidegate.changes import revised, versions

from ..drawing import few
from .frames import changes, valid
from .oracle import ENDS, Change, history
from .strategies import batches


def shown(table: DataFrame) -> DataFrame:
    """Return the versions with times in milliseconds of the log."""
    return table.selectExpr(
        "id", "v", "unix_millis(valid_from) % 100000 as valid_from", "unix_millis(valid_to) % "
                                                                     "100000 as valid_to",
        "is_current", "op",
    )  # fmt: skip


def require(spark: SparkSession, log: list[Change], expected: list[tuple[object, ...]]) -> None:
    found = shown(versions(changes(spark, log)))
    wanted = spark.createDataFrame(expected, found.schema)
    assert_df_equality(found, wanted, ignore_row_order=True, ignore_nullable=True)


def test_each_change_begins_a_version_and_ends_the_one_before(spark: SparkSession) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("update", "a", "y", (2,), 20),
        Change("delete", "a", None, (3,), 30),
        Change("tombstone", "a", None, None, 31),
        Change("create", "a", "z", (4,), 40),
        Change("snapshot", "b", "b", (1,), 10),
    ]
    require(
        spark,
        log,
        [
            ("a", "x", 10, 20, False, "create"),
            ("a", "y", 20, 30, False, "update"),
            ("a", None, 30, 30, False, "delete"),
            ("a", "z", 40, None, True, "create"),
            ("b", "b", 10, None, True, "snapshot"),
        ],
    )


def test_a_late_change_is_put_where_it_belongs_and_ties_go_to_the_higher_position(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("update", "a", "z", (2,), 30),
        Change("update", "a", "y", (3,), 20),
        Change("update", "b", "second", (5,), 10),
        Change("create", "b", "first", (4,), 10),
    ]
    require(
        spark,
        log,
        [
            ("a", "x", 10, 20, False, "create"),
            ("a", "y", 20, 30, False, "update"),
            ("a", "z", 30, None, True, "update"),
            ("b", "second", 10, None, True, "update"),
        ],
    )


def test_a_tombstone_alone_ends_a_key_and_one_that_is_sent_again_is_forgotten(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "alone", "x", (1,), 10),
        Change("tombstone", "alone", None, None, 25),
        Change("create", "quick", "x", (2,), 10),
        Change("tombstone", "quick", None, None, 25),
        Change("create", "quick", "y", (3,), 20),
        Change("create", "again", "x", (4,), 10),
        Change("tombstone", "again", None, None, 25),
        Change("create", "again", "x", (4,), 10),
    ]
    require(
        spark,
        log,
        [
            ("alone", "x", 10, 25, False, "create"),
            ("alone", None, 25, 25, False, "tombstone"),
            ("quick", "x", 10, 20, False, "create"),
            ("quick", "y", 20, None, True, "create"),
            ("again", "x", 10, None, True, "create"),
        ],
    )


def test_a_truncate_ends_all_versions_of_lower_positions_also_of_keys_that_come_later(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("truncate", None, None, (3,), 30),
        Change("create", "b", "late", (2,), 20),
        Change("create", "a", "new", (4,), 30),
    ]
    require(
        spark,
        log,
        [
            ("a", "x", 10, 30, False, "create"),
            ("a", "new", 30, None, True, "create"),
            ("b", "late", 20, 30, False, "create"),
            (None, None, 30, 30, False, "truncate"),
        ],
    )


@pytest.mark.draws
@few()
@given(batches(2))
@pytest.mark.slow
def test_any_log_gives_the_oracle_s_versions_however_it_is_cut(
    spark: SparkSession, drawn: tuple[list[Change], list[list[Change]]]
) -> None:
    log, (first, second) = drawn
    table = versions(changes(spark, first)).persist()
    whole = versions(changes(spark, log)).persist()
    later = changes(spark, second, len(first))
    difference = revised(
        table, later, truncated=any(change.op == "truncate" for change in second)
    ).persist()
    unchanged = table.join(difference, on=_same(table, difference), how="left_anti")
    together = unchanged.unionByName(difference.where("op is not null").drop("was"))
    assert valid(whole) == history(log)
    assert sorted(map(str, together.collect())) == sorted(map(str, whole.collect()))
    require_whole(whole)
    for frame in (table, whole, difference):
        frame.unpersist()


def _same(left: DataFrame, right: DataFrame):  # type: ignore[no-untyped-def]
    return left["id"].eqNullSafe(right["id"]) & (left["valid_from"] == right["valid_from"])


def require_whole(table: DataFrame) -> None:
    """No two versions of a key overlap, and between two there is a gap only where the key had
    ended."""
    rows = table.collect()
    ends = {(row.id, row.valid_from) for row in rows if row.op in ENDS}
    emptied = {at for key, at in ends if key is None}
    alive = sorted(
        (row for row in rows if row.op not in ENDS), key=lambda row: (row.id, row.valid_from)
    )
    assert all(row.valid_to is None or row.valid_from < row.valid_to for row in alive)
    for one, following in pairwise(alive):
        if one.id == following.id:
            assert one.valid_to is not None
            assert one.valid_to <= following.valid_from
            ended = (one.id, one.valid_to) in ends or one.valid_to in emptied
            assert one.valid_to == following.valid_from or ended
