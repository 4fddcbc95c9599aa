"""Stream and batch compared: they agree, or it is told which rows only one of them has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.differences import differences
from tidegate.errors import ArgumentError, ColumnTypeError
from tidegate.joins import IntervalJoin
from tidegate.testing import compare
from tidegate.windows import Tumbling, Windowed

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SCHEMA = "event_time timestamp, key string"
VIEWS = Windowed(Tumbling("10 seconds"), by="key", aggs={"n": count()})
LOG = [[(1, "a"), (4, "b"), (12, "a")], [(21, "a"), (2, "a")], [(3, "a"), (25, "b")]]


def fed(batches: list[list[tuple[int, str]]]) -> list[list[tuple[datetime, str]]]:
    return [[(START + timedelta(seconds=at), key) for at, key in rows] for rows in batches]


@pytest.mark.slow
def test_windows_agree_and_rows_that_came_late_are_counted(spark: SparkSession) -> None:
    found = compare(spark, SCHEMA, VIEWS, fed(LOG), lateness="2 seconds")
    assert found.agree
    assert (found.rows, found.late) == (5, 2)


@pytest.mark.slow
def test_a_plain_function_does_not_say_what_is_late_and_differs(spark: SparkSession) -> None:
    found = compare(spark, SCHEMA, VIEWS.__call__, fed(LOG), lateness="2 seconds")
    assert (found.missing, found.extra, found.different) == (1, 1, 0)
    found = compare(spark, SCHEMA, VIEWS.__call__, fed(LOG), lateness="2 seconds", keys=["window"])
    assert (found.missing, found.extra, found.different) == (0, 0, 1)
    assert any(sample.startswith("expected: window={start: 2026-") for sample in found.samples)


@pytest.mark.slow
def test_a_join_of_two_inputs_agrees(spark: SparkSession) -> None:
    near = IntervalJoin("key", within=("0 seconds", "5 seconds"), how="left")
    first, second, third = fed(LOG)
    found = compare(
        spark,
        {"left": SCHEMA, "right": SCHEMA},
        near,
        [{"left": first}, {"left": third, "right": second}, {"right": first}],
        lateness="1 minute",
    )
    assert found.agree
    assert found.rows == 6


@pytest.mark.slow
def test_a_transform_that_hangs_on_its_batches_is_found_out(spark: SparkSession) -> None:
    def batched(events: DataFrame) -> DataFrame:
        return events.withColumn("n", F.lit(1 if events.isStreaming else 2))

    found = compare(spark, SCHEMA, batched, fed(LOG), lateness=None, keys=["event_time", "key"])
    assert (found.rows, found.different) == (7, 7)
    assert compare(spark, SCHEMA, batched, fed(LOG), lateness=None, ignore=["n"]).agree


def test_fractions_agree_up_to_their_rounding_and_copies_count(spark: SparkSession) -> None:
    here = spark.createDataFrame([(0.1 + 0.2, 1.5), (None, 2.5), (1.0, 2.5)], "a double, b double")
    there = spark.createDataFrame([(0.3, 1.5), (None, 2.5), (None, 2.5)], "a double, b double")
    found = differences(here, there)
    assert (found.missing, found.extra) == (1, 1)
    assert set(found.samples) == {"expected: a=1, b=2.5", "found: a=null, b=2.5"}


def test_what_cannot_be_compared_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError, match="batches is empty"):
        compare(spark, SCHEMA, VIEWS, [], lateness="1 second")
    both = {"left": SCHEMA, "right": SCHEMA}
    with pytest.raises(ArgumentError, match="rows by the inputs' names: left, right"):
        compare(spark, both, VIEWS, fed(LOG), lateness="1 second")
    maps = spark.sql("select map('a', 1) as m")
    with pytest.raises(ColumnTypeError, match=r"ignore=\['m'\]"):
        differences(maps, maps)
