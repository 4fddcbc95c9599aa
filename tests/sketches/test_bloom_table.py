"""Bloom filters of several blocks, stored in a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from chispa import assert_df_equality
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.sink_batches import batch
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.sinks import Upsert
from tidegate.sketches import BloomTable
from tidegate.testing import StreamDriver

PREFIX = "concat('https://example.org/a/long/common/prefix/', id)"
PAIR = "struct(id % 100 as a, cast(id div 100 as string) as b)"
# A block stores 22,700 keys at this rate, so this table has four.
FOUR = BloomTable(key=["number", "text"], expected_items=90_000, fpp=0.5)
PAIRS = st.tuples(
    st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.text(max_size=3))
)


def numbered(spark: SparkSession, stop: int, key: str = "id") -> DataFrame:
    return spark.range(stop).select("id", F.expr(key).alias("key"))


@pytest.mark.parametrize("key", ["id", PREFIX, PAIR], ids=["sequential", "prefix", "pair"])
@pytest.mark.slow
def test_the_rate_with_ten_thousand_keys_is_the_requested_one(
    spark: SparkSession, key: str
) -> None:
    known = BloomTable(key="key", expected_items=10_000)
    blocks = known.blocks(numbered(spark, 10_000, key)).cache()
    probed = known.might_contain_rows(numbered(spark, 300_000, key), blocks)
    new = F.col("id") >= 10_000
    row = probed.agg(
        F.count_if("known").alias("found"), F.count_if(F.col("known") & new).alias("wrong")
    ).head()
    assert row is not None
    assert row["found"] - row["wrong"] == 10_000
    assert row["wrong"] / 290_000 == pytest.approx(0.01, rel=0.1)
    report = known.stats(blocks).head()
    assert report is not None
    assert report["false_positives"] == pytest.approx(0.01, rel=0.05)
    assert report["keys"] == pytest.approx(10_000, rel=0.02)
    assert (report["planned"], report["allowed"]) == (10_000, 0.01)


@pytest.mark.slow
def test_the_rate_of_several_blocks_grows_with_the_keys(spark: SparkSession) -> None:
    known = BloomTable(key="key", expected_items=100_000)
    assert known.size.blocks == 30
    planned, grown = (known.blocks(numbered(spark, count, PREFIX)) for count in (100_000, 200_000))
    rates = []
    for blocks in (planned.cache(), grown.cache()):
        probed = known.might_contain_rows(
            numbered(spark, 400_000, PREFIX).where("id >= 200000"), blocks
        )
        rates.append(probed.agg(F.avg(F.col("known").cast("double"))).head()[0])  # type: ignore[index]
    assert rates[0] == pytest.approx(0.01, rel=0.1)
    assert rates[1] == pytest.approx(known.size.false_positive_rate(200_000), rel=0.1)
    report = known.stats(grown).head()
    assert report is not None
    assert report["keys"] == pytest.approx(200_000, rel=0.02)
    assert report["false_positives"] == pytest.approx(rates[1], rel=0.05)


@pytest.mark.draws
@few()
@given(sides=st.lists(st.lists(PAIRS, max_size=30), min_size=2, max_size=3))
@pytest.mark.slow
def test_every_key_is_found_and_merged_tables_equal_the_table_of_all_rows(
    spark: SparkSession, sides: list[list[tuple[int | None, str | None]]]
) -> None:
    rows = [(number, *pair) for number, pairs in enumerate(sides) for pair in pairs]
    frame = spark.createDataFrame(rows, "side int, number int, text string")
    table = FOUR.blocks(frame).cache()
    merged = FOUR.merge(*[FOUR.blocks(frame.where(F.col("side") == n)) for n in range(len(sides))])
    assert Counter(table.collect()) == Counter(merged.collect())
    probed = FOUR.might_contain_rows(frame, table).collect()
    assert Counter(row[:3] for row in probed) == Counter(rows)
    assert all(row.known == (row.number is not None and row.text is not None) for row in probed)


@pytest.mark.slow
def test_a_stored_table_adds_each_batch_once_and_serves_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    known, path = BloomTable(key="text", expected_items=1_000), str(tmp_path / "seen")
    sink = Upsert(path=path, keys=["block"], aggs=known.aggs)
    parts = [
        spark.createDataFrame([(text,) for text in texts], "text string")
        for texts in (["a", "b"], ["c", None])
    ]
    for number, part in enumerate(parts):
        assert sink.write({"rows": known.blocks(part)}, batch(number)) == "written"
        assert sink.write({"rows": known.blocks(part)}, batch(number)) == "skipped"
    table = spark.read.format("delta").load(path)
    assert_df_equality(table, known.blocks(parts[0].union(parts[1])), ignore_nullable=True)
    with StreamDriver(
        spark,
        "text string",
        lambda rows: known.might_contain_rows(rows, table),
        watermark_delay=None,
    ) as stream:
        assert sorted(stream.feed([("a",), ("d",), ("c",), ("a",)])) == [
            ("a", True),
            ("a", True),
            ("c", True),
            ("d", False),
        ]
        assert [row.known for row in stream.feed([(None,)])] == [False]


def test_an_empty_table_contains_no_key_and_its_stats_are_zero(spark: SparkSession) -> None:
    known = BloomTable(key="key", expected_items=50_000)
    blocks = known.blocks(numbered(spark, 0))
    row = (
        known.might_contain_rows(numbered(spark, 5), blocks)
        .agg(F.max("known"), F.count("*"))
        .head()
    )
    assert tuple(row or ()) == (False, 5)
    report = known.stats(blocks).head()
    assert report is not None
    assert (report["keys"], report["fill"], report["false_positives"]) == (0, 0, 0)


@pytest.mark.slow
def test_a_table_of_another_size_or_type_raises_an_error(spark: SparkSession) -> None:
    known, rows = BloomTable(key="key", expected_items=1_000), numbered(spark, 10)
    blocks = known.blocks(rows).cache()
    cases = {
        "key=string": known.might_contain_rows(numbered(spark, 10, "cast(id as string)"), blocks),
        "k=4": BloomTable(key="key", expected_items=1_000, fpp=0.05).might_contain_rows(
            rows, blocks
        ),
        "bits=2742": BloomTable(key="key", expected_items=2_000).might_contain_rows(rows, blocks),
        "members k=7 bits=2742": BloomTable(key="key", expected_items=2_000).merge(blocks),
        "damaged": known.might_contain_rows(
            rows, blocks.withColumn("filter", F.overlay("filter", F.lit(b"\xff\x00"), 80, 2))
        ),
        "truncated": known.stats(blocks.withColumn("filter", F.substring("filter", 1, 30))),
    }
    for text, frame in cases.items():
        with pytest.raises(Exception, match="invalid sketch") as raised:
            frame.collect()
        assert text in str(raised.value)


def test_invalid_arguments_are_rejected_at_the_call(spark: SparkSession) -> None:
    known, rows = BloomTable(key="key", expected_items=10), numbered(spark, 1)
    with pytest.raises(ColumnError, match="'key'"):
        known.blocks(rows.drop("key"))
    with pytest.raises(ColumnError, match="known"):
        known.might_contain_rows(rows.withColumn("known", F.lit(1)), known.blocks(rows))
    with pytest.raises(ColumnTypeError, match="invalid type of key"):
        known.blocks(rows.withColumn("key", F.create_map("id", "id")))
    with pytest.raises(ArgumentError, match=r"invalid key: \[\]"):
        BloomTable(key=[], expected_items=10)
    with pytest.raises(ArgumentError, match="invalid expected_items: 0"):
        BloomTable(key="key", expected_items=0)
    with pytest.raises(ArgumentError, match="invalid tables"):
        known.merge()
