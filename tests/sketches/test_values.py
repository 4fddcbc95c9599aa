"""Values of sketches (nulls, empty strings, NaN, infinities, types) and invalid arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, finish, merge_partials, partials
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.sketches import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    hll_bounds,
    rank_error,
    theta_bounds,
    theta_difference,
    theta_estimate,
    theta_intersection,
    theta_sketch,
    theta_union,
)
from tidegate.windows import tumbling

AT = datetime(2026, 1, 1, tzinfo=UTC)
# Up to three distinct values per type; the test adds a duplicate and nulls.
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
TOP_K_TYPES = [kind for kind in TYPED if not kind.startswith(("array", "struct", "binary"))]


@pytest.mark.slow
def test_values_of_any_type_are_counted_and_nulls_are_not(spark: SparkSession) -> None:
    fields = {f"c{number}": (kind, values) for number, (kind, values) in enumerate(TYPED.items())}
    columns = [([*values, values[0]] + [None] * 3)[:6] for _, values in fields.values()]
    rows = list(zip(*columns, strict=True))
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in fields.items())
    frame = spark.createDataFrame([(*row, AT) for row in rows], f"{schema}, event_time timestamp")
    aggs = {
        f"{name}_{call.__name__}": call(name)
        for name in fields
        for call in (approx_count_distinct, theta_sketch)
    }
    aggs |= {
        f"{name}_top": approx_top_k(name, 3)
        for name, (kind, _) in fields.items()
        if kind in TOP_K_TYPES
    }
    counts = tumbling(frame, "1 day", aggs=aggs).head()
    assert counts is not None
    for name, (kind, values) in fields.items():
        assert (counts[f"{name}_approx_count_distinct"], counts[f"{name}_theta_sketch"]) == (
            len(values),
            len(values),
        ), kind
        if kind in TOP_K_TYPES:
            listed = [(one["count"], one.error) for one in counts[f"{name}_top"]]
            assert listed == [(2, 0)] + [(1, 0)] * (len(values) - 1), kind
            assert repr(counts[f"{name}_top"][0].value) == repr(_naive(values[0])), kind


def _naive(value: Any) -> Any:
    """Return a timestamp without a time zone, as Spark returns it to Python."""
    return (
        value.astimezone().replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo
        else value
    )


def test_zeros_of_either_sign_are_one_and_numbers_of_two_types_are_two(spark: SparkSession) -> None:
    zeros = spark.createDataFrame([(0.0, 1), (-0.0, 1)], "x double, n int")
    both = zeros.agg(
        approx_count_distinct("x").partial(F.lit(None)).alias("x"),
        approx_count_distinct("n").partial(F.lit(None)).alias("n"),
    )
    longs = zeros.agg(
        approx_count_distinct(F.col("n").cast("bigint")).partial(F.lit(None)).alias("n")
    )
    agg = approx_count_distinct("n")
    mixed = (
        both.select("n")
        .unionByName(longs)
        .agg(agg.merge(F.col("n")).alias("n"))
        .select(agg.finish(F.col("n")))
    )
    assert both.select(approx_count_distinct("x").finish(F.col("x"))).head()[0] == 1  # type: ignore[index]
    assert mixed.head()[0] == 2  # type: ignore[index]


def test_nulls_inside_a_struct_are_ignored_unless_it_is_converted_to_json(
    spark: SparkSession,
) -> None:
    pairs = spark.createDataFrame([(("a", None),), ((None, "a"),)], "p struct<x:string,y:string>")
    result = pairs.agg(
        *[
            agg.finish(agg.partial(F.lit(None)))
            for agg in (approx_count_distinct("p"), approx_count_distinct(F.to_json("p")))
        ]
    )
    assert result.head()[:] == (1, 2)  # type: ignore[index]


def test_quantiles_ignore_nulls_and_nan_and_include_infinities(
    spark: SparkSession,
) -> None:
    values = [None, math.nan, 3.0, -math.inf, 1.0, 2.0, math.inf]
    frame = spark.createDataFrame(
        [(value, AT) for value in values], "x double, event_time timestamp"
    )
    aggs = {
        "many": approx_quantile("x", [1.0, 0.0, 0.5, 0.4, 0.41]),
        "one": approx_quantile("x", 0.5),
        "full": approx_quantile(F.col("x").isNull().cast("int"), 1),
        "money": approx_quantile(F.lit(Decimal("1.25")), 0.5),
        "none": approx_quantile(F.lit(None).cast("double"), [0.5]),
    }
    result = tumbling(frame, "1 day", aggs=aggs).head()
    assert result is not None
    assert result[1:] == ([math.inf, -math.inf, 2.0, 1.0, 2.0], 2.0, 1.0, 1.25, None)


def test_top_decides_ties_by_value_and_gives_no_more_than_there_are(spark: SparkSession) -> None:
    texts = ["b", "a", "c", "c", "b", "a", "d", None, None, None]
    frame = spark.createDataFrame(
        [(value, AT) for value in texts], "x string, event_time timestamp"
    )
    result = tumbling(
        frame, "1 day", aggs={"two": approx_top_k("x", 2), "all": approx_top_k("x", 9)}
    ).head()
    assert result is not None
    assert [tuple(one) for one in result.two] == [("a", 2, 0), ("b", 2, 0)]
    assert [one.value for one in result["all"]] == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_a_global_merge_works_if_a_task_has_no_rows_and_returns_no_row_without_partials(
    spark: SparkSession,
) -> None:
    events = spark.createDataFrame(
        [(AT, "a"), (AT, "b"), (AT, "a")], "event_time timestamp, page string"
    )
    aggs = {
        "pages": approx_top_k("page", 2),
        "users": approx_count_distinct("page"),
        "ms": approx_quantile(F.lit(1.0), 0.5),
        "n": count(),
    }
    parts = tumbling(events, "1 minute", by="page", aggs=partials(aggs)).repartition(5)
    full = finish(merge_partials(parts, (), aggs), aggs).collect()
    assert [(row["pages"][0]["value"], row["users"], row["ms"], row["n"]) for row in full] == [
        ("a", 2, 1.0, 3)
    ]
    assert merge_partials(parts.where("page = 'c'"), (), aggs).collect() == []


@pytest.mark.slow
def test_set_operations_are_within_their_bounds(spark: SparkSession) -> None:
    ids = spark.range(60_000)
    agg = theta_sketch("id", precision=10)
    low, high = (
        F.when(test, F.col("id")) for test in (F.col("id") < 40_000, F.col("id") >= 30_000)
    )
    sketches = ids.agg(
        theta_sketch(low, precision=10).partial(F.lit(None)).alias("low"),
        theta_sketch(high, precision=10).partial(F.lit(None)).alias("high"),
        agg.partial(F.lit(None)).alias("all"),
    )
    operations: dict[str, Any] = {
        "union": theta_union,
        "intersection": theta_intersection,
        "difference": theta_difference,
    }
    sets = sketches.select(
        "all", *[call("low", "high", precision=10).alias(name) for name, call in operations.items()]
    )
    result = sets.select(
        *[theta_bounds(name, std_devs=3).alias(name) for name in sets.columns]
    ).head()
    assert result is not None
    for name, exact in {
        "all": 60_000,
        "union": 60_000,
        "intersection": 10_000,
        "difference": 30_000,
    }.items():
        assert result[name].low <= exact <= result[name].high
        assert result[name].high - result[name].low < 0.35 * 60_000
    assert result["union"] == result["all"]
    parts = sets.select(theta_union("intersection", "difference", precision=10).alias("low"))
    assert 38_000 < parts.select(theta_estimate("low")).head()[0] < 42_000  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: approx_count_distinct("x", precision=3), "4 to 21"),
        (lambda: approx_count_distinct("x", precision=22), "4 to 21"),
        (lambda: hll_bounds("x", std_devs=4), "1, 2 or 3"),
        (lambda: theta_sketch("x", precision=21), "4 to 20"),
        (lambda: theta_union("x", "y", precision=3), "4 to 20"),
        (lambda: theta_bounds("x", std_devs=0), "1, 2 or 3"),
        (lambda: approx_quantile("x", 1.1), "from 0 to 1"),
        (lambda: approx_quantile("x", []), "from 0 to 1"),
        (lambda: approx_quantile("x", [0.5, -0.1]), "from 0 to 1"),
        (lambda: approx_quantile("x", 0.5, k=7), "8 to 65535"),
        (lambda: rank_error(7), "8 to 65535"),
        (lambda: approx_top_k("x", 0), "invalid n: "),
        (lambda: approx_top_k("x", 5, capacity=4), "invalid n: "),
        (lambda: approx_top_k("x", 5, capacity=2_000_000), "1 to 999,999"),
    ],
)
def test_arguments_out_of_range_are_rejected(
    spark: SparkSession, call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_unsupported_columns_are_rejected_at_the_call(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(AT, "a", {"a": 1})], "event_time timestamp, x string, m map<string,int>"
    )
    for aggs, error, message in (
        ({"q": approx_quantile("x", 0.5)}, ColumnTypeError, "a number"),
        ({"u": approx_count_distinct("nowhere")}, ColumnError, "nowhere"),
        ({"u": approx_count_distinct("m")}, ColumnError, "HASH_MAP_TYPE"),
        ({"t": approx_top_k(F.struct("x"), 3)}, ColumnError, "struct columns are not supported"),
    ):
        with pytest.raises(error, match=message):
            tumbling(frame, "1 day", aggs=aggs)
