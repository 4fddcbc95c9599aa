"""Two changing tables joined: the change of the join by the changes of both."""

from __future__ import annotations

from collections import Counter
from functools import reduce

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.joins import WEIGHT, table_table

from ..drawing import few
from .tables import KINDS, Joined, Table, joined, tables, weighted

LEFT, RIGHT = (
    f"case int, {side} int, key string, {side}_value string, _weight int" for side in "lr"
)
POSTS, FOLLOWS = "author string, post int", "author string, follower string"


def frame(spark: SparkSession, schema: str, changes: list[tuple[Table, Table]]) -> DataFrame:
    rows = [(case, *row) for case, change in enumerate(changes) for row in weighted(*change)]
    return spark.createDataFrame(rows, schema)


@pytest.mark.draws
@few()
@given(cases=st.lists(st.tuples(tables, tables, tables, tables), min_size=50, max_size=50))
@pytest.mark.slow
def test_the_change_of_a_join_is_the_join_after_less_the_join_before(
    spark: SparkSession, cases: list[tuple[Table, Table, Table, Table]]
) -> None:
    left = frame(spark, LEFT, [case[:2] for case in cases])
    right = frame(spark, RIGHT, [case[2:] for case in cases])
    kinds = [
        table_table(left, right, on=["case", "key"], how=how).select(
            F.lit(how).alias("how"), "case", "key", "l", "l_value", "r", "r_value", WEIGHT
        )
        for how in KINDS
    ]
    came: dict[tuple[str, int], Counter[Joined]] = {}
    went: dict[tuple[str, int], Counter[Joined]] = {}
    for how, case, *row, weight in reduce(DataFrame.union, kinds).collect():
        {1: came, -1: went}[weight].setdefault((how, case), Counter())[tuple(row)] += 1
    for how in KINDS:
        for case, (left_before, left_after, right_before, right_after) in enumerate(cases):
            before, after = (
                joined(left_before, right_before, how),
                joined(left_after, right_after, how),
            )
            assert went.get((how, case), Counter()) == before - after, (how, cases[case])
            assert came.get((how, case), Counter()) == after - before, (how, cases[case])


def test_rows_that_stay_are_needed_of_the_keys_that_change_alone(spark: SparkSession) -> None:
    left = spark.createDataFrame([("ann", 1, 0), ("ann", 2, 1)], f"{POSTS}, _weight int")
    right = spark.createDataFrame(
        [("ann", "eve", 0), ("ann", "joe", -1)], f"{FOLLOWS}, _weight int"
    )
    elsewhere = spark.createDataFrame([("bob", 3, 0)], f"{POSTS}, _weight int")
    expected = spark.createDataFrame(
        [("ann", 1, "joe", -1), ("ann", 2, "eve", 1)],
        "author string, post int, follower string, _weight int",
    )
    for rows in (left, left.unionByName(elsewhere)):
        found = table_table(rows, right, on="author")
        assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.slow
def test_two_tables_without_weights_give_their_join_and_a_join_joins_a_third(
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


def test_names_with_dots_and_backticks_are_taken_whole(spark: SparkSession) -> None:
    left = spark.createDataFrame([("a", 1)], "`the.key` string, `l``s` int")
    right = spark.createDataFrame([("b", 2)], "`the.key` string, `r.s` int")
    found = table_table(left, right, on="the.key", how="full")
    assert found.columns == ["the.key", "l`s", "r.s", WEIGHT]
    assert Counter(map(tuple, found.collect())) == Counter([("a", 1, None, 1), ("b", None, 2, 1)])


def test_what_can_not_be_joined_is_refused_at_the_call(spark: SparkSession) -> None:
    posts, follows = spark.createDataFrame([], POSTS), spark.createDataFrame([], FOLLOWS)
    with pytest.raises(ArgumentError, match="how is 'right'"):
        table_table(posts, follows, on="author", how="right")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no column"):
        table_table(posts, follows, on=[])
    with pytest.raises(ColumnError, match="'sender'"):
        table_table(posts, follows, on="sender")
    with pytest.raises(ColumnError, match="both have Post"):
        table_table(posts, follows.withColumnRenamed("follower", "Post"), on="author")
    with pytest.raises(ColumnTypeError, match="author is string on the left and int on the right"):
        table_table(posts, follows.withColumn("author", F.lit(1)), on="author")
