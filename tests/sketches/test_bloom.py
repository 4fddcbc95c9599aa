"""Bloom filters as aggregates: no false negatives, and the requested false positive rate."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from chispa import assert_df_equality
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import merge_partials, partials
from tidegate.errors import ArgumentError, ColumnError
from tidegate.sketches import bloom_filter, bloom_filter_stats, is_valid_sketch, might_contain
from tidegate.testing import StreamDriver
from tidegate.windows import tumbling


def filters_of(
    frame: DataFrame, value: str | list[str], keys: int, *by: str, rate: float = 0.01
) -> DataFrame:
    return frame.groupBy(*by).agg(
        bloom_filter(value, expected_items=keys, fpp=rate).partial(F.lit(None)).alias("known")
    )


def fraction_true(column: Column) -> Column:
    return F.avg(column.cast("double"))


@pytest.mark.slow
def test_every_key_is_found_and_any_split_of_the_rows_gives_the_same_filter(
    spark: SparkSession,
) -> None:
    rng = random.Random(3)
    keys = [
        "",
        " ",
        "a",
        "A",
        "a ",
        "\u00e4",
        *(f"https://example.org/a/long/prefix/{n}" for n in range(60)),
        None,
    ]
    rows = [
        (example, rng.randrange(2), rng.randrange(3), key)
        for example in range(20)
        for key in rng.sample(keys, rng.randrange(1, len(keys)))
    ]
    frame = spark.createDataFrame(rows, "example int, side int, part int, key string")
    merge = bloom_filter("key", expected_items=50, fpp=0.1).merge(F.col("known")).alias("known")
    parts = filters_of(frame, "key", 50, "example", "side", "part", rate=0.1)
    sides = parts.groupBy("example", "side").agg(merge)
    ways = [
        filters_of(frame, "key", 50, "example", rate=0.1),
        parts.groupBy("example").agg(merge),
        sides.union(sides).groupBy("example").agg(merge),
    ]
    distinct_filters = ways[0].union(ways[1]).union(ways[2]).distinct().cache()
    assert distinct_filters.count() == 20  # the three ways give one filter for each example
    probed = frame.join(distinct_filters, "example").withColumn(
        "found", might_contain("known", "key")
    )
    counts = Counter(
        (row["found"], row["null"])
        for row in probed.select("found", F.isnull("key").alias("null")).collect()
    )
    nulls = sum(row[3] is None for row in rows)
    assert counts == {(False, True): nulls, (True, False): len(rows) - nulls}


@pytest.mark.slow
def test_keys_of_all_types_are_found_and_others_are_not(spark: SparkSession) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (
            n,
            n,
            -n,
            f"u{n}",
            bytes([n]),
            n / 7,
            Decimal(n) / 4,
            moment + timedelta(seconds=n),
            date(2026, 1, 1 + n % 28),
            n % 2 == 0,
            [n, None],
            (n, None),
        )
        for n in range(20)
    ]
    schema = (
        "id bigint, int int, short smallint, text string, bytes binary, double double, decimal "
        "decimal(10,2), "
        "time timestamp, day date, flag boolean, list array<int>, pair struct<a:int,b:string>"
    )
    frame = spark.createDataFrame(rows, schema)
    filters = frame.agg(
        *[
            bloom_filter(name, expected_items=40, fpp=0.1).partial(F.lit(None)).alias(f"of_{name}")
            for name in frame.columns
        ]
    )
    present = frame.crossJoin(filters).agg(
        *[fraction_true(might_contain(f"of_{name}", name)).alias(name) for name in frame.columns]
    )
    assert set(present.head() or ()) == {1.0}

    others = spark.range(1_000, 5_000).select(
        "id",
        F.col("id").cast("int").alias("int"),
        F.concat(F.lit("u"), "id").alias("text"),
        F.array(F.col("id").cast("int"), F.lit(None)).alias("list"),
    )
    absent = others.crossJoin(filters).agg(
        *[fraction_true(might_contain(f"of_{name}", name)) for name in others.columns]
    )
    assert max(absent.head() or (1,)) < 0.1


def test_zeros_of_either_sign_are_one_key_and_so_is_nan(spark: SparkSession) -> None:
    numbers = spark.createDataFrame([(0.0,), (float("nan"),)], "x double")
    probed = numbers.agg(
        bloom_filter("x", expected_items=10).partial(F.lit(None)).alias("known")
    ).select(
        might_contain("known", F.lit(-0.0)),
        might_contain("known", F.lit(float("nan"))),
        might_contain("known", F.lit(1.0)),
    )
    assert tuple(probed.head() or ()) == (True, True, False)


def test_a_key_of_several_columns_is_found_as_one_key_and_never_with_a_null(
    spark: SparkSession,
) -> None:
    rows = [
        ("a", "bc", True),
        ("ab", "c", False),
        ("bc", "a", False),
        ("a", None, False),
        (None, "bc", False),
    ]
    frame = spark.createDataFrame(rows, "x string, y string, known boolean")
    filters = filters_of(frame.where("known or x is null or y is null"), ["x", "y"], 100, rate=1e-6)
    filters = filters.withColumnRenamed("known", "filter")
    probed = frame.crossJoin(filters).select(
        "x", "y", might_contain("filter", ["x", "y"]).alias("known")
    )
    assert_df_equality(probed, frame, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize("key", ["id", "concat('https://example.org/a/long/common/prefix/', id)"])
def test_the_measured_rate_is_the_requested_one_and_equals_the_stats(
    spark: SparkSession, key: str
) -> None:
    keyed = spark.range(30_000).select("id", F.expr(key).alias("key"))
    filters = filters_of(keyed.where("id < 2000"), "key", 2_000, rate=0.05)
    rates_by_presence = (
        keyed.crossJoin(filters)
        .groupBy((F.col("id") < 2_000).alias("present"))
        .agg(
            fraction_true(might_contain("known", "key")).alias("found"),
            F.any_value(bloom_filter_stats("known")).alias("stats"),
        )
    )
    rates = {row["present"]: row for row in rates_by_presence.collect()}
    assert rates[True]["found"] == 1
    assert rates[False]["found"] == pytest.approx(0.05, rel=0.1)
    stats = rates[True]["stats"]
    assert stats["keys"] == pytest.approx(2_000, rel=0.05)
    assert stats["false_positives"] == pytest.approx(rates[False]["found"], rel=0.1)


def test_the_stats_of_a_filter_with_too_many_keys_report_its_rate(spark: SparkSession) -> None:
    filters = filters_of(spark.range(2_000), "id", 1_000).union(
        filters_of(spark.range(0), "id", 1_000, "id").select("known")
    )
    stats = filters.select(bloom_filter_stats("known").alias("stats")).select("stats.*").head()
    assert stats is not None
    assert stats["keys"] == pytest.approx(2_000, rel=0.05)
    assert stats["false_positives"] == pytest.approx(0.157, rel=0.1)
    tiny = (
        filters_of(spark.range(5_000), "id", 10)
        .select(bloom_filter_stats("known").alias("stats"))
        .select("stats.*")
        .head()
    )
    assert tiny is not None
    assert (tiny["fill"], tiny["false_positives"]) == (1, 1)
    assert tiny["keys"] > 10


@pytest.mark.slow
def test_minutes_roll_up_to_the_day_and_the_stream_agrees(spark: SparkSession) -> None:
    start = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    schema = "event_time timestamp, user string"
    rows = [(start + timedelta(seconds=7 * n), f"u{n % 40}") for n in range(100)]
    aggs = {"users": bloom_filter("user", expected_items=100)}

    def minutes(events: DataFrame) -> DataFrame:
        return tumbling(events, "1 minute", aggs=partials(aggs))

    events = spark.createDataFrame(rows, schema)
    day = merge_partials(minutes(events), (), aggs)
    assert_df_equality(
        day, tumbling(events, "1 day", aggs=aggs).select("users"), ignore_nullable=True
    )
    with StreamDriver(spark, schema, minutes, watermark_delay="10 seconds") as stream:
        stream.feed(rows[50:])
        stream.feed(rows[:50])
        stream.advance_to(start + timedelta(hours=1))
        assert_df_equality(merge_partials(stream.results(), (), aggs), day, ignore_nullable=True)


@pytest.mark.slow
def test_filters_of_another_type_or_size_raise_an_error(spark: SparkSession) -> None:
    frame = spark.range(10).withColumn("text", F.col("id").cast("string"))
    filters = frame.agg(
        bloom_filter("id", expected_items=100).partial(F.lit(None)).alias("longs"),
        bloom_filter("text", expected_items=100).partial(F.lit(None)).alias("texts"),
    ).cache()
    as_long = F.lit(1).cast("bigint")
    cases: dict[str, DataFrame] = {
        "key=bigint": filters.select(might_contain("longs", F.lit(1))),
        "key=string": filters.select(might_contain("texts", as_long)),
        "truncated": filters.select(might_contain(F.substring("longs", 1, 20), as_long)),
        "damaged": filters.select(
            might_contain(F.overlay("longs", F.lit(b"\xff\x00\xff"), 70, 3), as_long)
        ),
        "not a sketch": filters.select(might_contain(F.lit(b"hello"), as_long)),
        "k=7 bits=138 of=1": filters.agg(
            bloom_filter("id", expected_items=90).merge(F.col("longs"))
        ),
        "keys of different types": filters.select("longs")
        .union(filters.select("texts"))
        .agg(bloom_filter("id", expected_items=100).merge(F.col("longs"))),
        "intact sketch of `members": filters.select(
            bloom_filter_stats(F.substring("longs", 1, 99))
        ),
    }
    for reason, query in cases.items():
        with pytest.raises(Exception, match=r"(?s)cause: ") as error:
            query.collect()
        assert reason in str(error.value)
    is_valid = filters.select(
        is_valid_sketch("longs", "members"), is_valid_sketch(F.substring("longs", 1, 99), "members")
    ).head()
    assert tuple(is_valid or ()) == (True, False)


def test_a_null_filter_gives_null(spark: SparkSession) -> None:
    none = F.lit(None).cast("binary")
    row = spark.range(1).select(might_contain(none, F.lit("a")), bloom_filter_stats(none)).head()
    assert tuple(row or ()) == (None, None)
    assert filters_of(spark.range(0), "id", 10).head()[0] is None  # type: ignore[index]


def test_unhashable_keys_and_too_many_keys_are_rejected(spark: SparkSession) -> None:
    events = spark.createDataFrame([], "event_time timestamp, tags map<string,string>")
    with pytest.raises(ColumnError, match="MAP"):
        tumbling(events, "1 minute", aggs={"tags": bloom_filter("tags", expected_items=10)})
    with pytest.raises(ArgumentError, match="BloomTable"):
        bloom_filter("user", expected_items=1_000_000)
