"""Materialised views: the join of two changing tables, kept batch by batch."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnError, ReplayMismatchError, TableError
from tidegate.jvm import CHANGE_FEED, with_settings
from tidegate.testing import CrashError, crash_after
from tidegate.testing.scans import Scans
from tidegate.views import _anew as anew
from tidegate.views import _buckets as bucketed
from tidegate.views._buckets import BUCKET, RECENT, lookup
from tidegate.views._evaluation import Evaluation
from tidegate.views.keyed_table import KeyedTable
from tidegate.views.view import View

from ..joins.histories import SCHEMA, Event, Log, Side, history
from ..joins.tables import Joined, Kind, joined
from ..sinks.batches import batch, commits
from ..tables import rows as stored

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
COLUMNS = ["case", "key", "left_id", "left_value", "right_id", "right_value"]


def kept(root: Path, side: str, **more: Any) -> KeyedTable:
    def changes(frame: DataFrame) -> DataFrame:
        names = {"id": f"{side}_id", "value": f"{side}_value"}
        return frame.where(F.col("side") == side).drop("side").withColumnsRenamed(names)

    given: dict[str, Any] = {
        "key": ["case", f"{side}_id"],
        "by": ["case", "key"],
        "position": "version",
        "buckets": 4,
    }
    return KeyedTable(
        str(root / side), step=side, rows_of="rows", **{"changes": changes} | given | more
    )


def joined_view(root: Path, how: Kind = "inner", **more: Any) -> View:
    given: dict[str, Any] = {"left": kept(root, "left"), "right": kept(root, "right"), "buckets": 4}
    return View(str(root / "view"), on=["case", "key"], how=how, **given | more)


def choose(monkeypatch: pytest.MonkeyPatch, whether_anew: bool) -> None:
    """Let batches compute the view anew, or change it."""
    monkeypatch.setattr(anew, "SMALL_BYTES", 2**40 if whether_anew else -1)
    monkeypatch.setattr(anew, "SHARE", 0)


def frame(spark: SparkSession, events: list[Event]) -> DataFrame:
    return spark.createDataFrame(events, SCHEMA)


def cases(root: Path) -> dict[int, Counter[Joined]]:
    """Read a view without Spark, case by case."""
    found: dict[int, Counter[Joined]] = defaultdict(Counter)
    for row in stored(root / "view"):
        found[row["case"]][tuple(row[name] for name in COLUMNS[1:])] += 1
    return found


def require_joined(
    root: Path, how: Kind, logs: dict[int, Log], events: list[Event], told: tuple[int, int]
) -> None:
    """Refuse a view that is not the join of its tables once these changes are applied to them."""
    for event in events:
        logs[event[1]].apply(event)
    found = cases(root)
    for case, log in logs.items():
        expected = joined(log.table("left"), log.table("right"), how)
        assert found[case] == expected, (*told, case)


@pytest.mark.crash
@pytest.mark.draws(
    ("how", "batches"),
    short=[("inner", 2), ("full", 1)],
    long=[("inner", 6), ("left", 6), ("full", 6)],
)
@settings(
    max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(seed=st.integers(0, 2**32))
def test_a_view_is_the_join_of_its_tables_after_each_batch_though_the_process_dies_between_them(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    how: Kind,
    batches: int,
    seed: int,
) -> None:
    assume(seed)
    root, random = tmp_path_factory.mktemp(how), Random(seed)
    cut = history(seed, cases=60, batches=batches)
    logs: dict[int, Log] = defaultdict(Log)
    overwrites = {OVERWRITES: random.choice(["static", "dynamic"])}
    with pytest.MonkeyPatch.context() as monkeypatch, with_settings(spark, overwrites):
        monkeypatch.setattr(bucketed, "FEW", random.choice([1, 1000]))
        for number, events in enumerate(cut):
            rows = frame(spark, events)
            table = root / random.choice(["view", "left", "right"])
            choose(monkeypatch, random.choice([True, False]))
            with crash_after(table, batch=number), pytest.raises(CrashError):
                joined_view(root, how).write({"rows": rows}, batch(number))
            choose(monkeypatch, random.choice([True, False]))
            joined_view(root, how, compact_every=2).write({"rows": rows}, batch(number))
            require_joined(root, how, logs, events, told=(seed, number))


def changes_of(
    spark: SparkSession, *events: tuple[str, int, str | None, str | None, int, bool]
) -> DataFrame:
    return frame(spark, [(side, 0, *rest) for side, *rest in events])  # type: ignore[misc]


def test_a_batch_that_the_tables_have_is_skipped_and_tables_of_different_batches_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    joined_view(tmp_path).write(
        {"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0)
    )
    shutil.copytree(tmp_path / "right", tmp_path / "copy")
    second = changes_of(spark, ("right", 2, "a", "y", 1, False))
    assert joined_view(tmp_path).write({"rows": second}, batch(1)) == "written"
    assert joined_view(tmp_path).write({"rows": second}, batch(1)) == "skipped"
    with pytest.raises(ReplayMismatchError, match="planned now"):
        joined_view(tmp_path).write({"rows": second}, batch(1, plan="another"))
    with pytest.raises(ReplayMismatchError, match="view has None"):
        joined_view(tmp_path).write({"rows": second}, replace(batch(0), query_id="another"))
    with pytest.raises(TableError, match=r"buckets is 8, and .*view was made with 4"):
        joined_view(tmp_path, buckets=8).write({"rows": second}, batch(2))
    shutil.rmtree(tmp_path / "right")
    shutil.copytree(tmp_path / "copy", tmp_path / "right")
    with pytest.raises(ReplayMismatchError, match="right has 0"):
        joined_view(tmp_path).write({"rows": second}, batch(2))
    shutil.rmtree(tmp_path / "right")
    with pytest.raises(ReplayMismatchError, match="right has no table"):
        joined_view(tmp_path).write({"rows": second}, batch(2))
    assert cases(tmp_path)[0] == Counter({("a", 1, "x", 2, "y"): 1})


def test_a_null_in_a_key_and_a_column_of_a_reserved_name_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="has a null in its key, case, left_id"):
        joined_view(tmp_path).write(
            {"rows": spark.createDataFrame([("left", 0, None, "a", "x", 1, False)], SCHEMA)},
            batch(0),
        )
    taken = kept(
        tmp_path,
        "left",
        changes=lambda frame: frame.withColumnsRenamed({"id": "left_id", "value": BUCKET}),
    )
    with pytest.raises(ColumnError, match="_bucket would be a column"):
        joined_view(tmp_path, left=taken).write(
            {"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0)
        )
    assert not (tmp_path / "view").exists()


def files(spark: SparkSession, whole: View) -> list[tuple[int, int]]:
    """Count the files of each table, those of recent rows and the others."""
    found = []
    for each in whole.members():
        recent = F.col(BUCKET) == RECENT
        rows = spark.read.format("delta").load(each.path)
        found.append((len(rows.where(recent).inputFiles()), len(rows.where(~recent).inputFiles())))
    return found


@pytest.mark.draws(("rows", "buckets", "changed"), short=[(6_000, 60, 2)], long=[(100_000, 200, 5)])
def test_the_cost_of_a_batch_grows_with_its_changes_and_not_with_the_tables(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    buckets: int,
    changed: int,
) -> None:
    # However few the rows of a short draw are, compaction puts them into their buckets.
    monkeypatch.setattr(bucketed, "FEW", 1)
    choose(monkeypatch, False)
    sides: dict[str, Any] = {
        side: kept(tmp_path, side, buckets=buckets) for side in ("left", "right")
    }
    large = joined_view(tmp_path, buckets=buckets, **sides)

    def changes(ids: DataFrame, version: int, value: str) -> DataFrame:
        sides = F.explode(F.array(F.lit("left"), F.lit("right"))).alias("side")
        key = F.concat(F.lit("k"), F.col("id").cast("string")).alias("key")
        others = {"value": F.lit(value), "version": F.lit(version), "deleted": F.lit(False)}
        return ids.select(sides, F.lit(0).alias("case"), F.col("id").cast("int"), key).withColumns(
            others
        )

    large.write({"rows": changes(spark.range(rows), 1, "old")}, batch(0))
    large.compact(spark)
    ids = [number * rows // changed for number in range(changed)]
    with Scans(spark) as scans:
        large.write(
            {"rows": changes(spark.createDataFrame([(id_,) for id_ in ids], "id int"), 2, "new")},
            batch(1),
        )
    # A row of a table has one bucket by its key and one by the join key; a bucket is a file.
    share = rows // buckets * 5 // 4
    for side in sides:
        assert all(files <= 2 * changed for files, _ in scans.tables[side].scans)
        assert 0 < scans.tables[side].rows <= 2 * changed * 2 * share < rows // 5
        assert (
            int(commits(str(tmp_path / side))[-1]["operationMetrics"]["numOutputRows"])
            == 2 * changed
        )
    assert all(files <= changed for files, _ in scans.tables["view"].scans)
    assert 0 < scans.tables["view"].rows <= 3 * changed * share < rows // 5
    merged = {
        name: int(value)
        for name, value in commits(str(tmp_path / "view"))[-1]["operationMetrics"].items()
    }
    names = ("Rows" + each for each in ("Updated", "Copied", "Inserted", "Deleted"))
    assert [merged[f"numTarget{name}"] for name in names] == [changed, 0, 0, 0]
    assert (merged["numTargetFilesAdded"], merged["numTargetFilesRemoved"]) == (1, 0)

    view = spark.read.format("delta").load(str(tmp_path / "view"))
    with Scans(spark) as scans:
        found = lookup(view, case=0, key=f"k{ids[-1]}").collect()
    assert [(row.left_value, row.right_value) for row in found] == [("new", "new")]
    assert scans.tables["view"].files == 2


def test_recent_rows_stand_for_those_in_buckets_before_and_after_they_are_put_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketed, "FEW", 1)
    choose(monkeypatch, False)
    sides: tuple[Side, ...] = ("left", "right")
    first = [(side, id_, "ab"[id_ % 2], "x", 1, False) for side in sides for id_ in range(40)]
    small, log = joined_view(tmp_path), Log()

    def write(number: int, *events: tuple[Side, int, str | None, str | None, int, bool]) -> None:
        small.write({"rows": changes_of(spark, *events)}, batch(number))
        for side, *rest in events:
            log.apply((side, 0, *rest))  # type: ignore[arg-type]
        assert cases(tmp_path)[0] == joined(log.table("left"), log.table("right"), "inner"), number

    write(0, *first)
    assert [others for _, others in files(spark, small)] == [0, 0, 0]
    small.compact(spark)
    placed = files(spark, small)
    assert all(recent == 0 and others > 1 for recent, others in placed)

    write(1, ("left", 0, "b", "moved", 2, False), ("right", 1, None, None, 3, True))
    write(
        2,
        ("left", 2, None, None, 2, True),
        ("left", 3, "c", "alone", 2, False),
        ("right", 1, "b", "late", 2, False),
    )
    recent = [each for each, _ in files(spark, small)]
    assert recent == [1, 2, 1], (
        "the view only loses rows in batch 2, and the right's change comes too late"
    )
    small.compact(spark)
    assert files(spark, small)[1:] == [(1, others) for _, others in placed[1:]], (
        "few are recent, so the others stay"
    )

    write(
        3,
        ("left", 0, "a", "moved back", 3, False),
        ("left", 2, "a", "back", 3, False),
        ("left", 3, None, None, 3, True),
    )


def test_a_small_view_is_computed_anew_unless_it_records_its_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = joined_view(tmp_path)
    first = changes_of(spark, ("left", 1, "a", "x", 1, False), ("right", 2, "a", "y", 1, False))
    few.write({"rows": first}, batch(0))

    def told(number: int, value: str) -> str:
        rows = changes_of(spark, ("left", 1, "a", value, number, False))
        few.write({"rows": rows}, batch(number))
        return str(commits(few.path)[-1]["operation"])

    assert told(1, "z") == "WRITE"
    properties = f"'{CHANGE_FEED}' = 'true'"
    spark.sql(f"ALTER TABLE delta.`{few.path}` SET TBLPROPERTIES ({properties})")
    assert told(2, "w") == "MERGE"
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    rows = changes.option("startingVersion", 3).load(few.path).orderBy("_change_type").collect()
    assert [(row["_change_type"], row["left_value"]) for row in rows] == [
        ("update_postimage", "w"),
        ("update_preimage", "z"),
    ]
    assert cases(tmp_path)[0] == Counter({("a", 1, "w", 2, "y"): 1})


@pytest.mark.parametrize(
    ("small", "share", "whether_anew"), [(2**20, 0, True), (-1, 10**6, True), (-1, 1, False)]
)
def test_a_view_is_computed_anew_where_it_is_small_or_much_of_it_changes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small: int,
    share: int,
    whether_anew: bool,
) -> None:
    few = joined_view(tmp_path)
    few.write({"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0))
    monkeypatch.setattr(anew, "SMALL_BYTES", small)
    monkeypatch.setattr(anew, "SHARE", share)
    frames = {"rows": changes_of(spark, ("right", 2, "a", "y", 1, False))}
    with Evaluation(spark, frames, 1) as evaluation:
        assert anew.costs_less(evaluation, few.members()) is whether_anew


def test_views_that_do_not_fit_their_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="looked up by"):
        joined_view(tmp_path, left=kept(tmp_path, "left", by="key"))
    with pytest.raises(ArgumentError, match=r"left has 8 buckets, and .*right 4"):
        joined_view(tmp_path, left=kept(tmp_path, "left", buckets=8))
    with pytest.raises(ArgumentError, match="a path and a step of its own"):
        joined_view(tmp_path, step="left")
    with pytest.raises(ArgumentError, match="position names no column"):
        kept(tmp_path, "left", position=[])
    with pytest.raises(ColumnError, match="withColumnRenamed\\('my key', 'my_key'\\)"):
        kept(tmp_path, "left", key=["case", "my key"])
    parts = {side: kept(tmp_path, side, key="case") for side in ("left", "right")}
    with pytest.raises(ArgumentError, match="could have one key"):
        joined_view(tmp_path, "full", **parts)
