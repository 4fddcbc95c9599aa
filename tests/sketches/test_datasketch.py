"""Spark and datasketch: the same registers, whoever saw the values."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnTypeError, SetupError
from tidegate.sketches import distinct, distinct_estimate, to_datasketch
from tidegate.sketches.hashing import Integers, spark_hash, xxhash64

PRECISIONS = (4, 8, 10, 12, 14, 16)
SIZES = (0, 1, 7, 8, 10, 100, 3_000, 10_000)


def test_the_plain_hash_is_spark_s(spark: SparkSession) -> None:
    texts = ["", *["x" * n for n in range(1, 70)], "tide", "ünïcödé 🌊"]
    longs = [0, 1, -1, 7, 2**62, -(2**63), 2**63 - 1]
    ints = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
    doubles = [0.0, -0.0, 1.5, -1e300, math.inf, -math.inf, math.nan]
    of_long: Integers = "bigint"
    of_int: Integers = "int"
    for values, kind, integers in (
        (texts, "string", of_long),
        ([text.encode() for text in texts], "binary", of_long),
        (longs, "bigint", of_long),
        (ints, "int", of_int),
        (doubles, "double", of_long),
        ([True, False], "boolean", of_long),
    ):
        found = (
            spark.createDataFrame([(value,) for value in values], f"v {kind}")
            .select(F.xxhash64("v"))
            .collect()
        )
        assert [row[0] % 2**64 for row in found] == [
            spark_hash(v, integers=integers) for v in values
        ], kind
    assert xxhash64(b"", 0) == 0xEF46DB3751D8E999  # as published with XXH64


@pytest.fixture(scope="module")
def sketches(spark: SparkSession) -> dict[tuple[int, int], bytes]:
    """Return the sketch of the numbers below each size, as text, by precision and size."""
    ids = spark.range(max(SIZES)).select(F.col("id"), F.col("id").cast("string").alias("text"))
    made = {
        (precision, size): distinct(F.when(F.col("id") < size, F.col("text")), precision=precision)
        for precision in PRECISIONS
        for size in SIZES
    }
    row = ids.agg(
        *[agg.partial(F.lit(None)).alias(f"{p}:{size}") for (p, size), agg in made.items()]
    ).head()
    assert row is not None
    return {(p, size): bytes(row[f"{p}:{size}"]) for p, size in made}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_python_alone_fills_the_same_registers(
    sketches: dict[tuple[int, int], bytes], precision: int
) -> None:
    for size in SIZES[:-1]:
        found, alone = (
            to_datasketch(sketches[precision, size]),
            to_datasketch(sketches[precision, 0]),
        )
        assert alone.is_empty()
        for value in range(size):
            alone.update(str(value))
        assert found == alone
        assert found.p == precision


@pytest.mark.parametrize("precision", PRECISIONS)
def test_python_goes_on_where_spark_left_off_and_merges_as_spark_does(
    sketches: dict[tuple[int, int], bytes], precision: int
) -> None:
    large = to_datasketch(sketches[precision, 10_000])
    grown, merged = (
        to_datasketch(sketches[precision, 3_000]),
        to_datasketch(sketches[precision, 100]),
    )
    for value in range(3_000, 10_000):
        grown.update(str(value))
    assert grown == large
    merged.merge(large)
    assert merged == large
    before = large.digest()
    large.update("5000")
    assert np.array_equal(large.digest(), before)


def test_a_million_values_and_their_count(spark: SparkSession) -> None:
    stored = spark.range(1_000_000).agg(
        distinct("id", precision=14).partial(F.lit(None)).alias("ids")
    )
    row = stored.select("ids", distinct_estimate("ids").alias("n")).head()
    assert row is not None
    found = to_datasketch(bytes(row.ids))
    before = found.digest()
    for value in range(0, 1_000_000, 997):
        found.update(value)
    assert np.array_equal(found.digest(), before)
    # One draw alone; test_accuracy measures the error.
    error = 4 * 1.039 / math.sqrt(2**14)
    assert abs(found.count() / 1_000_000 - 1) < error
    assert abs(row.n / 1_000_000 - 1) < error


def test_whole_numbers_count_as_the_column_had_them(spark: SparkSession) -> None:
    kinds: list[Integers] = ["bigint", "int"]
    for kind in kinds:
        values = (
            spark.range(50)
            .select(F.col("id").cast(kind).alias("v"))
            .agg(distinct("v").partial(F.lit(None)))
        )
        row = values.head()
        assert row is not None
        for asked in kinds:
            found = to_datasketch(bytes(row[0]), integers=asked)
            before = found.digest()
            found.update(31)
            assert np.array_equal(found.digest(), before) == (asked == kind)


def test_what_can_not_be_turned_is_refused(
    spark: SparkSession, sketches: dict[tuple[int, int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = spark.range(3).agg(distinct("id", precision=17).partial(F.lit(None))).head()
    assert row is not None
    with pytest.raises(ArgumentError, match=r"precision 17(.|\n)*at most 16"):
        to_datasketch(bytes(row[0]))
    with pytest.raises(ArgumentError, match="damaged"):
        to_datasketch(sketches[8, 10][:-1])
    with pytest.raises(ColumnTypeError, match="NoneType"):
        to_datasketch(sketches[8, 10]).update(None)

    known = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name == "datasketch":
            raise ImportError(name)
        return known(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetupError, match="pip install datasketch"):
        to_datasketch(sketches[8, 10])
