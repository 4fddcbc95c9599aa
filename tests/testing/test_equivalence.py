"""Comparison of stream and batch: agreement, or the rows that differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.frame_diff import diff_frames
from tidegate.joins import IntervalJoin
from tidegate.testing import compare_stream_and_batch
from tidegate.windows import Tumbling, WindowAggregation

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SCHEMA = "event_time timestamp, key string"
VIEWS = WindowAggregation(Tumbling("10 seconds"), by="key", aggs={"n": count()})
LOG = [[(1, "a"), (4, "b"), (12, "a")], [(21, "a"), (2, "a")], [(3, "a"), (25, "b")]]


def timestamped(batches: list[list[tuple[int, str]]]) -> list[list[tuple[datetime, str]]]:
    return [[(START + timedelta(seconds=at), key) for at, key in rows] for rows in batches]


@pytest.mark.slow
def test_windows_agree_and_late_rows_are_counted(spark: SparkSession) -> None:
    result = compare_stream_and_batch(
        spark, SCHEMA, VIEWS, timestamped(LOG), watermark_delay="2 seconds"
    )
    assert result.is_empty
    assert (result.expected_rows, result.late_rows) == (5, 2)


@pytest.mark.slow
def test_late_rows_of_a_plain_function_are_differences(spark: SparkSession) -> None:
    result = compare_stream_and_batch(
        spark, SCHEMA, VIEWS.__call__, timestamped(LOG), watermark_delay="2 seconds"
    )
    assert (result.missing, result.extra, result.different) == (1, 1, 0)
    result = compare_stream_and_batch(
        spark,
        SCHEMA,
        VIEWS.__call__,
        timestamped(LOG),
        watermark_delay="2 seconds",
        keys=["window"],
    )
    assert (result.missing, result.extra, result.different) == (0, 0, 1)
    assert any(sample.startswith("expected: window={start: 2026-") for sample in result.samples)


@pytest.mark.slow
def test_a_join_of_two_inputs_agrees(spark: SparkSession) -> None:
    near = IntervalJoin("key", within=("0 seconds", "5 seconds"), how="left")
    first, second, third = timestamped(LOG)
    result = compare_stream_and_batch(
        spark,
        {"left": SCHEMA, "right": SCHEMA},
        near,
        [{"left": first}, {"left": third, "right": second}, {"right": first}],
        watermark_delay="1 minute",
    )
    assert result.is_empty
    assert result.expected_rows == 6


@pytest.mark.slow
def test_a_transform_that_depends_on_its_batches_differs(spark: SparkSession) -> None:
    def batched(events: DataFrame) -> DataFrame:
        return events.withColumn("n", F.lit(1 if events.isStreaming else 2))

    result = compare_stream_and_batch(
        spark, SCHEMA, batched, timestamped(LOG), watermark_delay=None, keys=["event_time", "key"]
    )
    assert (result.expected_rows, result.different) == (7, 7)
    assert compare_stream_and_batch(
        spark, SCHEMA, batched, timestamped(LOG), watermark_delay=None, ignore=["n"]
    ).is_empty


def test_floating_point_numbers_agree_up_to_rounding_and_duplicates_count(
    spark: SparkSession,
) -> None:
    here = spark.createDataFrame([(0.1 + 0.2, 1.5), (None, 2.5), (1.0, 2.5)], "a double, b double")
    there = spark.createDataFrame([(0.3, 1.5), (None, 2.5), (None, 2.5)], "a double, b double")
    result = diff_frames(here, there)
    assert (result.missing, result.extra) == (1, 1)
    assert set(result.samples) == {"expected: a=1, b=2.5", "actual: a=null, b=2.5"}


def test_a_key_may_have_the_name_of_a_count(spark: SparkSession) -> None:
    expected = spark.createDataFrame([(1, 5), (2, 5)], "missing int, value int")
    actual = spark.createDataFrame([(1, 6)], "missing int, value int")
    result = diff_frames(expected, actual, keys=["missing"])
    assert (result.missing, result.extra, result.different) == (1, 0, 1)


def test_invalid_comparisons_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError, match="invalid batches: empty"):
        compare_stream_and_batch(spark, SCHEMA, VIEWS, [], watermark_delay="1 second")
    both = {"left": SCHEMA, "right": SCHEMA}
    with pytest.raises(ArgumentError, match="rows by input name: left, right"):
        compare_stream_and_batch(spark, both, VIEWS, timestamped(LOG), watermark_delay="1 second")
    maps = spark.sql("select map('a', 1) as m")
    with pytest.raises(ColumnTypeError, match=r"ignore=\['m'\]"):
        diff_frames(maps, maps)
