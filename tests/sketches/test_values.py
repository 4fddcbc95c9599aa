"""Which values count, and as what: nulls, empty texts, NaN, infinities, types; and arguments that
cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, finished, merged, partials
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.sketches import (
    difference,
    distinct,
    distinct_bounds,
    intersection,
    quantile,
    rank_error,
    theta,
    theta_bounds,
    theta_estimate,
    top,
    union,
)
from tidegate.windows import tumbling

AT = datetime(2026, 1, 1, tzinfo=UTC)
# Three different values of each type, one of them twice, and nulls.
TYPED: dict[str, list[Any]] = {
    "string": ["", "a", "ä"],
    "binary": [b"", b"a", b"\0"],
    "boolean": [True, False],
    "tinyint": [1, 2, -3],
    "int": [0, 2, -3],
    "bigint": [0, 2**62, -3],
    "float": [0.0, 1.5, math.inf],
    "double": [math.nan, 1.5, -math.inf],
    "decimal(38,2)": [Decimal("0.00"), Decimal("1.10"), Decimal("-1.10")],
    "date": [date(1969, 1, 1), date(2026, 1, 1), date(2026, 1, 2)],
    "timestamp": [AT, datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
    "timestamp_ntz": [datetime(2026, 1, 1), datetime(1969, 1, 1), datetime(2026, 1, 2)],
    "array<string>": [[], ["a"], ["a", "b"]],
    "struct<a:string,b:int>": [("a", None), ("b", None), ("a", 1)],
}
LISTED = [kind for kind in TYPED if not kind.startswith(("array", "struct", "binary"))]


@pytest.mark.slow
def test_values_of_any_type_are_counted_and_nulls_are_not(spark: SparkSession) -> None:
    fields = {f"c{number}": (kind, values) for number, (kind, values) in enumerate(TYPED.items())}
    columns = [([*values, values[0]] + [None] * 3)[:6] for _, values in fields.values()]
    rows = list(zip(*columns, strict=True))
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in fields.items())
    frame = spark.createDataFrame([(*row, AT) for row in rows], f"{schema}, event_time timestamp")
    aggs = {f"{name}_{call.__name__}": call(name) for name in fields for call in (distinct, theta)}
    aggs |= {f"{name}_top": top(name, 3) for name, (kind, _) in fields.items() if kind in LISTED}
    found = tumbling(frame, "1 day", aggs=aggs).head()
    assert found is not None
    for name, (kind, values) in fields.items():
        assert (found[f"{name}_distinct"], found[f"{name}_theta"]) == (len(values), len(values)), (
            kind
        )
        if kind in LISTED:
            listed = [(one["count"], one.error) for one in found[f"{name}_top"]]
            assert listed == [(2, 0)] + [(1, 0)] * (len(values) - 1), kind
            assert repr(found[f"{name}_top"][0].value) == repr(_naive(values[0])), kind


def _naive(value: Any) -> Any:
    """Return an instant as Spark shows it in Python, without a zone."""
    return (
        value.astimezone().replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo
        else value
    )


def test_zeros_of_either_sign_are_one_and_numbers_of_two_types_are_two(spark: SparkSession) -> None:
    zeros = spark.createDataFrame([(0.0, 1), (-0.0, 1)], "x double, n int")
    both = zeros.agg(
        distinct("x").partial(F.lit(None)).alias("x"), distinct("n").partial(F.lit(None)).alias("n")
    )
    longs = zeros.agg(distinct(F.col("n").cast("bigint")).partial(F.lit(None)).alias("n"))
    agg = distinct("n")
    mixed = (
        both.select("n")
        .unionByName(longs)
        .agg(agg.merge(F.col("n")).alias("n"))
        .select(agg.finish(F.col("n")))
    )
    assert both.select(distinct("x").finish(F.col("x"))).head()[0] == 1  # type: ignore[index]
    assert mixed.head()[0] == 2  # type: ignore[index]


def test_nulls_inside_a_struct_are_passed_over_unless_it_is_written_as_text(
    spark: SparkSession,
) -> None:
    pairs = spark.createDataFrame([(("a", None),), ((None, "a"),)], "p struct<x:string,y:string>")
    found = pairs.agg(
        *[agg.finish(agg.partial(F.lit(None))) for agg in (distinct("p"), distinct(F.to_json("p")))]
    )
    assert found.head()[:] == (1, 2)  # type: ignore[index]


def test_quantiles_leave_out_nulls_and_nan_and_keep_infinities_and_order(
    spark: SparkSession,
) -> None:
    values = [None, math.nan, 3.0, -math.inf, 1.0, 2.0, math.inf]
    frame = spark.createDataFrame(
        [(value, AT) for value in values], "x double, event_time timestamp"
    )
    aggs = {
        "many": quantile("x", [1.0, 0.0, 0.5, 0.4, 0.41]),
        "one": quantile("x", 0.5),
        "whole": quantile(F.col("x").isNull().cast("int"), 1),
        "money": quantile(F.lit(Decimal("1.25")), 0.5),
        "none": quantile(F.lit(None).cast("double"), [0.5]),
    }
    found = tumbling(frame, "1 day", aggs=aggs).head()
    assert found is not None
    assert found[1:] == ([math.inf, -math.inf, 2.0, 1.0, 2.0], 2.0, 1.0, 1.25, None)


def test_top_decides_ties_by_value_and_gives_no_more_than_there_are(spark: SparkSession) -> None:
    said = ["b", "a", "c", "c", "b", "a", "d", None, None, None]
    frame = spark.createDataFrame([(value, AT) for value in said], "x string, event_time timestamp")
    found = tumbling(frame, "1 day", aggs={"two": top("x", 2), "all": top("x", 9)}).head()
    assert found is not None
    assert [tuple(one) for one in found.two] == [("a", 2, 0), ("b", 2, 0)]
    assert [one.value for one in found["all"]] == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_all_partials_become_one_though_a_task_has_none_and_of_none_nothing_is_made(
    spark: SparkSession,
) -> None:
    events = spark.createDataFrame(
        [(AT, "a"), (AT, "b"), (AT, "a")], "event_time timestamp, page string"
    )
    aggs = {
        "pages": top("page", 2),
        "users": distinct("page"),
        "ms": quantile(F.lit(1.0), 0.5),
        "n": count(),
    }
    parts = tumbling(events, "1 minute", by="page", aggs=partials(aggs)).repartition(5)
    whole = finished(merged(parts, (), aggs), aggs).collect()
    assert [(row["pages"][0]["value"], row["users"], row["ms"], row["n"]) for row in whole] == [
        ("a", 2, 1.0, 3)
    ]
    assert merged(parts.where("page = 'c'"), (), aggs).collect() == []


@pytest.mark.slow
def test_sets_meet_within_their_bounds(spark: SparkSession) -> None:
    ids = spark.range(60_000)
    agg = theta("id", precision=10)
    low, high = (
        F.when(test, F.col("id")) for test in (F.col("id") < 40_000, F.col("id") >= 30_000)
    )
    made = ids.agg(
        theta(low, precision=10).partial(F.lit(None)).alias("low"),
        theta(high, precision=10).partial(F.lit(None)).alias("high"),
        agg.partial(F.lit(None)).alias("all"),
    )
    asked: dict[str, Any] = {"union": union, "intersection": intersection, "difference": difference}
    sets = made.select(
        "all", *[call("low", "high", precision=10).alias(name) for name, call in asked.items()]
    )
    found = sets.select(
        *[theta_bounds(name, deviations=3).alias(name) for name in sets.columns]
    ).head()
    assert found is not None
    for name, exact in {
        "all": 60_000,
        "union": 60_000,
        "intersection": 10_000,
        "difference": 30_000,
    }.items():
        assert found[name].low <= exact <= found[name].high
        assert found[name].high - found[name].low < 0.35 * 60_000
    assert found["union"] == found["all"]
    parts = sets.select(union("intersection", "difference", precision=10).alias("low"))
    assert 38_000 < parts.select(theta_estimate("low")).head()[0] < 42_000  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: distinct("x", precision=3), "4 to 21"),
        (lambda: distinct("x", precision=22), "4 to 21"),
        (lambda: distinct_bounds("x", deviations=4), "1, 2 or 3"),
        (lambda: theta("x", precision=21), "4 to 20"),
        (lambda: union("x", "y", precision=3), "4 to 20"),
        (lambda: theta_bounds("x", deviations=0), "1, 2 or 3"),
        (lambda: quantile("x", 1.1), "from 0 to 1"),
        (lambda: quantile("x", []), "from 0 to 1"),
        (lambda: quantile("x", [0.5, -0.1]), "from 0 to 1"),
        (lambda: quantile("x", 0.5, k=7), "8 to 65535"),
        (lambda: rank_error(7), "8 to 65535"),
        (lambda: top("x", 0), "1 <= n"),
        (lambda: top("x", 5, capacity=4), "1 <= n"),
        (lambda: top("x", 5, capacity=2_000_000), "1 to 999,999"),
    ],
)
def test_arguments_out_of_range_are_refused(
    spark: SparkSession, call: Callable[[], object], says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        call()


def test_columns_that_can_not_be_sketched_are_refused_at_the_call(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(AT, "a", {"a": 1})], "event_time timestamp, x string, m map<string,int>"
    )
    for aggs, error, says in (
        ({"q": quantile("x", 0.5)}, ColumnTypeError, "a number"),
        ({"u": distinct("nowhere")}, ColumnError, "nowhere"),
        ({"u": distinct("m")}, ColumnError, "cannot be computed"),
        ({"t": top(F.struct("x"), 3)}, ColumnError, "struct columns are not supported"),
    ):
        with pytest.raises(error, match=says):
            tumbling(frame, "1 day", aggs=aggs)
