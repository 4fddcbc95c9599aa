"""The tagged union of several inputs, and its separation by name."""

from __future__ import annotations

from datetime import UTC, datetime

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tidegate.job.dataflow import rows_tagged, tag_and_union

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_tagged_union_returns_the_rows_of_each_frame_unchanged(spark: SparkSession) -> None:
    clicks = spark.createDataFrame([("a", 1), (None, None), (None, None)], "page string, ms int")
    users = spark.createDataFrame([("u", NOON)], "user string, event_time timestamp")
    union = tag_and_union(clicks=clicks, users=users)
    assert union.columns == ["__tidegate_input", "clicks", "users"]
    assert union.count() == 4
    assert_df_equality(rows_tagged(union, "clicks"), clicks, ignore_row_order=True)
    assert_df_equality(rows_tagged(union, "users"), users, ignore_row_order=True)


def test_a_column_name_may_contain_a_dot(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "`ms.taken` int")
    union = tag_and_union(one=frame, two=spark.range(1))
    assert rows_tagged(union, "one").collect() == frame.collect()


def test_a_frame_may_be_named_input(spark: SparkSession) -> None:
    union = tag_and_union(input=spark.range(2), users=spark.range(1))
    assert rows_tagged(union, "input").count() == 2
