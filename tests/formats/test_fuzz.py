"""Values drawn at random: none stops a job, and each is a record as an oracle has it, or dead."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.formats import Format, json_format, keyed_json

from ..sources.raw import RECEIVED
from .corpus import DEAD, SCHEMA, UNKNOWN, mutated, told, values

AT_ONCE = 25_000
KEYS = (b"7", b"-7", b" 7 ", b"x", b"", b"7.5", b"9" * 30, b"\xff", b"1e1", b"NaN", None)


def raw(spark: SparkSession, keys: list[bytes | None], given: list[bytes | None]) -> DataFrame:
    """Return many raw rows at once."""
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(given, pa.binary()),
        "offset": pa.array(range(len(given)), pa.int64()),
    }
    # Rows that the optimiser knows it would read by itself, in other ways than a job does.
    return (
        spark.createDataFrame(pa.table(columns))
        .repartition(2)
        .select(
            F.lit("t").alias("topic"),
            F.lit(0).alias("partition"),
            "offset",
            F.lit(RECEIVED).alias("timestamp"),
            "key",
            "value",
        )
    )


def read(form: Format, rows: DataFrame) -> tuple[list[dict[str, Any]], dict[int, str | None]]:
    """Return all rows with their records in their order, and the bad ones' reasons by offset."""
    decoded = form.decode(rows)
    fields = []
    for field in form.schema:
        value = F.col(f"record.{field.name}")
        micros = field.dataType.typeName() == "timestamp"
        # What stands in a bad row is nobody's.
        shown = F.when(~F.col("bad"), F.unix_micros(value) if micros else value)
        fields.append(shown.alias(field.name))
    found = decoded.select(F.col("offset").alias("at_offset"), "bad", *fields).toArrow().to_pylist()
    dead = form.diagnose(decoded.where("bad")).select("offset", "reason").toArrow().to_pylist()
    return (
        sorted(found, key=lambda row: row["at_offset"]),
        {row["offset"]: row["reason"] for row in dead},
    )


def is_of_today(row: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Return whether a row has a time of these days, which no value has."""
    now = datetime.now(UTC)
    near = [int((now + timedelta(days=days)).timestamp() * 1e6) for days in (-3, 3)]
    return any(row[name] is not None and near[0] < row[name] < near[1] for name in names)


def json_read(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Draw values and read them; return how many were good, dead, and told by the oracle."""
    drawn = list(values(random.Random(seed), count))
    rows, reasons = read(json_format(SCHEMA), raw(spark, [None] * count, drawn))
    assert len(rows) == count
    found: Counter[str] = Counter()
    for value, row in zip(drawn, rows, strict=True):
        place, bad = row.pop("at_offset"), row.pop("bad")
        assert (reasons.get(place) is not None) == bad, (value, reasons.get(place))
        found["dead" if bad else "good"] += 1
        wanted = told(value)
        if wanted == UNKNOWN:
            assert bad or not is_of_today(row, ("at",)), value
            continue
        found["told"] += 1
        assert bad == (wanted == DEAD), (value, wanted, reasons.get(place))
        if not bad:
            shown = {**row, "day": None if row["day"] is None else str(row["day"])}
            assert shown == wanted, value
    return found


def keyed_read(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Draw keys and values and read them; return how many were good and dead."""
    form = keyed_json("n BIGINT NOT NULL, page STRING, at TIMESTAMP", key="n", time="at")
    chance = random.Random(seed)
    drawn = list(values(chance, count))
    drawn = [None if chance.random() < 0.2 else value for value in drawn]
    keys = [
        key if key is None or chance.random() < 0.8 else mutated(chance, key)
        for key in chance.choices(KEYS, k=count)
    ]
    rows, reasons = read(form, raw(spark, keys, drawn))
    assert len(rows) == count
    for key, value, row in zip(keys, drawn, rows, strict=True):
        place = row["at_offset"]
        assert (reasons.get(place) is not None) == row["bad"], (key, value)
        if not row["bad"]:
            assert row["n"] is not None, (key, value)
            assert row["deleted"] == (value is None), (key, value)
            assert not is_of_today(row, ("event_time",)), (key, value)
        if told(value) == DEAD and value is not None and row["bad"] is False:
            # Of a row with a key only these fields are read.
            assert any(part in value for part in (b'"d"', b'"ok"', b'"day"')), value
    return Counter("dead" if row["bad"] else "good" for row in rows)


@pytest.mark.draws("count", short=[6_000], long=[400_000])
@pytest.mark.slow
def test_any_value_is_the_record_that_an_oracle_reads_or_dead_with_a_reason(
    spark: SparkSession, count: int
) -> None:
    starts = range(0, count, AT_ONCE)
    known = sum(json_read(spark, at, min(AT_ONCE, count - at))["told"] for at in starts)
    assert known > 0.7 * count


@pytest.mark.draws("count", short=[3_000], long=[150_000])
def test_any_record_with_a_key_is_a_row_or_dead_with_a_reason(
    spark: SparkSession, count: int
) -> None:
    for start in range(0, count, AT_ONCE):
        keyed_read(spark, start, min(AT_ONCE, count - start))
