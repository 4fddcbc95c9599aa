"""Incremental join of two changing tables."""

from __future__ import annotations

from collections import Counter
from functools import reduce

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.join_tables import (
    JOIN_TYPES,
    JoinedRow,
    Table,
    expected_join,
    tables,
    weighted_rows,
)
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.joins import WEIGHT, table_table

LEFT, RIGHT = (
    f"case int, {side} int, key string, {side}_value string, _weight int" for side in "lr"
)
POSTS, FOLLOWS = "author string, post int", "author string, follower string"


def frame(spark: SparkSession, schema: str, changes: list[tuple[Table, Table]]) -> DataFrame:
    rows = [(case, *row) for case, change in enumerate(changes) for row in weighted_rows(*change)]
    return spark.createDataFrame(rows, schema)


@pytest.mark.draws
@few()
@given(cases=st.lists(st.tuples(tables, tables, tables, tables), min_size=50, max_size=50))
@pytest.mark.slow
def test_the_change_of_a_join_is_the_current_join_minus_the_previous_join(
    spark: SparkSession, cases: list[tuple[Table, Table, Table, Table]]
) -> None:
    left = frame(spark, LEFT, [case[:2] for case in cases])
    right = frame(spark, RIGHT, [case[2:] for case in cases])
    changes = [
        table_table(left, right, on=["case", "key"], how=how).select(
            F.lit(how).alias("how"), "case", "key", "l", "l_value", "r", "r_value", WEIGHT
        )
        for how in JOIN_TYPES
    ]
    inserted: dict[tuple[str, int], Counter[JoinedRow]] = {}
    deleted: dict[tuple[str, int], Counter[JoinedRow]] = {}
    for how, case, *row, weight in reduce(DataFrame.union, changes).collect():
        {1: inserted, -1: deleted}[weight].setdefault((how, case), Counter())[tuple(row)] += 1
    for how in JOIN_TYPES:
        for case, (left_before, left_after, right_before, right_after) in enumerate(cases):
            before, after = (
                expected_join(left_before, right_before, how),
                expected_join(left_after, right_after, how),
            )
            assert deleted.get((how, case), Counter()) == before - after, (how, cases[case])
            assert inserted.get((how, case), Counter()) == after - before, (how, cases[case])


def test_unchanged_rows_are_required_for_changed_keys_only(spark: SparkSession) -> None:
    left = spark.createDataFrame([("ann", 1, 0), ("ann", 2, 1)], f"{POSTS}, _weight int")
    right = spark.createDataFrame(
        [("ann", "eve", 0), ("ann", "joe", -1)], f"{FOLLOWS}, _weight int"
    )
    unchanged_key = spark.createDataFrame([("bob", 3, 0)], f"{POSTS}, _weight int")
    expected = spark.createDataFrame(
        [("ann", 1, "joe", -1), ("ann", 2, "eve", 1)],
        "author string, post int, follower string, _weight int",
    )
    for rows in (left, left.unionByName(unchanged_key)):
        result = table_table(rows, right, on="author")
        assert_df_equality(result, expected, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.slow
def test_tables_without_weights_return_their_join_which_joins_a_third_table(
    spark: SparkSession,
) -> None:
    posts = spark.createDataFrame([("ann", 1), ("bob", 2), (None, 3)], POSTS)
    users = spark.createDataFrame([("ann", "Ann"), (None, "Nobody")], "author string, name string")
    follows = spark.createDataFrame([("ann", "eve"), ("ann", "joe"), (None, "joe")], FOLLOWS)
    named = table_table(posts, users, on="author", how="left")
    timeline = table_table(named, follows, on="author", how="left")
    expected = spark.createDataFrame(
        [
            ("ann", 1, "Ann", "eve", 1),
            ("ann", 1, "Ann", "joe", 1),
            ("bob", 2, None, None, 1),
            (None, 3, None, None, 1),
        ],
        "author string, post int, name string, follower string, _weight int",
    )
    assert_df_equality(timeline, expected, ignore_row_order=True, ignore_nullable=True)


def test_names_with_dots_and_backticks_are_column_names(spark: SparkSession) -> None:
    left = spark.createDataFrame([("a", 1)], "`the.key` string, `l``s` int")
    right = spark.createDataFrame([("b", 2)], "`the.key` string, `r.s` int")
    result = table_table(left, right, on="the.key", how="full")
    assert result.columns == ["the.key", "l`s", "r.s", WEIGHT]
    assert Counter(map(tuple, result.collect())) == Counter([("a", 1, None, 1), ("b", None, 2, 1)])


def test_invalid_arguments_raise_at_the_call(spark: SparkSession) -> None:
    posts, follows = spark.createDataFrame([], POSTS), spark.createDataFrame([], FOLLOWS)
    with pytest.raises(ArgumentError, match="invalid how: 'right'"):
        table_table(posts, follows, on="author", how="right")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="invalid on: no columns"):
        table_table(posts, follows, on=[])
    with pytest.raises(ColumnError, match="no column 'sender'"):
        table_table(posts, follows, on="sender")
    with pytest.raises(ColumnError, match="columns Post also exist in left"):
        table_table(posts, follows.withColumnRenamed("follower", "Post"), on="author")
    with pytest.raises(ColumnTypeError, match="'author' has type string in left and int in right"):
        table_table(posts, follows.withColumn("author", F.lit(1)), on="author")
