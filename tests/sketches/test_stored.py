"""Whatever happens to the bytes of a stored sketch: an error or a reason, never a number."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate
from tidegate.errors import ArgumentError
from tidegate.sketches import (
    distinct,
    distinct_bounds,
    distinct_estimate,
    is_sound,
    quantile,
    quantile_bounds,
    reason,
    theta,
    theta_bounds,
    theta_estimate,
    top,
    union,
)
from tidegate.sketches.stored import HEADER_BYTES, LARGEST, sealed, unsealed

AGGS: dict[str, Aggregate] = {
    "distinct precision=8": distinct("id", precision=8),
    "quantile k=20": quantile("id", 0.5, k=20),
    "theta precision=5": theta("id", precision=5),
    "top capacity=10 of=bigint": top("id", 2, capacity=10),
}
KINDS = [label.split(" ")[0] for label in AGGS]


@pytest.fixture(scope="module")
def sound(spark: SparkSession) -> dict[str, bytes]:
    return whole_ones(spark)


def whole_ones(spark: SparkSession) -> dict[str, bytes]:
    """Return a sketch of a hundred values for each label."""
    made = (
        spark.range(100)
        .agg(*[agg.partial(F.lit(None)).alias(label) for label, agg in AGGS.items()])
        .head()
    )
    assert made is not None
    return {
        label: bytes(made[label].sketch if label.startswith("top") else made[label])
        for label in AGGS
    }


def damaged(whole: bytes, others: list[bytes], chance: random.Random) -> list[bytes]:
    """Return bytes that are no longer the sketch: flipped, cut, longer, foreign, mixed."""
    flips = [_flipped(whole, at, chance.randrange(8)) for at in range(HEADER_BYTES)]
    flips += [
        _flipped(whole, chance.randrange(HEADER_BYTES, len(whole)), chance.randrange(8))
        for _ in range(60)
    ]
    cuts = [
        whole[:length] for length in [*range(HEADER_BYTES + 20), len(whole) - 8, len(whole) - 1]
    ]
    longer = [whole + b"\0", whole + whole, b"\0" + whole]
    foreign = [
        b"",
        b"hello",
        bytes(len(whole)),
        chance.randbytes(len(whole)),
        whole[HEADER_BYTES:],
        whole.hex().encode(),
    ]
    mixed = [whole[:HEADER_BYTES] + other[HEADER_BYTES:] for other in others]
    shuffled = bytes(chance.sample(whole[HEADER_BYTES:], len(whole) - HEADER_BYTES))
    return [*flips, *cuts, *longer, *foreign, *mixed, whole[:HEADER_BYTES] + shuffled]


def _flipped(whole: bytes, at: int, bit: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]


def answers(label: str, stored: Column) -> list[Column]:
    """Return everything that can be asked of a stored sketch."""
    if label.startswith("top"):
        stored_struct = F.struct(stored.alias("sketch"), F.lit(None).cast("bigint").alias("of"))
        return [AGGS[label].finish(stored_struct)]
    more = {
        "distinct": [distinct_estimate(stored), distinct_bounds(stored)],
        "quantile": [quantile_bounds(stored, 0.5, k=20)],
        "theta": [theta_estimate(stored), theta_bounds(stored), union(stored, stored, precision=5)],
    }
    return [AGGS[label].finish(stored), *more[label.split(" ")[0]]]


def one(spark: SparkSession, stored: bytes | None) -> DataFrame:
    return spark.createDataFrame([(stored,)], "stored binary")


def damaged_read(
    spark: SparkSession, sound: dict[str, bytes], wanted: str, seed: int, times: int
) -> Counter[str]:
    """Draw damaged sketches and read them; return how many were good and dead."""
    chance = random.Random(seed)
    bad = {}
    for label, whole in sound.items():
        others = [other for other in sound.values() if other != whole]
        drawn = [damaged(whole, others, chance) for _ in range(times)]
        bad[label] = [*(each for some in drawn for each in some), *others]
    frames = []
    for label, whole in sound.items():
        asked = label if wanted == "whole label" else label.split(" ")[0]
        rows = [(False, stored) for stored in bad[label]] + [(True, whole), (True, None)]
        frame = spark.createDataFrame(rows, "expected boolean, stored binary")
        frames.append(
            frame.withColumns(
                {"reason": reason("stored", asked), "sound": is_sound("stored", asked)}
            )
        )
        for stored in bad[label]:
            with pytest.raises(ArgumentError, match="cannot be used"):
                unsealed(stored, asked)
        assert unsealed(whole, asked)[1] == whole[HEADER_BYTES:]
    found = frames[0].unionByName(frames[1]).unionByName(frames[2]).unionByName(frames[3]).collect()
    assert len(found) > 600
    assert [
        row for row in found if row.sound != row.expected or (row.reason is None) != row.expected
    ] == []
    return Counter("good" if row.sound else "dead" for row in found)


@pytest.mark.parametrize("wanted", ["whole label", "kind alone"])
@pytest.mark.draws("times", short=[1], long=[80])
def test_damaged_and_foreign_bytes_have_a_reason_and_sound_ones_none(
    spark: SparkSession, sound: dict[str, bytes], wanted: str, times: int
) -> None:
    damaged_read(spark, sound, wanted, 5, times)


def test_the_reason_says_what_is_wrong(spark: SparkSession, sound: dict[str, bytes]) -> None:
    whole = sound["distinct precision=8"]
    cases = {
        b"hello": "no sketch: it does not begin with TGS",
        b"TGS\x02" + whole[4:]: "of format version x02, not x01",
        whole[:40]: "cut off after 40 bytes",
        whole[:-1]: "damaged: its check sum does not fit its bytes",
        sound["theta precision=5"]: "a sketch of `theta precision=5`",
    }
    frame = spark.createDataFrame(list(cases.items()), "stored binary, text string")
    for row in frame.withColumn("found", reason("stored", "distinct precision=8")).collect():
        assert row.found == row.text
    other = one(spark, whole).select(
        reason("stored", "distinct precision=88"), reason("stored", "distinct precision=8")
    )
    assert other.head()[:] == ("a sketch of `distinct precision=8`", None)  # type: ignore[index]


@pytest.mark.parametrize("label", AGGS)
@pytest.mark.slow
def test_every_question_to_bytes_that_are_not_sound_is_an_error(
    spark: SparkSession, sound: dict[str, bytes], label: str
) -> None:
    whole, questions = sound[label], answers(label, F.col("stored"))
    other = next(stored for name, stored in sound.items() if name != label)
    bad = [_flipped(whole, len(whole) - 1, 0), whole[:-3], whole[HEADER_BYTES:], other]
    asked = [(questions[0], stored) for stored in bad] + [
        (question, bad[0]) for question in questions[1:]
    ]
    for question, stored in asked:
        with pytest.raises(
            Exception,
            match=r"USER_RAISED_EXCEPTION(.|\n)*cannot be used(.|\n)*allowed(.|\n)*instead",
        ):
            one(spark, stored).select(question).collect()
    both = (
        one(spark, None).unionByName(one(spark, whole)).select(F.col("stored").isNull(), *questions)
    )
    for no_sketch, *found in both.collect():
        assert all((answer is None) == no_sketch for answer in found)


@pytest.mark.parametrize("label", AGGS)
@pytest.mark.slow
def test_a_merge_takes_no_bytes_that_are_not_sound_and_leaves_out_nulls(
    spark: SparkSession, sound: dict[str, bytes], label: str
) -> None:
    agg, whole = AGGS[label], sound[label]

    def merged(*stored: bytes | None) -> DataFrame:
        rows = spark.createDataFrame([(one,) for one in stored], "partial binary")
        if label.startswith("top"):
            given = F.struct(
                F.col("partial").alias("sketch"), F.lit(None).cast("bigint").alias("of")
            )
            rows = rows.select(F.when(F.col("partial").isNotNull(), given).alias("partial"))
        return (
            rows.groupBy(F.lit(1).alias("all"))
            .agg(agg.merge(F.col("partial")).alias("m"))
            .select(agg.finish(F.col("m")))
        )

    assert merged(None, None).head()[0] is None  # type: ignore[index]
    assert merged(None, whole, None).head() == merged(whole).head()
    for bad in (
        _flipped(whole, len(whole) - 2, 3),
        next(v for k, v in sound.items() if k != label),
    ):
        with pytest.raises(Exception, match="cannot be used"):
            merged(whole, bad).collect()


def test_sketches_of_other_parameters_do_not_merge(spark: SparkSession) -> None:
    others: list[tuple[Aggregate, Aggregate, str]] = [
        (distinct("id", precision=8), distinct("id", precision=9), "`distinct precision=9`"),
        (quantile("id", 0.5, k=20), quantile("id", 0.5, k=21), "`quantile k=21`"),
        (theta("id", precision=5), theta("id", precision=6), "`theta precision=6`"),
        (top("id", 1, capacity=10), top("id", 1, capacity=11), "`top capacity=11 of=bigint`"),
    ]
    for made, asked, text in others:
        partial = spark.range(3).agg(made.partial(F.lit(None)).alias("p"))
        with pytest.raises(Exception, match=rf"allowed: a whole sketch of {re.escape(text)}"):
            partial.agg(asked.merge(F.col("p")).alias("p")).collect()


def test_a_sketch_too_large_to_be_read_again_is_not_written(spark: SparkSession) -> None:
    def made(size: int) -> DataFrame:
        return spark.range(1).select(
            sealed(F.repeat(F.lit("x"), size).cast("binary"), "text").alias("stored")
        )

    most = (
        made(LARGEST - HEADER_BYTES)
        .select(is_sound("stored", "text"), F.octet_length("stored"))
        .head()
    )
    assert most is not None
    assert most[:] == (True, LARGEST)
    with pytest.raises(Exception, match="A sketch has"):
        made(LARGEST - HEADER_BYTES + 1).collect()


def test_plain_sql_reads_past_the_envelope_what_the_library_reads(spark: SparkSession) -> None:
    aggs = {"users": distinct("id"), "some": theta("id"), "ms": quantile("id", 0.5)}
    parts = spark.range(2_000).groupBy((F.col("id") % 3).alias("part"))
    stored = parts.agg(*[agg.partial(F.lit(None)).alias(name) for name, agg in aggs.items()])
    stored.persist().createOrReplaceTempView("stored_sketches")
    merged = stored.agg(*[agg.merge(F.col(name)).alias(name) for name, agg in aggs.items()])
    ours = merged.select(
        distinct_estimate("users"), theta_estimate("some"), F.octet_length("ms") > HEADER_BYTES
    )
    theirs = spark.sql("""
        SELECT hll_sketch_estimate(hll_union_agg(substr(users, 65))),
               theta_sketch_estimate(theta_union_agg(substr(some, 65))),
               kll_sketch_get_quantile_double(kll_merge_agg_double(substr(ms, 65)), 0.5D)
                   BETWEEN 900 AND 1100
        FROM stored_sketches
    """)
    assert HEADER_BYTES == 64
    assert [tuple(row) for row in theirs.collect()] == [tuple(row) for row in ours.collect()]
    stored.unpersist()
