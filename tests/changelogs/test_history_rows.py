"""Versions of rows with their validity periods."""

from __future__ import annotations

from itertools import pairwise

import pytest
from chispa import assert_df_equality
from hypothesis import given
from pyspark.sql import Column, DataFrame, SparkSession

from tests.support.changelog_frames import changes, valid_versions
from tests.support.changelog_oracle import ENDS, Change, history
from tests.support.changelog_strategies import batches
from tests.support.hypothesis_profiles import few
from tidegate.changelogs import history_rows, history_updates


def assert_history(
    spark: SparkSession, log: list[Change], expected: list[tuple[object, ...]]
) -> None:
    """Compare the history of a log with rows whose times are in milliseconds after START."""
    actual = history_rows(changes(spark, log)).selectExpr(
        "id",
        "v",
        "unix_millis(valid_from) % 100000 as valid_from",
        "unix_millis(valid_to) % 100000 as valid_to",
        "is_current",
        "op",
    )
    expected_rows = spark.createDataFrame(expected, actual.schema)
    assert_df_equality(actual, expected_rows, ignore_row_order=True, ignore_nullable=True)


def test_each_change_begins_a_version_and_ends_the_previous_one(spark: SparkSession) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("update", "a", "y", (2,), 20),
        Change("delete", "a", None, (3,), 30),
        Change("tombstone", "a", None, None, 31),
        Change("create", "a", "z", (4,), 40),
        Change("snapshot", "b", "b", (1,), 10),
    ]
    assert_history(
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


def test_a_late_change_is_inserted_at_its_time_and_ties_go_to_the_later_change(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("update", "a", "z", (2,), 30),
        Change("update", "a", "y", (3,), 20),
        Change("create", "b", "first", (4,), 10),
        Change("update", "b", "second", (5,), 10),
        Change("create", "b", "first", (4,), 10),
    ]
    assert_history(
        spark,
        log,
        [
            ("a", "x", 10, 20, False, "create"),
            ("a", "y", 20, 30, False, "update"),
            ("a", "z", 30, None, True, "update"),
            ("b", "second", 10, None, True, "update"),
        ],
    )


def test_a_tombstone_without_delete_ends_a_key_and_a_redelivered_one_is_dropped(
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
    assert_history(
        spark,
        log,
        [
            ("alone", "x", 10, 25, False, "create"),
            ("alone", None, 25, 25, False, "tombstone"),
            ("quick", "x", 10, 20, False, "create"),
            ("quick", "y", 20, None, True, "create"),
            ("again", "x", 10, 25, False, "create"),
            ("again", None, 25, 25, False, "tombstone"),
        ],
    )


def test_a_truncate_ends_all_versions_of_lower_positions_also_of_late_keys(
    spark: SparkSession,
) -> None:
    log = [
        Change("create", "a", "x", (1,), 10),
        Change("truncate", None, None, (3,), 30),
        Change("create", "b", "late", (2,), 20),
        Change("create", "a", "new", (4,), 30),
    ]
    assert_history(
        spark,
        log,
        [
            ("a", "x", 10, 30, False, "create"),
            ("a", "new", 30, None, True, "create"),
            ("b", "late", 20, 30, False, "create"),
            (None, None, 30, 30, False, "truncate"),
        ],
    )


@pytest.mark.jobs
@pytest.mark.draws
@few()
@given(batches(2))
@pytest.mark.slow
def test_histories_and_their_updates_equal_the_oracle_for_any_log_and_batches(
    spark: SparkSession, drawn: tuple[list[Change], list[list[Change]]]
) -> None:
    log, (first, second) = drawn
    table = history_rows(changes(spark, first)).persist()
    complete = history_rows(changes(spark, log)).persist()
    later = changes(spark, second, len(first))
    updates = history_updates(
        table, later, has_truncate=any(change.op == "truncate" for change in second)
    ).persist()
    unchanged = table.join(updates, on=_same_version(table, updates), how="left_anti")
    updated = unchanged.unionByName(updates.where("op is not null").drop("was"))
    assert valid_versions(complete) == history(log)
    assert sorted(map(str, updated.collect())) == sorted(map(str, complete.collect()))
    assert_contiguous(complete)
    for frame in (table, complete, updates):
        frame.unpersist()


def _same_version(left: DataFrame, right: DataFrame) -> Column:
    return left["id"].eqNullSafe(right["id"]) & (left["valid_from"] == right["valid_from"])


def assert_contiguous(table: DataFrame) -> None:
    """Assert that versions of a key do not overlap and have gaps only after a delete."""
    rows = table.collect()
    ends = {(row.id, row.valid_from) for row in rows if row.op in ENDS}
    truncated_at = {at for key, at in ends if key is None}
    versions = sorted(
        (row for row in rows if row.op not in ENDS), key=lambda row: (row.id, row.valid_from)
    )
    assert all(row.valid_to is None or row.valid_from < row.valid_to for row in versions)
    for version, following in pairwise(versions):
        if version.id == following.id:
            assert version.valid_to is not None
            assert version.valid_to <= following.valid_from
            ended = (version.id, version.valid_to) in ends or version.valid_to in truncated_at
            assert version.valid_to == following.valid_from or ended
