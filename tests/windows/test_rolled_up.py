"""Small windows rolled up to larger ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, finished, largest, last, mean, merged, partials
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.windows import rolled_up, tumbling

from ..drawing import few, varied

AGGS: dict[str, Aggregate] = {
    "n": count(),
    "mean": mean("value"),
    "most": largest("value"),
    "last": last("value"),
}
START = datetime(2026, 3, 28, 12, tzinfo=UTC)


def events(spark: SparkSession, rows: list[tuple[int, str | None, int | None]]) -> DataFrame:
    made = [(START + timedelta(minutes=minutes), page, value) for minutes, page, value in rows]
    return spark.createDataFrame(made, "event_time timestamp, page string, value int")


ROW = st.tuples(
    st.integers(-3_000, 3_000), st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9)
)
ROWS = varied(st.lists(ROW, min_size=2, max_size=30))


@pytest.mark.draws
@few()
@given(
    rows=ROWS, cut=st.integers(0, 30), zone=st.sampled_from([None, "Europe/Berlin", "Asia/Kolkata"])
)
@pytest.mark.slow
def test_rolling_minutes_up_in_two_parts_equals_the_larger_windows_of_all_events(
    spark: SparkSession, rows: list[tuple[int, str | None, int | None]], cut: int, zone: str | None
) -> None:
    parts = [events(spark, part) for part in (rows[:cut], rows[cut:])]
    minutes = [tumbling(part, "1 minute", by="page", aggs=partials(AGGS)) for part in parts]
    days = [rolled_up(part, "1 day", by="page", aggs=AGGS, zone=zone) for part in minutes]
    both = finished(merged(days[0].unionByName(days[1]), ["window", "page"], AGGS), AGGS)
    whole = tumbling(events(spark, rows), "1 day", by="page", aggs=AGGS, zone=zone)
    assert_df_equality(
        both, whole, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def test_keys_that_are_left_out_are_merged(spark: SparkSession) -> None:
    minutes = tumbling(
        events(spark, [(0, "a", 1), (1, "b", 5), (61, "a", 3)]),
        "1 minute",
        by="page",
        aggs=partials(AGGS),
    )
    hours = finished(rolled_up(minutes, "1 hour", aggs=AGGS), AGGS).orderBy("window")
    assert [(row.n, row["mean"], row.most, row["last"]) for row in hours.collect()] == [
        (2, 3.0, 5, 5),
        (1, 3.0, 3, 3),
    ]


def test_a_window_that_two_larger_ones_share_is_an_error(spark: SparkSession) -> None:
    hours = tumbling(events(spark, [(0, "a", 1)]), "1 hour", aggs=partials(AGGS))
    with pytest.raises(
        PySparkException, match="2026-03-28 12:00:00 to 2026-03-28 13:00:00 is to be rolled up"
    ):
        rolled_up(hours, "40 minutes", aggs=AGGS).collect()


def test_bad_arguments_are_named_at_the_call(spark: SparkSession) -> None:
    minutes = tumbling(events(spark, [(0, "a", 1)]), "1 minute", by="page", aggs=partials(AGGS))
    with pytest.raises(ColumnError, match="by names 'user'"):
        rolled_up(minutes, "1 hour", by="user", aggs=AGGS)
    with pytest.raises(ColumnError, match="aggs names 'x'"):
        rolled_up(minutes, "1 hour", aggs={"x": count()})
    with pytest.raises(ArgumentError, match="aggs is empty"):
        rolled_up(minutes, "1 hour", aggs={})
    with pytest.raises(ColumnTypeError, match="an Aggregate"):
        rolled_up(minutes, "1 hour", aggs={"n": F.count("n")})  # type: ignore[dict-item]
    with pytest.raises(ColumnTypeError, match="window is of type string"):
        rolled_up(minutes.withColumn("window", F.lit("today")), "1 hour", aggs=AGGS)
    with pytest.raises(ArgumentError, match="month has no fixed length"):
        rolled_up(minutes, "1 month", aggs=AGGS)
