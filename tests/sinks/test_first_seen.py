"""Rows let pass the first time that their key is seen, by a filter in a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import ArgumentError, ReplayMismatchError, TableError
from tidegate.sinks import Append, FirstSeen
from tidegate.sketches import BloomTable
from tidegate.testing import CrashError, crash_after

from .batches import batch, commits, rows

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

SCHEMA = "key string, place int"
KNOWN = BloomTable(key="key", keys=1_000)


@dataclass(frozen=True)
class Tables:
    """The three tables below a folder, and how to write to them."""

    root: Path
    known: BloomTable = KNOWN
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def sink(self) -> FirstSeen:
        places: dict[str, Any] = {
            name: str(self.root / name) for name in ("path", "repeated", "seen")
        }
        return FirstSeen(**places, known=self.known, order=["place"], **self.more)

    def places(self, spark: SparkSession, name: str) -> Counter[int]:
        path = self.root / name
        return Counter(row.place for row in rows(spark, str(path))) if path.exists() else Counter()


def frame(spark: SparkSession, *events: tuple[str | None, int]) -> DataFrame:
    return spark.createDataFrame(list(events), SCHEMA)


BATCHES: list[list[tuple[str | None, int]]] = [
    [("a", 1), ("b", 2), (None, 3)],
    [("c", 5), ("c", 4), ("a", 6), (None, 7)],
    [("b", 8), ("a", 9)],
    [("d", 10), ("c", 11)],
]
NEW, OLD = Counter([1, 2, 3, 4, 7, 10]), Counter([5, 6, 8, 9, 11])


def test_a_key_passes_once_though_batches_run_again_after_crashes_between_the_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    # By batch, the table after whose commit the process dies; then the batch runs again.
    deaths = {1: "repeated", 2: "path", 3: "seen"}
    for number, events in enumerate(BATCHES):
        if number in deaths:
            table = tmp_path / deaths[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                tables.sink.write({"rows": frame(spark, *events)}, batch(number))
        tables.sink.write({"rows": frame(spark, *events)}, batch(number))
    assert (tables.places(spark, "path"), tables.places(spark, "repeated")) == (NEW, OLD)
    assert (
        len(commits(str(tmp_path / "path"))) == len(commits(str(tmp_path / "seen"))) == len(BATCHES)
    )

    assert tables.sink.write({"rows": frame(spark, *BATCHES[3])}, batch(3)) == "skipped"
    with pytest.raises(ReplayMismatchError):
        tables.sink.write({"rows": frame(spark, ("x", 99))}, batch(3, plan="another"))


def test_a_filter_that_is_gone_is_built_anew_from_the_target_and_may_be_larger(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    tables.sink.write({"rows": frame(spark, *BATCHES[0])}, batch(0))
    (tmp_path / "seen").rename(tmp_path / "gone")
    tables = Tables(tmp_path, known=BloomTable(key="key", keys=100_000))
    tables.sink.write({"rows": frame(spark, ("b", 4), ("c", 5))}, batch(1))
    assert (tables.places(spark, "path"), tables.places(spark, "repeated")) == (
        Counter([1, 2, 3, 5]),
        Counter([4]),
    )


def test_a_filter_and_a_target_of_different_batches_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    tables.sink.write({"rows": frame(spark, ("a", 1))}, batch(0))
    Append(path=str(tmp_path / "path")).write({"rows": frame(spark, ("b", 2))}, batch(1))
    with pytest.raises(ReplayMismatchError, match=r"delete .*seen"):
        tables.sink.write({"rows": frame(spark, ("b", 3))}, batch(2))
    assert tables.places(spark, "path") == Counter([1, 2])


def test_growth_past_the_plan_is_warned_of_and_then_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path, known=BloomTable(key="key", keys=1_000), more={"refuse_at": 3.0})

    def keys(start: int, stop: int) -> DataFrame:
        return spark.range(start, stop).selectExpr(
            "cast(id as string) as key", "cast(id as int) as place"
        )

    tables.sink.write({"rows": keys(0, 1_150)}, batch(0))
    with pytest.warns(UserWarning, match=r"made for 1,000 keys and holds about 1,1\d0"):
        tables.sink.write({"rows": keys(1_150, 1_500)}, batch(1))
    with pytest.raises(TableError, match="plan for more keys"):
        tables.sink.write({"rows": keys(1_500, 1_600)}, batch(2))
    assert max(tables.places(spark, "path")) < 1_500
    passed = tables.places(spark, "path").total() + tables.places(spark, "repeated").total()
    assert passed == 1_500


def test_tables_that_are_one_and_a_limit_below_the_plan_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="three different"):
        FirstSeen(path="a", repeated="a", seen="b", known=KNOWN)
    with pytest.raises(ArgumentError, match="refuse_at"):
        Tables(tmp_path, more={"refuse_at": 1.0}).sink  # noqa: B018
