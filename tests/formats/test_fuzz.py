"""Random JSON values never raise errors: they become the records of an oracle, or dead letters."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.poison_corpus import (
    DEAD,
    SCHEMA,
    UNKNOWN,
    expected_record,
    mutate_bytes,
    random_values,
)
from tests.support.raw_records import RECEIVED
from tidegate.formats import Format, json_format, upsert_json_format

BATCH_SIZE = 25_000
KEYS = (b"7", b"-7", b" 7 ", b"x", b"", b"7.5", b"9" * 30, b"\xff", b"1e1", b"NaN", None)


def raw_frame(
    spark: SparkSession, keys: list[bytes | None], values: list[bytes | None]
) -> DataFrame:
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "offset": pa.array(range(len(values)), pa.int64()),
    }
    # The repartition prevents the optimizer from evaluating the format on local rows.
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


def decode(
    value_format: Format, raw: DataFrame
) -> tuple[list[dict[str, Any]], dict[int, str | None]]:
    """Return all rows with their records by offset, and the reasons of dead letters by offset."""
    decoded = value_format.decode(raw)
    fields = []
    for field in value_format.schema:
        value = F.col(f"record.{field.name}")
        comparable = F.unix_micros(value) if field.dataType.typeName() == "timestamp" else value
        # The record of a dead letter is undefined.
        fields.append(F.when(~F.col("bad"), comparable).alias(field.name))
    rows = decoded.select(F.col("offset").alias("at_offset"), "bad", *fields)
    letters = value_format.explain_failures(decoded.where("bad")).select("offset", "reason")
    return (
        sorted(rows.toArrow().to_pylist(), key=lambda row: row["at_offset"]),
        {row["offset"]: row["reason"] for row in letters.toArrow().to_pylist()},
    )


def has_current_time(row: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Return whether a row has a time near now, which no random value has."""
    now = datetime.now(UTC)
    first, last = (int((now + timedelta(days=days)).timestamp() * 1e6) for days in (-3, 3))
    return any(row[name] is not None and first < row[name] < last for name in names)


def check_json_values(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Decode random values; return the number of good, dead and oracle-checked ones."""
    values = list(random_values(random.Random(seed), count))
    rows, reasons = decode(json_format(SCHEMA), raw_frame(spark, [None] * count, values))
    assert len(rows) == count
    counts: Counter[str] = Counter()
    for value, row in zip(values, rows, strict=True):
        offset, bad = row.pop("at_offset"), row.pop("bad")
        assert (reasons.get(offset) is not None) == bad, (value, reasons.get(offset))
        counts["dead" if bad else "good"] += 1
        expected = expected_record(value)
        if expected == UNKNOWN:
            assert bad or not has_current_time(row, ("at",)), value
            continue
        counts["checked"] += 1
        assert bad == (expected == DEAD), (value, expected, reasons.get(offset))
        if not bad:
            comparable = {**row, "day": None if row["day"] is None else str(row["day"])}
            assert comparable == expected, value
    return counts


def check_keyed_values(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Decode random keys and values; return the number of good and dead ones."""
    upsert_format = upsert_json_format(
        "n BIGINT NOT NULL, page STRING, at TIMESTAMP", key="n", time="at"
    )
    rng = random.Random(seed)
    values = list(random_values(rng, count))
    values = [None if rng.random() < 0.2 else value for value in values]
    keys = [
        key if key is None or rng.random() < 0.8 else mutate_bytes(rng, key)
        for key in rng.choices(KEYS, k=count)
    ]
    rows, reasons = decode(upsert_format, raw_frame(spark, keys, values))
    assert len(rows) == count
    for key, value, row in zip(keys, values, rows, strict=True):
        assert (reasons.get(row["at_offset"]) is not None) == row["bad"], (key, value)
        if not row["bad"]:
            assert row["n"] is not None, (key, value)
            assert row["deleted"] == (value is None), (key, value)
            assert not has_current_time(row, ("event_time",)), (key, value)
        if expected_record(value) == DEAD and value is not None and row["bad"] is False:
            # The oracle checks three fields that this schema does not have.
            assert any(part in value for part in (b'"d"', b'"ok"', b'"day"')), value
    return Counter("dead" if row["bad"] else "good" for row in rows)


@pytest.mark.draws("count", short=[6_000], long=[400_000])
@pytest.mark.slow
def test_a_random_value_is_the_record_of_the_oracle_or_a_dead_letter_with_a_reason(
    spark: SparkSession, count: int
) -> None:
    checked = sum(
        check_json_values(spark, start, min(BATCH_SIZE, count - start))["checked"]
        for start in range(0, count, BATCH_SIZE)
    )
    assert checked > 0.7 * count


@pytest.mark.draws("count", short=[3_000], long=[150_000])
def test_a_random_keyed_record_is_a_row_or_a_dead_letter_with_a_reason(
    spark: SparkSession, count: int
) -> None:
    for start in range(0, count, BATCH_SIZE):
        check_keyed_values(spark, start, min(BATCH_SIZE, count - start))
