"""Spark and datasketch compute the same HyperLogLog registers."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnTypeError, SetupError
from tidegate.sketches import approx_count_distinct, hll_estimate, to_datasketch_hll
from tidegate.sketches.hashing import IntegerWidth, sketch_hash, spark_hash

PRECISIONS = (4, 8, 10, 12, 14, 16)
SIZES = (0, 1, 7, 8, 10, 100, 3_000, 10_000)


def test_the_python_hash_equals_the_hash_of_spark(spark: SparkSession) -> None:
    texts = ["", *["x" * n for n in range(1, 70)], "tide", "ünïcödé 🌊"]
    longs = [0, 1, -1, 7, 2**62, -(2**63), 2**63 - 1]
    ints = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
    doubles = [0.0, -0.0, 1.5, -1e300, math.inf, -math.inf, math.nan]
    of_long: IntegerWidth = "bigint"
    of_int: IntegerWidth = "int"
    for values, kind, integers in (
        (texts, "string", of_long),
        ([text.encode() for text in texts], "binary", of_long),
        (longs, "bigint", of_long),
        (ints, "int", of_int),
        (doubles, "double", of_long),
        ([True, False], "boolean", of_long),
    ):
        hashes = (
            spark.createDataFrame([(value,) for value in values], f"v {kind}")
            .select(F.xxhash64("v"))
            .collect()
        )
        assert [row[0] % 2**64 for row in hashes] == [
            spark_hash(v, integers=integers) for v in values
        ], kind


def test_the_hashes_of_stored_sketches_do_not_change() -> None:
    assert spark_hash("tide") == 0xD7B2E1BFC88FE626
    assert sketch_hash(0) == (0x40890191DCC2D7CB, 0x9A7ACDBE1B80EFB2)
    assert sketch_hash(0x0123456789ABCDEF) == (0x2F997EA4C0E88D72, 0xDBE3E3F7EF6FECF9)


@pytest.fixture(scope="module")
def sketches(spark: SparkSession) -> dict[tuple[int, int], bytes]:
    """Return the sketch of the numbers below each size, as text, by precision and size."""
    ids = spark.range(max(SIZES)).select(F.col("id"), F.col("id").cast("string").alias("text"))
    aggs = {
        (precision, size): approx_count_distinct(
            F.when(F.col("id") < size, F.col("text")), precision=precision
        )
        for precision in PRECISIONS
        for size in SIZES
    }
    row = ids.agg(
        *[agg.partial(F.lit(None)).alias(f"{p}:{size}") for (p, size), agg in aggs.items()]
    ).head()
    assert row is not None
    return {(p, size): bytes(row[f"{p}:{size}"]) for p, size in aggs}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_python_fills_the_same_registers(
    sketches: dict[tuple[int, int], bytes], precision: int
) -> None:
    for size in SIZES[:-1]:
        by_spark, by_python = (
            to_datasketch_hll(sketches[precision, size]),
            to_datasketch_hll(sketches[precision, 0]),
        )
        assert by_python.is_empty()
        for value in range(size):
            by_python.update(str(value))
        assert by_spark == by_python
        assert by_spark.p == precision


@pytest.mark.parametrize("precision", PRECISIONS)
def test_python_adds_values_to_a_sketch_of_spark_and_merges_sketches(
    sketches: dict[tuple[int, int], bytes], precision: int
) -> None:
    large = to_datasketch_hll(sketches[precision, 10_000])
    grown, merged = (
        to_datasketch_hll(sketches[precision, 3_000]),
        to_datasketch_hll(sketches[precision, 100]),
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
        approx_count_distinct("id", precision=14).partial(F.lit(None)).alias("ids")
    )
    row = stored.select("ids", hll_estimate("ids").alias("n")).head()
    assert row is not None
    sketch = to_datasketch_hll(bytes(row.ids))
    before = sketch.digest()
    for value in range(0, 1_000_000, 997):
        sketch.update(value)
    assert np.array_equal(sketch.digest(), before)
    # A single sample; test_accuracy measures the error.
    error = 4 * 1.039 / math.sqrt(2**14)
    assert abs(sketch.count() / 1_000_000 - 1) < error
    assert abs(row.n / 1_000_000 - 1) < error


def test_integers_hash_as_the_type_of_their_column(spark: SparkSession) -> None:
    kinds: list[IntegerWidth] = ["bigint", "int"]
    for kind in kinds:
        values = (
            spark.range(50)
            .select(F.col("id").cast(kind).alias("v"))
            .agg(approx_count_distinct("v").partial(F.lit(None)))
        )
        row = values.head()
        assert row is not None
        for integers in kinds:
            sketch = to_datasketch_hll(bytes(row[0]), integers=integers)
            before = sketch.digest()
            sketch.update(31)
            assert np.array_equal(sketch.digest(), before) == (integers == kind)


def test_unsupported_sketches_and_values_are_rejected(
    spark: SparkSession, sketches: dict[tuple[int, int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = spark.range(3).agg(approx_count_distinct("id", precision=17).partial(F.lit(None))).head()
    assert row is not None
    with pytest.raises(
        ArgumentError, match=r"invalid precision of the sketch: 17(.|\n)*at most 16"
    ):
        to_datasketch_hll(bytes(row[0]))
    with pytest.raises(ArgumentError, match="damaged"):
        to_datasketch_hll(sketches[8, 10][:-1])
    with pytest.raises(ColumnTypeError, match="NoneType"):
        to_datasketch_hll(sketches[8, 10]).update(None)

    original_import = builtins.__import__

    def import_without_datasketch(name: str, *args: Any, **options: Any) -> Any:
        if name == "datasketch":
            raise ImportError(name)
        return original_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", import_without_datasketch)
    with pytest.raises(SetupError, match="pip install datasketch"):
        to_datasketch_hll(sketches[8, 10])
