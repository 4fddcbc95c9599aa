"""Roll-ups of small windows to larger windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few, varied
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.windows import roll_up, tumbling

AGGS: dict[str, Aggregate] = {
    "n": agg.count(),
    "mean": agg.avg("value"),
    "max": agg.max("value"),
    "last": agg.last("value"),
}
START = datetime(2026, 3, 28, 12, tzinfo=UTC)


def events(spark: SparkSession, rows: list[tuple[int, str | None, int | None]]) -> DataFrame:
    events_by_time = [
        (START + timedelta(minutes=minutes), page, value) for minutes, page, value in rows
    ]
    return spark.createDataFrame(events_by_time, "event_time timestamp, page string, value int")


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
def test_roll_ups_of_two_parts_equal_the_larger_windows_of_all_events(
    spark: SparkSession, rows: list[tuple[int, str | None, int | None]], cut: int, zone: str | None
) -> None:
    parts = [events(spark, part) for part in (rows[:cut], rows[cut:])]
    minutes = [tumbling(part, "1 minute", by="page", aggs=agg.partials(AGGS)) for part in parts]
    days = [roll_up(part, "1 day", by="page", aggs=AGGS, zone=zone) for part in minutes]
    both = agg.finish(
        agg.merge_partials(days[0].unionByName(days[1]), ["window", "page"], AGGS), AGGS
    )
    expected = tumbling(events(spark, rows), "1 day", by="page", aggs=AGGS, zone=zone)
    assert_df_equality(
        both, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def test_keys_that_are_missing_in_by_are_merged(spark: SparkSession) -> None:
    minutes = tumbling(
        events(spark, [(0, "a", 1), (1, "b", 5), (61, "a", 3)]),
        "1 minute",
        by="page",
        aggs=agg.partials(AGGS),
    )
    hours = agg.finish(roll_up(minutes, "1 hour", aggs=AGGS), AGGS).orderBy("window")
    assert [(row.n, row["mean"], row["max"], row["last"]) for row in hours.collect()] == [
        (2, 3.0, 5, 5),
        (1, 3.0, 3, 3),
    ]


def test_a_window_that_overlaps_two_larger_windows_is_an_error(spark: SparkSession) -> None:
    hours = tumbling(events(spark, [(0, "a", 1)]), "1 hour", aggs=agg.partials(AGGS))
    with pytest.raises(
        PySparkException, match="roll up the window from 2026-03-28 12:00:00 to 2026-03-28 13:00:00"
    ):
        roll_up(hours, "40 minutes", aggs=AGGS).collect()


def test_invalid_arguments_raise_at_the_call(spark: SparkSession) -> None:
    minutes = tumbling(events(spark, [(0, "a", 1)]), "1 minute", by="page", aggs=agg.partials(AGGS))
    with pytest.raises(ColumnError, match="invalid by: no column 'user'"):
        roll_up(minutes, "1 hour", by="user", aggs=AGGS)
    with pytest.raises(ColumnError, match="invalid aggs: no column 'x'"):
        roll_up(minutes, "1 hour", aggs={"x": agg.count()})
    with pytest.raises(ArgumentError, match=r"invalid aggs: \{\}"):
        roll_up(minutes, "1 hour", aggs={})
    with pytest.raises(ColumnTypeError, match="an Aggregate"):
        roll_up(minutes, "1 hour", aggs={"n": F.count("n")})  # type: ignore[dict-item]
    with pytest.raises(ColumnTypeError, match="column 'window' has type string"):
        roll_up(minutes.withColumn("window", F.lit("today")), "1 hour", aggs=AGGS)
    with pytest.raises(ArgumentError, match="a month has no fixed length"):
        roll_up(minutes, "1 month", aggs=AGGS)
