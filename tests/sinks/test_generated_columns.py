"""Generated columns are computed by Delta; tables with identity columns are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable, IdentityGenerator
from pyspark.sql import DataFrame, SparkSession

from tests.support.readers import assert_readers_agree
from tests.support.sink_batches import batch
from tidegate.errors import TableError
from tidegate.sinks import Append, Sink, Upsert

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
SINKS: dict[str, Callable[[str], Sink]] = {
    "append": Append,
    "upsert": lambda path: Upsert(path, keys=["id"]),
}


def create_table(spark: SparkSession, path: Path, **computed: Any) -> str:
    """Create a table of id, code and at, with further columns: type and the expression."""
    builder = DeltaTable.create(spark).location(str(path))
    for name, type_ in (("id", "INT"), ("code", "STRING"), ("at", "TIMESTAMP")):
        builder = builder.addColumn(name, type_)
    for name, (type_, expression) in computed.items():
        builder = builder.addColumn(name, type_, generatedAlwaysAs=expression)
    builder.partitionedBy(*[name for name in computed if name in {"day", "kind"}]).execute()
    return str(path)


def events(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, "id INT, code STRING, at TIMESTAMP")


@pytest.mark.parametrize("kind", SINKS)
def test_a_generated_column_that_rows_do_not_have_is_computed_by_delta(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = create_table(
        spark, tmp_path / "t", day=("DATE", "CAST(at AS DATE)"), tail=("STRING", "right(code, 1)")
    )
    sink = SINKS[kind](path)
    at = [datetime(2026, 3, day, 9, tzinfo=UTC) for day in (1, 2)]
    for number, rows in enumerate(
        (events(spark, (1, "ab", at[0]), (2, None, None)), events(spark, (3, "cd", at[1])))
    ):
        assert sink.write({"rows": rows}, batch(number)) == "written"
        assert sink.write({"rows": rows}, batch(number)) == "skipped"
    if kind == "upsert":
        sink.write({"rows": events(spark, (1, "xy", at[1]))}, batch(2))
    stored = spark.read.format("delta").load(path).select("id", "day", "tail").collect()
    changed = (date(2026, 3, 2), "y") if kind == "upsert" else (date(2026, 3, 1), "b")
    assert {row["id"]: (row["day"], row["tail"]) for row in stored} == {
        1: changed,
        2: (None, None),
        3: (date(2026, 3, 2), "d"),
    }
    assert_readers_agree(spark, tmp_path / "t")


def test_rows_for_which_a_generated_column_fails_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = create_table(
        spark, tmp_path / "t", kind=("STRING", "lower(code)"), inverse=("DOUBLE", "1 / id")
    )
    rows = events(spark, (1, "A", AT), (0, "B", AT), (2, "", AT), (3, None, AT))
    sink = Append(path)
    reason = sink.rejection(rows)
    assert reason is not None
    reasons = {
        row["id"]: row["reason"] for row in rows.select("id", reason.alias("reason")).collect()
    }
    assert reasons == {
        0: "the generated column 'inverse' raises an error: 1 / id",
        1: None,
        2: "the partition column 'kind' is an empty text, which Delta would store as null",
        3: None,
    }
    sink.write({"rows": rows.where(reason.isNull())}, batch(0))
    stored = spark.read.format("delta").load(path).collect()
    assert {(row["id"], row["kind"]) for row in stored} == {(1, "a"), (3, None)}


def test_rows_with_another_value_than_the_generated_column_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = create_table(spark, tmp_path / "t", day=("DATE", "CAST(at AS DATE)"))
    days = events(spark, (1, "a", AT), (2, "b", AT), (3, "c", None)).selectExpr(
        "*", "date_add(date '2026-03-02', id - 1) AS day"
    )
    reason = Append(path).rejection(days)
    assert reason is not None
    accepted = days.where(reason.isNull())
    assert [row["id"] for row in accepted.collect()] == [1]
    Append(path).write({"rows": accepted}, batch(0))
    assert spark.read.format("delta").load(path).count() == 1


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("has_column", [True, False])
def test_a_table_with_an_identity_column_is_refused(
    kind: str, has_column: bool, spark: SparkSession, tmp_path: Path
) -> None:
    path = create_table(spark, tmp_path / "t", number=("BIGINT", IdentityGenerator()))
    rows = events(spark, (1, "a", AT))
    rows = rows.selectExpr("*", "1L AS number") if has_column else rows
    with pytest.raises(TableError, match="has an identity column: number") as refused:
        SINKS[kind](path).write({"rows": rows}, batch(0))
    assert "kafka_columns=['topic', 'partition', 'offset']" in refused.value.remedy
    assert spark.read.format("delta").load(path).isEmpty()
