"""Source tables whose columns have the names of the library's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.changelog_frames import raw
from tests.support.sink_batches import batch
from tidegate.changelogs.change_schema import (
    CHANGE_COLUMNS,
    POSITION_TYPE,
    RESERVED_COLUMNS,
    TOMBSTONE,
)
from tidegate.errors import ArgumentError, ColumnError
from tidegate.formats import debezium_format, maxwell_format
from tidegate.joins import validity_periods
from tidegate.sinks import CurrentTable, FanOut, HistoryTable

RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
RENAME = {name: f"source_{name}" for name in RESERVED_COLUMNS}
OTHERS = sorted(
    {*CHANGE_COLUMNS, *POSITION_TYPE.names, *RAW_COLUMNS, "record", "bad", "skipped"}
    | {"unavailable", "reason", "last", "truncate", "data", "old", "type", "source", "after.x"}
    | {TOMBSTONE}
)
NAMES = [*RENAME, *(name for name in OTHERS if name not in RENAME)]
COLUMNS = "key BIGINT NOT NULL, " + ", ".join(f"`{name}` STRING" for name in NAMES if name != "key")


def row(number: int) -> dict[str, Any]:
    return {name: f"{name} {number}" for name in NAMES} | {"key": 1}


def debezium(op: str, before: Any, after: Any) -> dict[str, Any]:
    source = {"ts_ms": 1_772_442_000_000 + len(str(after))}
    return {"op": op, "before": before, "after": after, "source": source}


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.parametrize("dialect", ["debezium", "maxwell"])
def test_columns_with_reserved_names_are_written_under_other_names(
    spark: SparkSession, tmp_path: Path, dialect: str
) -> None:
    if dialect == "debezium":
        changes = debezium_format(COLUMNS, key="key", rename=RENAME)
        records = [
            ({"key": 1}, debezium("c", None, row(1))),
            ({"key": 1}, debezium("u", row(1), row(22))),
        ]
    else:
        changes = maxwell_format(COLUMNS, key="key", rename=RENAME)
        records = [
            ({"pk.key": 1}, {"type": "insert", "ts": 1, "data": row(1)}),
            ({"pk.key": 1}, {"type": "update", "ts": 2, "data": row(22), "old": {"op": "op 1"}}),
        ]
    decoded = changes.decode(raw(spark, records))
    assert [each.reason for each in changes.explain_failures(decoded.where("bad")).collect()] == []
    current, history = CurrentTable(str(tmp_path / "now")), HistoryTable(str(tmp_path / "past"))
    rows = decoded.select("record.*")
    FanOut(current, other_sinks=[history]).write({"rows": rows}, batch(0))
    expected = {RENAME.get(name, name): value for name, value in row(22).items()}
    (written,) = current.rows(spark).collect()
    assert written.asDict() == expected
    versions = history.rows(spark).where("is_current")
    (version,) = versions.select(*[F.col(f"`{name}`") for name in expected]).collect()
    assert version.asDict() == expected


@pytest.mark.usefixtures("spark")
def test_a_reserved_name_is_refused_with_the_argument_that_renames_it() -> None:
    for changes in (debezium_format, maxwell_format):
        with pytest.raises(ColumnError, match=r"rename=\{'Op': 'source_Op'\}"):
            changes("id INT, Op STRING", key="id")
        with pytest.raises(ColumnError, match="invalid rename: x"):
            changes("id INT, op STRING", key="id", rename={"x": "y"})
        with pytest.raises(ColumnError, match="duplicate columns after rename: id"):
            changes("id INT, op STRING", key="id", rename={"op": "ID"})
        with pytest.raises(ColumnError, match="invalid columns: deleted"):
            changes("id INT, op STRING", key="id", rename={"op": "deleted"})
        with pytest.raises(ArgumentError, match="invalid rename"):
            changes("id INT, op STRING", key="id", rename={"op": ""})


def test_versions_refuse_columns_that_they_would_replace(spark: SparkSession) -> None:
    changes = spark.sql("SELECT 1 AS id, current_timestamp() AS event_time, 'x' AS valid_TO")
    with pytest.raises(ColumnError, match="invalid columns: valid_TO"):
        validity_periods(changes)
