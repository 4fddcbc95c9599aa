"""Bloom filters as aggregates: no key is missed, at the rate that was asked for."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from chispa import assert_df_equality
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import merged, partials
from tidegate.errors import ArgumentError, ColumnError
from tidegate.sketches import bloom, fullness, is_sound, might_contain
from tidegate.testing import StreamDriver
from tidegate.windows import tumbling


def made(
    frame: DataFrame, value: str | list[str], keys: int, *by: str, rate: float = 0.01
) -> DataFrame:
    return frame.groupBy(*by).agg(
        bloom(value, keys=keys, false_positives=rate).partial(F.lit(None)).alias("known")
    )


def found(column: Column) -> Column:
    return F.avg(column.cast("double"))


@pytest.mark.slow
def test_every_key_is_found_and_any_split_gives_the_same_filter(spark: SparkSession) -> None:
    chance = random.Random(3)
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
        (example, chance.randrange(2), chance.randrange(3), key)
        for example in range(20)
        for key in chance.sample(keys, chance.randrange(1, len(keys)))
    ]
    frame = spark.createDataFrame(rows, "example int, side int, part int, key string")
    merge = bloom("key", keys=50, false_positives=0.1).merge(F.col("known")).alias("known")
    parts = made(frame, "key", 50, "example", "side", "part", rate=0.1)
    sides = parts.groupBy("example", "side").agg(merge)
    ways = [
        made(frame, "key", 50, "example", rate=0.1),
        parts.groupBy("example").agg(merge),
        sides.union(sides).groupBy("example").agg(merge),
    ]
    together = ways[0].union(ways[1]).union(ways[2]).distinct().cache()
    assert together.count() == 20  # the three ways gave one filter for each example
    asked = frame.join(together, "example").withColumn("found", might_contain("known", "key"))
    answers = Counter(
        (row["found"], row["null"])
        for row in asked.select("found", F.isnull("key").alias("null")).collect()
    )
    nulls = sum(row[3] is None for row in rows)
    assert answers == {(False, True): nulls, (True, False): len(rows) - nulls}


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
            bloom(name, keys=40, false_positives=0.1).partial(F.lit(None)).alias(f"of_{name}")
            for name in frame.columns
        ]
    )
    present = frame.crossJoin(filters).agg(
        *[found(might_contain(f"of_{name}", name)).alias(name) for name in frame.columns]
    )
    assert set(present.head() or ()) == {1.0}

    others = spark.range(1_000, 5_000).select(
        "id",
        F.col("id").cast("int").alias("int"),
        F.concat(F.lit("u"), "id").alias("text"),
        F.array(F.col("id").cast("int"), F.lit(None)).alias("list"),
    )
    absent = others.crossJoin(filters).agg(
        *[found(might_contain(f"of_{name}", name)) for name in others.columns]
    )
    assert max(absent.head() or (1,)) < 0.1


def test_zero_has_one_sign_and_nan_is_one_number(spark: SparkSession) -> None:
    numbers = spark.createDataFrame([(0.0,), (float("nan"),)], "x double")
    asked = numbers.agg(bloom("x", keys=10).partial(F.lit(None)).alias("known")).select(
        might_contain("known", F.lit(-0.0)),
        might_contain("known", F.lit(float("nan"))),
        might_contain("known", F.lit(1.0)),
    )
    assert tuple(asked.head() or ()) == (True, True, False)


def test_a_key_of_several_columns_is_found_as_a_whole_and_never_with_a_null(
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
    filters = made(frame.where("known or x is null or y is null"), ["x", "y"], 100, rate=1e-6)
    filters = filters.withColumnRenamed("known", "filter")
    asked = frame.crossJoin(filters).select(
        "x", "y", might_contain("filter", ["x", "y"]).alias("known")
    )
    assert_df_equality(asked, frame, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize("key", ["id", "concat('https://example.org/a/long/common/prefix/', id)"])
def test_the_rate_is_the_one_asked_for_and_the_fullness_is_told(
    spark: SparkSession, key: str
) -> None:
    keyed = spark.range(30_000).select("id", F.expr(key).alias("key"))
    filters = made(keyed.where("id < 2000"), "key", 2_000, rate=0.05)
    answer = (
        keyed.crossJoin(filters)
        .groupBy((F.col("id") < 2_000).alias("there"))
        .agg(
            found(might_contain("known", "key")).alias("found"),
            F.any_value(fullness("known")).alias("full"),
        )
    )
    rates = {row["there"]: row for row in answer.collect()}
    assert rates[True]["found"] == 1
    assert rates[False]["found"] == pytest.approx(0.05, rel=0.1)
    full = rates[True]["full"]
    assert full["keys"] == pytest.approx(2_000, rel=0.05)
    assert full["false_positives"] == pytest.approx(rates[False]["found"], rel=0.1)


def test_a_filter_that_has_grown_says_how_far(spark: SparkSession) -> None:
    filters = made(spark.range(2_000), "id", 1_000).union(
        made(spark.range(0), "id", 1_000, "id").select("known")
    )
    full = filters.select(fullness("known").alias("full")).select("full.*").head()
    assert full is not None
    assert full["keys"] == pytest.approx(2_000, rel=0.05)
    assert full["false_positives"] == pytest.approx(0.157, rel=0.1)
    tiny = (
        made(spark.range(5_000), "id", 10)
        .select(fullness("known").alias("full"))
        .select("full.*")
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
    aggs = {"users": bloom("user", keys=100)}

    def minutes(events: DataFrame) -> DataFrame:
        return tumbling(events, "1 minute", aggs=partials(aggs))

    events = spark.createDataFrame(rows, schema)
    day = merged(minutes(events), (), aggs)
    assert_df_equality(
        day, tumbling(events, "1 day", aggs=aggs).select("users"), ignore_nullable=True
    )
    with StreamDriver(spark, schema, minutes, lateness="10 seconds") as stream:
        stream.feed(rows[50:])
        stream.feed(rows[:50])
        stream.advance_to(start + timedelta(hours=1))
        assert_df_equality(merged(stream.results(), (), aggs), day, ignore_nullable=True)


@pytest.mark.slow
def test_filters_that_do_not_fit_are_refused_and_never_answer(spark: SparkSession) -> None:
    frame = spark.range(10).withColumn("text", F.col("id").cast("string"))
    filters = frame.agg(
        bloom("id", keys=100).partial(F.lit(None)).alias("longs"),
        bloom("text", keys=100).partial(F.lit(None)).alias("texts"),
    ).cache()
    as_long = F.lit(1).cast("bigint")
    cases: dict[str, DataFrame] = {
        "key=bigint": filters.select(might_contain("longs", F.lit(1))),
        "key=string": filters.select(might_contain("texts", as_long)),
        "cut off": filters.select(might_contain(F.substring("longs", 1, 20), as_long)),
        "damaged": filters.select(
            might_contain(F.overlay("longs", F.lit(b"\xff\x00\xff"), 70, 3), as_long)
        ),
        "no sketch": filters.select(might_contain(F.lit(b"hello"), as_long)),
        "k=7 bits=138 of=1": filters.agg(bloom("id", keys=90).merge(F.col("longs"))),
        "different types": filters.select("longs")
        .union(filters.select("texts"))
        .agg(bloom("id", keys=100).merge(F.col("longs"))),
        "sketch of `members": filters.select(fullness(F.substring("longs", 1, 99))),
    }
    for reason, asked in cases.items():
        with pytest.raises(Exception, match=r"(?s)allowed: ") as told:
            asked.collect()
        assert reason in str(told.value)
    sound = filters.select(
        is_sound("longs", "members"), is_sound(F.substring("longs", 1, 99), "members")
    ).head()
    assert tuple(sound or ()) == (True, False)


def test_there_is_no_answer_without_a_filter(spark: SparkSession) -> None:
    none = F.lit(None).cast("binary")
    row = spark.range(1).select(might_contain(none, F.lit("a")), fullness(none)).head()
    assert tuple(row or ()) == (None, None)
    assert made(spark.range(0), "id", 10).head()[0] is None  # type: ignore[index]


def test_keys_that_can_not_be_hashed_and_too_many_of_them_are_refused(spark: SparkSession) -> None:
    events = spark.createDataFrame([], "event_time timestamp, tags map<string,string>")
    with pytest.raises(ColumnError, match="MAP"):
        tumbling(events, "1 minute", aggs={"tags": bloom("tags", keys=10)})
    with pytest.raises(ArgumentError, match="BloomTable"):
        bloom("user", keys=1_000_000)
