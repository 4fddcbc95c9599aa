"""Upsert: rows replace stored rows, or partials are merged."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.sink_batches import as_another_writer, batch, leftover_settings, rows
from tidegate import aggregates as agg
from tidegate.errors import ArgumentError, ColumnError, ConflictError, TableMismatchError
from tidegate.sinks import Append, Upsert

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

AGGS = {"views": agg.count(), "mean_ms": agg.avg("ms"), "slowest": agg.max("ms")}
Event = tuple[str | None, int | None]


def partials(spark: SparkSession, events: list[Event]) -> DataFrame:
    frame = spark.createDataFrame(events, "page STRING, ms BIGINT")
    return frame.groupBy("page").agg(
        *[agg.partial(F.lit(None)).alias(name) for name, agg in AGGS.items()]
    )


def test_partials_add_up_to_what_all_rows_give_at_once_and_a_replay_adds_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance, path = random.Random(7), str(tmp_path / "t")
    cut: list[list[Event]] = [
        [
            (chance.choice([None, "/a", "/b", f"/{n}"]), chance.choice([None, 1, 5, 9]))
            for _ in range(12)
        ]
        for n in range(3)
    ]
    sink = Upsert(path=path, keys=["page"], aggs=AGGS)
    for number, events in enumerate(cut):
        assert sink.write({"rows": partials(spark, events)}, batch(number)) == "written"
        assert leftover_settings(spark) == []
    assert sink.write({"rows": partials(spark, cut[2])}, batch(2)) == "skipped"
    with pytest.raises(TableMismatchError):
        sink.write({"rows": partials(spark, cut[2])}, batch(2, "other"))

    by_page: dict[str | None, list[int | None]] = defaultdict(list)
    for page, ms in (event for events in cut for event in events):
        by_page[page].append(ms)
    expected = {}
    for page, values in by_page.items():
        known = [ms for ms in values if ms is not None]
        expected[page] = (
            len(values),
            sum(known) / len(known) if known else None,
            max(known, default=None),
        )
    finished = spark.read.format("delta").load(path)
    finished = finished.select(
        "page", *[agg.finish(F.col(name)).alias(name) for name, agg in AGGS.items()]
    )
    assert {row[0]: tuple(row)[1:] for row in finished.collect()} == expected
    assert finished.count() == len(expected)


def test_a_row_replaces_the_row_of_its_key_and_null_is_a_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Upsert(path=path, keys=["page", "day"])
    shape = "page STRING, day INT, n INT"
    sink.write(
        {"rows": spark.createDataFrame([("/a", 1, 1), (None, 1, 1), ("/a", None, 1)], shape)},
        batch(0),
    )
    sink.write(
        {"rows": spark.createDataFrame([("/a", 1, 2), (None, 1, 2), (None, None, 2)], shape)},
        batch(1),
    )
    assert {tuple(row) for row in rows(spark, path)} == {
        ("/a", 1, 2),
        (None, 1, 2),
        ("/a", None, 1),
        (None, None, 2),
    }
    assert len(rows(spark, path)) == 4


def test_a_duplicate_key_is_named_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Upsert(path=path, keys=["page"])
    twice = spark.createDataFrame([("/a", 1), ("/a", 2), ("/b", 1)], "page STRING, n INT")
    for number in range(2):
        with pytest.raises(ColumnError, match=r"2 rows have the key \{'page': '/a'\}"):
            sink.write({"rows": twice}, batch(number))
        if number == 0:
            assert not Path(path).exists()
            sink.write({"rows": twice.where("page = '/b'")}, batch(0))
    assert len(rows(spark, path)) == 1


def test_a_failed_merge_resets_the_session_settings(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    sink = Upsert(path, keys=["id"])
    sink.write({"rows": spark.range(2).withColumn("n", F.lit(1))}, batch(0))
    broken = F.when(F.col("id") >= 0, F.raise_error(F.lit("boom"))).cast("int")
    with pytest.raises(Exception, match="boom"):
        sink.write({"rows": spark.range(2).withColumn("n", broken)}, batch(1))
    assert leftover_settings(spark) == []


def test_rows_that_changed_between_reading_and_merging_are_not_overwritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    sink = Upsert(path=path, keys=["page"], aggs={"views": agg.count()})
    one = spark.createDataFrame([("/a", 1)], "page STRING, views BIGINT")
    sink.write({"rows": one}, batch(0))
    merged_partials = Upsert._merged_partials
    writes_left = [2]

    def while_another_writes(self: Upsert, *arguments: object) -> DataFrame:
        plan = merged_partials(self, *arguments)  # type: ignore[arg-type]
        read = spark.createDataFrame(plan.collect(), plan.schema)
        if writes_left[0]:
            writes_left[0] -= 1
            row = spark.createDataFrame([("/a", 10 + writes_left[0])], "page STRING, views BIGINT")
            as_another_writer(lambda: row.write.format("delta").mode("overwrite").save(path))
        return read

    monkeypatch.setattr(Upsert, "_merged_partials", while_another_writes)
    assert sink.write({"rows": one}, batch(1)) == "written"
    assert [tuple(row) for row in rows(spark, path)] == [("/a", 11)]
    writes_left[0] = 100
    with pytest.raises(ConflictError, match="another writer"):
        sink.write({"rows": one}, batch(2))


def test_missing_keys_and_a_key_that_is_an_aggregate_are_refused(spark: SparkSession) -> None:
    invalid: list[Any] = [[], "page"]
    for keys in invalid:
        with pytest.raises(ArgumentError, match="keys"):
            Upsert(path="t", keys=keys)
    with pytest.raises(ColumnError, match="columns that are not in keys"):
        Upsert(path="t", keys=["n"], aggs={"n": agg.count()})
    with pytest.raises(ColumnError, match="page"):
        Upsert(path="t", keys=["page"]).write({"rows": spark.range(1)}, batch(0))


def test_merging_decimal_partials_preserves_their_type(spark: SparkSession, tmp_path: Path) -> None:
    aggs = {"sum": agg.sum("price"), "mean": agg.avg("price")}
    sink = Upsert(str(tmp_path / "t"), keys=["page"], aggs=aggs)
    for number in range(3):
        prices = spark.createDataFrame(
            [("/a", "1.35"), ("/a", "2.00")], "page STRING, price STRING"
        )
        typed = prices.select("page", F.col("price").cast("decimal(10,2)"))
        made = [agg.partial(F.lit(None)).alias(name) for name, agg in aggs.items()]
        assert sink.write({"rows": typed.groupBy("page").agg(*made)}, batch(number)) == "written"
    (row,) = agg.finish(spark.read.format("delta").load(sink.path), aggs).collect()
    assert (row["sum"], row["mean"]) == (Decimal("10.05"), Decimal("1.675"))


def test_an_invalid_column_name_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    named = spark.range(1).withColumn("my page", F.lit("/a"))
    nested = spark.range(1).withColumn("page", F.struct(F.lit("/a").alias("my;page")))
    for sink in (Append(str(tmp_path / "a")), Upsert(str(tmp_path / "u"), keys=["id"])):
        with pytest.raises(ColumnError, match="withColumnRenamed\\('my page', 'my_page'\\)"):
            sink.write({"rows": named}, batch(0))
        with pytest.raises(ColumnError, match="my;page"):
            sink.write({"rows": nested}, batch(0))
        assert not Path(sink.path).exists()
