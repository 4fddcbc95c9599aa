"""Frames of several inputs put together into one, and taken apart by name."""

from __future__ import annotations

from datetime import UTC, datetime

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tidegate.runtime.query.tagging import tagged, untagged

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_frames_come_back_as_they_were_nulls_and_all(spark: SparkSession) -> None:
    clicks = spark.createDataFrame([("a", 1), (None, None), (None, None)], "page string, ms int")
    users = spark.createDataFrame([("u", NOON)], "user string, event_time timestamp")
    both = tagged(clicks=clicks, users=users)
    assert both.columns == ["__tidegate_input", "clicks", "users"]
    assert both.count() == 4
    assert_df_equality(untagged(both, "clicks"), clicks, ignore_row_order=True)
    assert_df_equality(untagged(both, "users"), users, ignore_row_order=True)


def test_a_name_with_a_dot_comes_back_whole(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "`ms.taken` int")
    assert untagged(tagged(one=frame, two=spark.range(1)), "one").collect() == frame.collect()


def test_a_frame_may_be_called_input(spark: SparkSession) -> None:
    assert untagged(tagged(input=spark.range(2), users=spark.range(1)), "input").count() == 2
