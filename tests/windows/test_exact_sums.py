"""Sums and means of integers are exact, and a sum that does not fit its type is null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tidegate import aggregates as agg
from tidegate.aggregates import OVERFLOW, finish, merge_partials, partials
from tidegate.windows import (
    Cumulative,
    Hopping,
    Session,
    Sliding,
    Tumbling,
    Window,
    WindowAggregation,
    cumulative,
    hopping,
    roll_up,
    session,
    sliding,
    tumbling,
)

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAX, MIN = 2**63 - 1, -(2**63)
NANOSECONDS = 1_772_445_600_000_000_000
WIDEST = Decimal(10**38 - 1)
AGGS = {"mean": agg.avg("value"), "total": agg.sum("value")}
WINDOWS: dict[str, Callable[[DataFrame, dict[str, agg.Aggregate]], DataFrame]] = {
    "tumbling": lambda rows, aggs: tumbling(rows, "1 minute", by="key", aggs=aggs),
    "hopping": lambda rows, aggs: hopping(rows, "1 minute", "20 seconds", by="key", aggs=aggs),
    "cumulative": lambda rows, aggs: cumulative(
        rows, "20 seconds", "1 minute", by="key", aggs=aggs
    ),
    "session": lambda rows, aggs: session(rows, "10 minutes", by="key", aggs=aggs),
    "sliding": lambda rows, aggs: sliding(rows, "1 minute", by="key", aggs=aggs),
    "sliding, all": lambda rows, aggs: sliding(
        rows, "1 minute", by="key", aggs=aggs, windows="all"
    ),
}


def events(spark: SparkSession, type_: str, values: Mapping[str, Sequence[Any]]) -> DataFrame:
    """Return events of each key, of the same second, in this order."""
    rows = [(key, value, START) for key, own in values.items() for value in own]
    return spark.createDataFrame(rows, f"key STRING, value {type_}, event_time TIMESTAMP")


def results(windows: DataFrame) -> dict[str, set[tuple[Any, Any]]]:
    """Return the mean and the total of each key; windows of a key may be equal."""
    found: dict[str, set[tuple[Any, Any]]] = {}
    for row in windows.collect():
        found.setdefault(row["key"], set()).add((row["mean"], row["total"]))
    return found


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_mean_of_bigints_is_right_where_their_sum_does_not_fit(
    kind: str, spark: SparkSession
) -> None:
    values: dict[str, list[Any]] = {
        "times": [NANOSECONDS + n for n in range(6)],
        "max": [MAX] * 4,
        "min": [MIN] * 3,
        "mixed": [MAX, 5, MIN, -7, None],
        "plain": [1, 2],
        "none": [None],
    }
    found = results(WINDOWS[kind](events(spark, "BIGINT", values), AGGS))
    assert found == {
        "times": {(float(NANOSECONDS), None)},
        "max": {(float(MAX), None)},
        "min": {(float(MIN), None)},
        "mixed": {(-0.75, -3)},
        "plain": {(1.5, 3)},
        "none": {(None, None)},
    }


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("scale", [0, 2, 38])
def test_a_sum_of_decimals_that_does_not_fit_is_null_and_other_groups_are_right(
    kind: str, scale: int, spark: SparkSession
) -> None:
    with localcontext(prec=60):
        unit, widest = Decimal(1).scaleb(-scale), WIDEST.scaleb(-scale)
        values = {
            "wide": [widest, widest],
            "negative": [-widest, -unit],
            "fits": [widest, -widest, unit],
            "limit": [widest - unit, unit],
            "small": [unit, unit],
        }
    rows = events(spark, f"DECIMAL(38, {scale})", values)
    found = {
        key: {total for _, total in own} for key, own in results(WINDOWS[kind](rows, AGGS)).items()
    }
    assert found == {
        "wide": {None},
        "negative": {None},
        "fits": {unit},
        "limit": {widest},
        "small": {2 * unit},
    }


WINDOW_VALUES: list[Window] = [
    Tumbling("1 minute"),
    Tumbling("1 day", zone="Europe/Berlin"),
    Hopping("1 minute", "20 seconds"),
    Cumulative("20 seconds", "1 minute"),
    Session("10 minutes"),
    Sliding("1 minute"),
    Sliding("1 minute", windows="all"),
]


@pytest.mark.parametrize("window", WINDOW_VALUES, ids=lambda each: each.plan_name)
@pytest.mark.parametrize(
    ("type_", "widest", "opposite"),
    [("BIGINT", MAX, -MAX), ("DECIMAL(38, 0)", WIDEST, WIDEST.copy_negate())],
)
def test_each_window_and_key_of_a_sum_that_does_not_fit_is_named(
    window: Window, type_: str, widest: Any, opposite: Any, spark: SparkSession
) -> None:
    values: dict[str, list[Any]] = {
        "over": [widest, widest],
        "fits": [widest, opposite, type(widest)(1)],
        "none": [None, None],
    }
    aggregation = WindowAggregation(window, by="key", aggs={**AGGS, "n": agg.count()})
    rows = aggregation.with_overflows(events(spark, type_, values)).persist()
    names = {"over": "total" if type_ == "BIGINT" else "mean, total"}
    assert {(row["key"], row[OVERFLOW]) for row in rows.collect()} == {
        (key, names.get(key)) for key in values
    }
    assert rows.columns == ["window", "key", *aggregation.aggs, OVERFLOW]
    found = aggregation.find_overflows(rows)
    assert found.count == rows.where(F.col("key") == "over").count()
    text = f'{names["over"]} of {{"window":{{"start":"2026-03-0'
    assert all(group.startswith(text) for group in found.groups)
    assert all(group.endswith('"},"key":"over"}') for group in found.groups)


@pytest.mark.parametrize("type_", ["INT", "DECIMAL(28, 2)", "DOUBLE"])
def test_a_sum_that_always_fits_is_not_checked(type_: str, spark: SparkSession) -> None:
    aggregation = WindowAggregation(Tumbling("1 minute"), by="key", aggs=AGGS)
    assert OVERFLOW not in aggregation.with_overflows(events(spark, type_, {})).columns


@pytest.mark.parametrize("type_", ["INT", "SMALLINT", "BIGINT", "DECIMAL(10, 2)", "DOUBLE"])
def test_results_have_the_types_of_sparks_functions(type_: str, spark: SparkSession) -> None:
    rows = events(spark, type_, {})
    schema = tumbling(rows, "1 minute", by="key", aggs=AGGS).schema
    plain = rows.agg(F.sum("value").alias("total"), F.avg("value").alias("mean")).schema
    assert schema["total"].dataType == plain["total"].dataType
    if not type_.startswith("DECIMAL"):
        assert schema["mean"].dataType == plain["mean"].dataType


def test_partials_of_bigints_merge_in_any_grouping(spark: SparkSession) -> None:
    values: dict[str, list[Any]] = {
        "up": [MAX, MAX, MIN, MIN, 2],
        "over": [MAX, 1],
        "null": [None, None],
    }
    rows = events(spark, "BIGINT", values)
    seconds = [rows.where("value > 0"), rows.where("value < 0 OR value IS NULL")]
    parts = [tumbling(each, "1 second", by="key", aggs=partials(AGGS)) for each in seconds]
    stored = parts[0].unionByName(parts[1])
    minutes = roll_up(stored, "1 minute", by="key", aggs=AGGS)
    expected = {"up": {(0.0, 0)}, "over": {(2.0**62, None)}, "null": {(None, None)}}
    assert results(finish(minutes, AGGS)) == expected
    by_key = merge_partials(merge_partials(stored, ["window", "key"], AGGS), "key", AGGS)
    assert results(finish(by_key, AGGS)) == expected


def test_a_part_of_a_decimal_sum_that_overflowed_stays_null(spark: SparkSession) -> None:
    rows = events(spark, "DECIMAL(38, 0)", {"a": [WIDEST, WIDEST], "b": [WIDEST]})
    more = events(spark, "DECIMAL(38, 0)", {"a": [Decimal(-5)], "b": [Decimal(-5)]})
    parts = [tumbling(each, "1 second", by="key", aggs=partials(AGGS)) for each in (rows, more)]
    merged = merge_partials(parts[0].unionByName(parts[1]), "key", AGGS)
    totals = {row["key"]: row["total"] for row in finish(merged, AGGS).collect()}
    assert totals == {"a": None, "b": Decimal(10**38 - 6)}


BIGINTS = st.one_of(
    st.integers(MIN, MAX), st.sampled_from([MIN, MAX, -1, 0, 1, 2**32, -(2**32)]), st.none()
)


@pytest.mark.draws
@given(values=st.lists(st.tuples(st.sampled_from("abc"), BIGINTS), min_size=1, max_size=30))
@few(4)
def test_sums_and_means_equal_those_of_pythons_integers(
    values: list[tuple[str, int | None]], spark: SparkSession
) -> None:
    rows = spark.createDataFrame(
        [(key, value, START + timedelta(seconds=n)) for n, (key, value) in enumerate(values)],
        "key STRING, value BIGINT, event_time TIMESTAMP",
    ).repartition(3)
    found = {
        row["key"]: (row["mean"], row["total"])
        for row in tumbling(rows, "1 hour", by="key", aggs=AGGS).collect()
    }
    for key, (mean, total) in found.items():
        own = [value for each, value in values if each == key and value is not None]
        exact = sum(own)
        assert total == (exact if own and MIN <= exact <= MAX else None)
        assert mean == (pytest.approx(float(Fraction(exact, len(own)))) if own else None)
