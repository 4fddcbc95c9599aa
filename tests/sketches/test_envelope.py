"""Damaged or foreign bytes instead of a stored sketch raise an error and never give a result."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from functools import reduce

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate
from tidegate.errors import ArgumentError
from tidegate.sketches import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    hll_bounds,
    hll_estimate,
    is_valid_sketch,
    quantile_bounds,
    sketch_fault,
    theta_bounds,
    theta_estimate,
    theta_sketch,
    theta_union,
)
from tidegate.sketches._envelope import HEADER_BYTES, MAX_BYTES, decode_sketch_bytes, encode_sketch

AGGS: dict[str, Aggregate] = {
    "distinct precision=8": approx_count_distinct("id", precision=8),
    "quantile k=20": approx_quantile("id", 0.5, k=20),
    "theta precision=5": theta_sketch("id", precision=5),
    "top capacity=10 of=bigint": approx_top_k("id", 2, capacity=10),
}
KINDS = [label.split(" ")[0] for label in AGGS]


@pytest.fixture(scope="module")
def valid_sketches(spark: SparkSession) -> dict[str, bytes]:
    return build_sketches(spark)


def build_sketches(spark: SparkSession) -> dict[str, bytes]:
    """Return a sketch of a hundred values for each label."""
    partials = (
        spark.range(100)
        .agg(*[agg.partial(F.lit(None)).alias(label) for label, agg in AGGS.items()])
        .head()
    )
    assert partials is not None
    return {
        label: bytes(partials[label].sketch if label.startswith("top") else partials[label])
        for label in AGGS
    }


def damage(valid: bytes, others: list[bytes], rng: random.Random) -> list[bytes]:
    """Return invalid variants of a sketch: flipped bits, truncated, extended, foreign, mixed."""
    flips = [_flip_bit(valid, at, rng.randrange(8)) for at in range(HEADER_BYTES)]
    flips += [
        _flip_bit(valid, rng.randrange(HEADER_BYTES, len(valid)), rng.randrange(8))
        for _ in range(60)
    ]
    cuts = [
        valid[:length] for length in [*range(HEADER_BYTES + 20), len(valid) - 8, len(valid) - 1]
    ]
    longer = [valid + b"\0", valid + valid, b"\0" + valid]
    foreign = [
        b"",
        b"hello",
        bytes(len(valid)),
        rng.randbytes(len(valid)),
        valid[HEADER_BYTES:],
        valid.hex().encode(),
    ]
    mixed = [valid[:HEADER_BYTES] + other[HEADER_BYTES:] for other in others]
    shuffled = bytes(rng.sample(valid[HEADER_BYTES:], len(valid) - HEADER_BYTES))
    return [*flips, *cuts, *longer, *foreign, *mixed, valid[:HEADER_BYTES] + shuffled]


def _flip_bit(valid: bytes, at: int, bit: int) -> bytes:
    return valid[:at] + bytes([valid[at] ^ (1 << bit)]) + valid[at + 1 :]


def results_of(label: str, stored: Column) -> list[Column]:
    """Return the results of all functions that read a stored sketch."""
    if label.startswith("top"):
        stored_struct = F.struct(stored.alias("sketch"), F.lit(None).cast("bigint").alias("of"))
        return [AGGS[label].finish(stored_struct)]
    other_results = {
        "distinct": [hll_estimate(stored), hll_bounds(stored)],
        "quantile": [quantile_bounds(stored, 0.5, k=20)],
        "theta": [
            theta_estimate(stored),
            theta_bounds(stored),
            theta_union(stored, stored, precision=5),
        ],
    }
    return [AGGS[label].finish(stored), *other_results[label.split(" ")[0]]]


def row_of(spark: SparkSession, stored: bytes | None) -> DataFrame:
    return spark.createDataFrame([(stored,)], "stored binary")


def read_damaged_sketches(
    spark: SparkSession, valid_sketches: dict[str, bytes], expected: str, seed: int, times: int
) -> Counter[str]:
    """Read random damaged sketches; return the number of valid and invalid ones."""
    rng = random.Random(seed)
    bad = {}
    for label, valid in valid_sketches.items():
        others = [other for other in valid_sketches.values() if other != valid]
        drawn = [damage(valid, others, rng) for _ in range(times)]
        bad[label] = [*(each for some in drawn for each in some), *others]
    frames = []
    for label, valid in valid_sketches.items():
        expected_label = label if expected == "complete label" else label.split(" ")[0]
        rows = [(False, stored) for stored in bad[label]] + [(True, valid), (True, None)]
        frame = spark.createDataFrame(rows, "expected boolean, stored binary")
        frames.append(
            frame.withColumns(
                {
                    "fault": sketch_fault("stored", expected_label),
                    "valid": is_valid_sketch("stored", expected_label),
                }
            )
        )
        for stored in bad[label]:
            with pytest.raises(ArgumentError, match="invalid sketch"):
                decode_sketch_bytes(stored, expected_label)
        assert decode_sketch_bytes(valid, expected_label)[1] == valid[HEADER_BYTES:]
    rows_read = reduce(DataFrame.unionByName, frames).collect()
    assert len(rows_read) > 600
    assert [
        row for row in rows_read if row.valid != row.expected or (row.fault is None) != row.expected
    ] == []
    return Counter("good" if row.valid else "dead" for row in rows_read)


@pytest.mark.parametrize("expected", ["complete label", "kind"])
@pytest.mark.draws("times", short=[1], long=[80])
def test_damaged_and_foreign_bytes_have_a_fault_and_valid_sketches_have_none(
    spark: SparkSession, valid_sketches: dict[str, bytes], expected: str, times: int
) -> None:
    read_damaged_sketches(spark, valid_sketches, expected, 5, times)


def test_sketch_fault_describes_the_fault(
    spark: SparkSession, valid_sketches: dict[str, bytes]
) -> None:
    valid = valid_sketches["distinct precision=8"]
    cases = {
        b"hello": "not a sketch: does not start with TGS",
        b"TGS\x02" + valid[4:]: "format version x02 instead of x01",
        valid[:40]: "truncated after 40 bytes",
        valid[:-1]: "damaged: checksum mismatch",
        valid_sketches["theta precision=5"]: "label is `theta precision=5`",
    }
    frame = spark.createDataFrame(list(cases.items()), "stored binary, text string")
    for row in frame.withColumn("fault", sketch_fault("stored", "distinct precision=8")).collect():
        assert row.fault == row.text
    other = row_of(spark, valid).select(
        sketch_fault("stored", "distinct precision=88"),
        sketch_fault("stored", "distinct precision=8"),
    )
    assert other.head()[:] == ("label is `distinct precision=8`", None)  # type: ignore[index]


@pytest.mark.parametrize("label", AGGS)
@pytest.mark.slow
def test_every_function_that_reads_an_invalid_sketch_raises_an_error(
    spark: SparkSession, valid_sketches: dict[str, bytes], label: str
) -> None:
    valid, results = valid_sketches[label], results_of(label, F.col("stored"))
    other = next(stored for name, stored in valid_sketches.items() if name != label)
    bad = [_flip_bit(valid, len(valid) - 1, 0), valid[:-3], valid[HEADER_BYTES:], other]
    reads = [(results[0], stored) for stored in bad] + [(result, bad[0]) for result in results[1:]]
    for result, stored in reads:
        with pytest.raises(
            Exception,
            match=r"USER_RAISED_EXCEPTION(.|\n)*invalid sketch(.|\n)*cause(.|\n)*fix",
        ):
            row_of(spark, stored).select(result).collect()
    null_and_valid = (
        row_of(spark, None)
        .unionByName(row_of(spark, valid))
        .select(F.col("stored").isNull(), *results)
    )
    for is_null, *values in null_and_valid.collect():
        assert all((value is None) == is_null for value in values)


@pytest.mark.parametrize("label", AGGS)
@pytest.mark.slow
def test_a_merge_rejects_invalid_sketches_and_ignores_nulls(
    spark: SparkSession, valid_sketches: dict[str, bytes], label: str
) -> None:
    agg, valid = AGGS[label], valid_sketches[label]

    def merge(*stored: bytes | None) -> DataFrame:
        rows = spark.createDataFrame([(each,) for each in stored], "partial binary")
        if label.startswith("top"):
            partial = F.struct(
                F.col("partial").alias("sketch"), F.lit(None).cast("bigint").alias("of")
            )
            rows = rows.select(F.when(F.col("partial").isNotNull(), partial).alias("partial"))
        return (
            rows.groupBy(F.lit(1).alias("all"))
            .agg(agg.merge(F.col("partial")).alias("m"))
            .select(agg.finish(F.col("m")))
        )

    assert merge(None, None).head()[0] is None  # type: ignore[index]
    assert merge(None, valid, None).head() == merge(valid).head()
    for bad in (
        _flip_bit(valid, len(valid) - 2, 3),
        next(v for k, v in valid_sketches.items() if k != label),
    ):
        with pytest.raises(Exception, match="invalid sketch"):
            merge(valid, bad).collect()


def test_sketches_of_other_parameters_do_not_merge(spark: SparkSession) -> None:
    others: list[tuple[Aggregate, Aggregate, str]] = [
        (
            approx_count_distinct("id", precision=8),
            approx_count_distinct("id", precision=9),
            "`distinct precision=9`",
        ),
        (approx_quantile("id", 0.5, k=20), approx_quantile("id", 0.5, k=21), "`quantile k=21`"),
        (theta_sketch("id", precision=5), theta_sketch("id", precision=6), "`theta precision=6`"),
        (
            approx_top_k("id", 1, capacity=10),
            approx_top_k("id", 1, capacity=11),
            "`top capacity=11 of=bigint`",
        ),
    ]
    for agg, other_agg, label in others:
        partial = spark.range(3).agg(agg.partial(F.lit(None)).alias("p"))
        with pytest.raises(Exception, match=rf"not an intact sketch of {re.escape(label)}"):
            partial.agg(other_agg.merge(F.col("p")).alias("p")).collect()


def test_a_sketch_that_is_too_large_is_not_written(spark: SparkSession) -> None:
    def sketch_of(size: int) -> DataFrame:
        return spark.range(1).select(
            encode_sketch(F.repeat(F.lit("x"), size).cast("binary"), "text").alias("stored")
        )

    largest = (
        sketch_of(MAX_BYTES - HEADER_BYTES)
        .select(is_valid_sketch("stored", "text"), F.octet_length("stored"))
        .head()
    )
    assert largest is not None
    assert largest[:] == (True, MAX_BYTES)
    with pytest.raises(Exception, match="sketch too large"):
        sketch_of(MAX_BYTES - HEADER_BYTES + 1).collect()


SQL_MERGES: dict[str, tuple[Callable[[], Aggregate], Callable[[str], Column], str]] = {
    "users": (
        lambda: approx_count_distinct("id"),
        hll_estimate,
        "hll_sketch_estimate(hll_union_agg(substr(stored, 65)))",
    ),
    "theta": (
        lambda: theta_sketch("id"),
        theta_estimate,
        "theta_sketch_estimate(theta_union_agg(substr(stored, 65)))",
    ),
    "quantiles": (
        lambda: approx_quantile("id", 0.5),
        lambda ms: F.octet_length(ms) > HEADER_BYTES,
        """kll_sketch_get_quantile_double(kll_merge_agg_double(substr(stored, 65)), 0.5D)
           BETWEEN 900 AND 1100""",
    ),
}


@pytest.mark.parametrize(
    "name", ["users", "theta", pytest.param("quantiles", marks=pytest.mark.spark("4.2"))]
)
def test_plain_sql_reads_the_same_results_after_the_envelope(
    name: str, spark: SparkSession
) -> None:
    aggregate, read, sql = SQL_MERGES[name]
    agg = aggregate()
    parts = spark.range(2_000).groupBy((F.col("id") % 3).alias("part"))
    stored = parts.agg(agg.partial(F.lit(None)).alias("stored"))
    stored.persist().createOrReplaceTempView("stored_sketches")
    result = stored.agg(agg.merge(F.col("stored")).alias("merged")).select(read("merged"))
    sql_result = spark.sql(f"SELECT {sql} FROM stored_sketches")
    assert HEADER_BYTES == 64
    assert [tuple(row) for row in sql_result.collect()] == [tuple(row) for row in result.collect()]
    stored.unpersist()
