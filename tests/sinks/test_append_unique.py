"""AppendUnique: a Bloom filter in a table selects the first row of each key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.sink_batches import batch, commits, rows
from tidegate.errors import ArgumentError, TableError, TableMismatchError
from tidegate.sinks import Append, AppendUnique
from tidegate.sketches import BloomTable
from tidegate.testing import CrashError, crash_after

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

SCHEMA = "key string, position int"
KEYS_TABLE = BloomTable(key="key", expected_items=1_000)


@dataclass(frozen=True)
class Tables:
    """The three tables in a directory, and the sink that writes them."""

    root: Path
    keys_table: BloomTable = KEYS_TABLE
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def sink(self) -> AppendUnique:
        paths: dict[str, Any] = {
            name: str(self.root / name) for name in ("path", "duplicates", "filter_path")
        }
        return AppendUnique(**paths, keys_table=self.keys_table, order=["position"], **self.options)

    def positions(self, spark: SparkSession, name: str) -> Counter[int]:
        path = self.root / name
        return (
            Counter(row.position for row in rows(spark, str(path))) if path.exists() else Counter()
        )


def frame(spark: SparkSession, *events: tuple[str | None, int]) -> DataFrame:
    return spark.createDataFrame(list(events), SCHEMA)


BATCHES: list[list[tuple[str | None, int]]] = [
    [("a", 1), ("b", 2), (None, 3)],
    [("c", 5), ("c", 4), ("a", 6), (None, 7)],
    [("b", 8), ("a", 9)],
    [("d", 10), ("c", 11)],
]
FIRST, REPEATED = Counter([1, 2, 3, 4, 7, 10]), Counter([5, 6, 8, 9, 11])


def test_a_key_is_appended_once_across_crashes_between_the_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    # By batch: the table after whose commit the process fails.
    failures = {1: "duplicates", 2: "path", 3: "filter_path"}
    for number, events in enumerate(BATCHES):
        if number in failures:
            table = tmp_path / failures[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                tables.sink.write({"rows": frame(spark, *events)}, batch(number))
        tables.sink.write({"rows": frame(spark, *events)}, batch(number))
    assert (tables.positions(spark, "path"), tables.positions(spark, "duplicates")) == (
        FIRST,
        REPEATED,
    )
    assert (
        len(commits(str(tmp_path / "path")))
        == len(commits(str(tmp_path / "filter_path")))
        == len(BATCHES)
    )

    assert tables.sink.write({"rows": frame(spark, *BATCHES[3])}, batch(3)) == "skipped"
    with pytest.raises(TableMismatchError):
        tables.sink.write({"rows": frame(spark, ("x", 99))}, batch(3, plan="another"))


def test_a_missing_filter_is_rebuilt_from_the_target_with_another_size(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    tables.sink.write({"rows": frame(spark, *BATCHES[0])}, batch(0))
    (tmp_path / "filter_path").rename(tmp_path / "moved")
    tables = Tables(tmp_path, keys_table=BloomTable(key="key", expected_items=100_000))
    tables.sink.write({"rows": frame(spark, ("b", 4), ("c", 5))}, batch(1))
    assert (tables.positions(spark, "path"), tables.positions(spark, "duplicates")) == (
        Counter([1, 2, 3, 5]),
        Counter([4]),
    )


def test_a_filter_and_a_target_at_different_batches_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    tables.sink.write({"rows": frame(spark, ("a", 1))}, batch(0))
    Append(path=str(tmp_path / "path")).write({"rows": frame(spark, ("b", 2))}, batch(1))
    with pytest.raises(TableMismatchError, match=r"delete .*filter_path"):
        tables.sink.write({"rows": frame(spark, ("b", 3))}, batch(2))
    assert tables.positions(spark, "path") == Counter([1, 2])


def test_more_keys_than_planned_cause_a_warning_and_then_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(
        tmp_path,
        keys_table=BloomTable(key="key", expected_items=1_000),
        options={"max_fpp_factor": 3.0},
    )

    def keys(start: int, stop: int) -> DataFrame:
        return spark.range(start, stop).selectExpr(
            "cast(id as string) as key", "cast(id as int) as position"
        )

    tables.sink.write({"rows": keys(0, 1_150)}, batch(0))
    with pytest.warns(UserWarning, match=r"planned for 1,000 keys and contains about 1,1\d0"):
        tables.sink.write({"rows": keys(1_150, 1_500)}, batch(1))
    with pytest.raises(TableError, match="a larger expected_items"):
        tables.sink.write({"rows": keys(1_500, 1_600)}, batch(2))
    assert max(tables.positions(spark, "path")) < 1_500
    total = tables.positions(spark, "path").total() + tables.positions(spark, "duplicates").total()
    assert total == 1_500


def test_shared_paths_and_an_error_limit_below_the_plan_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="three different"):
        AppendUnique(path="a", duplicates="a", filter_path="b", keys_table=KEYS_TABLE)
    with pytest.raises(ArgumentError, match="a string that is not empty"):
        AppendUnique(path="a", duplicates="b", filter_path=" ", keys_table=KEYS_TABLE)
    with pytest.raises(ArgumentError, match="max_fpp_factor"):
        Tables(tmp_path, options={"max_fpp_factor": 1.0}).sink  # noqa: B018
