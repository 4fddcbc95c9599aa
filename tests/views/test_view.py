"""View: the join of two changing tables, maintained batch by batch."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import rows as stored
from tests.support.join_tables import JoinedRow, JoinType, expected_join
from tests.support.scan_metrics import ScanRecorder
from tests.support.sink_batches import batch, commits
from tests.support.table_histories import SCHEMA, Event, Side, TableLog, random_history
from tidegate.errors import ArgumentError, ColumnError, TableError, TableMismatchError
from tidegate.jvm import CHANGE_FEED, with_settings
from tidegate.testing import CrashError, crash_after
from tidegate.views import bucketing
from tidegate.views import view as view_module
from tidegate.views._incremental import Evaluation
from tidegate.views.bucketing import BUCKET, RECENT, read_view
from tidegate.views.keyed_table import KeyedTable
from tidegate.views.view import View

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
COLUMNS = ["case", "key", "left_id", "left_value", "right_id", "right_value"]


def keyed_table(root: Path, side: str, **options: Any) -> KeyedTable:
    def changes(frame: DataFrame) -> DataFrame:
        names = {"id": f"{side}_id", "value": f"{side}_value"}
        return frame.where(F.col("side") == side).drop("side").withColumnsRenamed(names)

    arguments: dict[str, Any] = {
        "key": ["case", f"{side}_id"],
        "lookup_by": ["case", "key"],
        "order_by": "version",
        "buckets": 4,
    }
    return KeyedTable(
        str(root / side), output=side, input="rows", **{"to_changes": changes} | arguments | options
    )


def joined_view(root: Path, how: JoinType = "inner", **options: Any) -> View:
    arguments: dict[str, Any] = {
        "left": keyed_table(root, "left"),
        "right": keyed_table(root, "right"),
        "buckets": 4,
    }
    return View(str(root / "view"), on=["case", "key"], how=how, **arguments | options)


def set_recompute(monkeypatch: pytest.MonkeyPatch, recompute: bool) -> None:
    """Make batches recompute the view, or maintain it incrementally."""
    monkeypatch.setattr(view_module, "SMALL_BYTES", 2**40 if recompute else -1)
    monkeypatch.setattr(view_module, "REWRITE_COST_RATIO", 0)


def frame(spark: SparkSession, events: list[Event]) -> DataFrame:
    return spark.createDataFrame(events, SCHEMA)


def cases(root: Path) -> dict[int, Counter[JoinedRow]]:
    """Read the rows of a view by case, without Spark."""
    by_case: dict[int, Counter[JoinedRow]] = defaultdict(Counter)
    for row in stored(root / "view"):
        by_case[row["case"]][tuple(row[name] for name in COLUMNS[1:])] += 1
    return by_case


def assert_joined(
    root: Path,
    how: JoinType,
    logs: dict[int, TableLog],
    events: list[Event],
    context: tuple[int, int],
) -> None:
    """Apply the changes to the logs, and assert that the view equals the join of its tables."""
    for event in events:
        logs[event[1]].apply(event)
    stored_rows = cases(root)
    for case, log in logs.items():
        expected = expected_join(log.table("left"), log.table("right"), how)
        assert stored_rows[case] == expected, (*context, case)


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
def test_a_view_equals_the_join_of_its_tables_after_each_batch_and_any_crash(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    how: JoinType,
    batches: int,
    seed: int,
) -> None:
    assume(seed)
    root, random = tmp_path_factory.mktemp(how), Random(seed)
    cut = random_history(seed, cases=60, batches=batches)
    logs: dict[int, TableLog] = defaultdict(TableLog)
    overwrites = {OVERWRITES: random.choice(["static", "dynamic"])}
    with pytest.MonkeyPatch.context() as monkeypatch, with_settings(spark, overwrites):
        monkeypatch.setattr(bucketing, "MAX_RECENT_ROWS", random.choice([1, 1000]))
        for number, events in enumerate(cut):
            rows = frame(spark, events)
            table = root / random.choice(["view", "left", "right"])
            set_recompute(monkeypatch, random.choice([True, False]))
            with crash_after(table, batch=number), pytest.raises(CrashError):
                joined_view(root, how).write({"rows": rows}, batch(number))
            set_recompute(monkeypatch, random.choice([True, False]))
            joined_view(root, how, compact_every=2).write({"rows": rows}, batch(number))
            assert_joined(root, how, logs, events, context=(seed, number))


def changes_of(
    spark: SparkSession, *events: tuple[str, int, str | None, str | None, int, bool]
) -> DataFrame:
    return frame(spark, [(side, 0, *rest) for side, *rest in events])  # type: ignore[misc]


def test_a_committed_batch_is_skipped_and_tables_at_different_batches_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    joined_view(tmp_path).write(
        {"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0)
    )
    shutil.copytree(tmp_path / "right", tmp_path / "copy")
    second = changes_of(spark, ("right", 2, "a", "y", 1, False))
    assert joined_view(tmp_path).write({"rows": second}, batch(1)) == "written"
    assert joined_view(tmp_path).write({"rows": second}, batch(1)) == "skipped"
    with pytest.raises(TableMismatchError, match="plans offsets another-1"):
        joined_view(tmp_path).write({"rows": second}, batch(1, plan="another"))
    with pytest.raises(TableMismatchError, match="view is at batch None"):
        joined_view(tmp_path).write({"rows": second}, batch(0, query_id="another"))
    with pytest.raises(TableError, match=r"invalid buckets: 8 for .*view\n.*created with: 4"):
        joined_view(tmp_path, buckets=8).write({"rows": second}, batch(2))
    shutil.rmtree(tmp_path / "right")
    shutil.copytree(tmp_path / "copy", tmp_path / "right")
    with pytest.raises(TableMismatchError, match="right is at batch 0"):
        joined_view(tmp_path).write({"rows": second}, batch(2))
    shutil.rmtree(tmp_path / "right")
    with pytest.raises(TableMismatchError, match="right does not exist"):
        joined_view(tmp_path).write({"rows": second}, batch(2))
    assert cases(tmp_path)[0] == Counter({("a", 1, "x", 2, "y"): 1})


def test_a_change_with_a_null_in_its_key_is_not_applied(
    spark: SparkSession, tmp_path: Path
) -> None:
    unkeyed = spark.createDataFrame([("left", 0, None, "a", "x", 1, False)], SCHEMA)
    view = joined_view(tmp_path)
    frames = {"rows": unkeyed.union(changes_of(spark, ("left", 1, "a", "x", 1, False)))}
    with view.accepted(frames, batch(0).plan) as accepted:
        ((rejected, reason),) = accepted.rejections
        reasons = rejected.select("left_value", reason.alias("reason"))
        found = reasons.where("reason IS NOT NULL").collect()
    assert [tuple(row) for row in found] == [("x", "the key column 'left_id' is null")]
    assert view.write(frames, batch(0)) == "written"
    assert cases(tmp_path)[0].total() == 0


def test_a_reserved_column_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    reserved = keyed_table(
        tmp_path,
        "left",
        to_changes=lambda frame: frame.withColumnsRenamed({"id": "left_id", "value": BUCKET}),
    )
    with pytest.raises(ColumnError, match="reserved column name: _bucket"):
        joined_view(tmp_path, left=reserved).write(
            {"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0)
        )
    assert not (tmp_path / "view").exists()


def file_counts(spark: SparkSession, view: View) -> list[tuple[int, int]]:
    """Return the number of files of recent rows and of other rows, by table."""
    counts = []
    for each in view.source_tables():
        recent = F.col(BUCKET) == RECENT
        rows = spark.read.format("delta").load(each.path)
        counts.append((len(rows.where(recent).inputFiles()), len(rows.where(~recent).inputFiles())))
    return counts


@pytest.mark.draws(("rows", "buckets", "changed"), short=[(6_000, 60, 2)], long=[(100_000, 200, 5)])
def test_the_cost_of_a_batch_is_proportional_to_its_changes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    buckets: int,
    changed: int,
) -> None:
    # Move rows into buckets even if a short run has view rows.
    monkeypatch.setattr(bucketing, "MAX_RECENT_ROWS", 1)
    set_recompute(monkeypatch, False)
    sides: dict[str, Any] = {
        side: keyed_table(tmp_path, side, buckets=buckets) for side in ("left", "right")
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
    with ScanRecorder(spark) as scans:
        large.write(
            {"rows": changes(spark.createDataFrame([(id_,) for id_ in ids], "id int"), 2, "new")},
            batch(1),
        )
    # A row has one bucket by its key and one by the join key; each bucket is one file.
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
    with ScanRecorder(spark) as scans:
        matches = read_view(view, case=0, key=f"k{ids[-1]}").collect()
    assert [(row.left_value, row.right_value) for row in matches] == [("new", "new")]
    assert scans.tables["view"].files == 2


def test_recent_rows_supersede_bucketed_rows_before_and_after_compaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketing, "MAX_RECENT_ROWS", 1)
    set_recompute(monkeypatch, False)
    sides: tuple[Side, ...] = ("left", "right")
    first = [(side, id_, "ab"[id_ % 2], "x", 1, False) for side in sides for id_ in range(40)]
    small, log = joined_view(tmp_path), TableLog()

    def write(number: int, *events: tuple[Side, int, str | None, str | None, int, bool]) -> None:
        small.write({"rows": changes_of(spark, *events)}, batch(number))
        for side, *rest in events:
            log.apply((side, 0, *rest))  # type: ignore[arg-type]
        assert cases(tmp_path)[0] == expected_join(
            log.table("left"), log.table("right"), "inner"
        ), number

    write(0, *first)
    assert [others for _, others in file_counts(spark, small)] == [0, 0, 0]
    small.compact(spark)
    bucketed = file_counts(spark, small)
    assert all(recent == 0 and others > 1 for recent, others in bucketed)

    write(1, ("left", 0, "b", "moved", 2, False), ("right", 1, None, None, 3, True))
    write(
        2,
        ("left", 2, None, None, 2, True),
        ("left", 3, "c", "alone", 2, False),
        ("right", 1, "b", "late", 2, False),
    )
    recent = [each for each, _ in file_counts(spark, small)]
    assert recent == [1, 2, 1], (
        "batch 2 only deletes rows of the view, and the change of the right is outdated"
    )
    small.compact(spark)
    assert file_counts(spark, small)[1:] == [(1, others) for _, others in bucketed[1:]], (
        "there are few recent rows, so bucketed rows are not rewritten"
    )

    write(
        3,
        ("left", 0, "a", "moved back", 3, False),
        ("left", 2, "a", "back", 3, False),
        ("left", 3, None, None, 3, True),
    )


def test_a_small_view_is_recomputed_unless_it_has_a_change_feed(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = joined_view(tmp_path)
    first = changes_of(spark, ("left", 1, "a", "x", 1, False), ("right", 2, "a", "y", 1, False))
    view.write({"rows": first}, batch(0))

    def operation_of(number: int, value: str) -> str:
        rows = changes_of(spark, ("left", 1, "a", value, number, False))
        view.write({"rows": rows}, batch(number))
        return str(commits(view.path)[-1]["operation"])

    assert operation_of(1, "z") == "WRITE"
    properties = f"'{CHANGE_FEED}' = 'true'"
    spark.sql(f"ALTER TABLE delta.`{view.path}` SET TBLPROPERTIES ({properties})")
    assert operation_of(2, "w") == "MERGE"
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    rows = changes.option("startingVersion", 3).load(view.path).orderBy("_change_type").collect()
    assert [(row["_change_type"], row["left_value"]) for row in rows] == [
        ("update_postimage", "w"),
        ("update_preimage", "z"),
    ]
    assert cases(tmp_path)[0] == Counter({("a", 1, "w", 2, "y"): 1})


@pytest.mark.parametrize(
    ("small", "share", "recompute"), [(2**20, 0, True), (-1, 10**6, True), (-1, 1, False)]
)
def test_a_view_is_recomputed_if_it_is_small_or_much_of_it_changes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small: int,
    share: int,
    recompute: bool,
) -> None:
    view = joined_view(tmp_path)
    view.write({"rows": changes_of(spark, ("left", 1, "a", "x", 1, False))}, batch(0))
    monkeypatch.setattr(view_module, "SMALL_BYTES", small)
    monkeypatch.setattr(view_module, "REWRITE_COST_RATIO", share)
    frames = {"rows": changes_of(spark, ("right", 2, "a", "y", 1, False))}
    with Evaluation(spark, frames, 1) as evaluation:
        assert view_module.is_recompute_cheaper(evaluation, view.source_tables()) is recompute


def test_views_that_do_not_match_their_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="invalid lookup_by of"):
        joined_view(tmp_path, left=keyed_table(tmp_path, "left", lookup_by="key"))
    with pytest.raises(ArgumentError, match=r"invalid buckets: 8 of .*left and 4 of .*right"):
        joined_view(tmp_path, left=keyed_table(tmp_path, "left", buckets=8))
    with pytest.raises(ArgumentError, match="a different path and output"):
        joined_view(tmp_path, output="left")
    with pytest.raises(ArgumentError, match="invalid order_by"):
        keyed_table(tmp_path, "left", order_by=[])
    with pytest.raises(ColumnError, match="withColumnRenamed\\('my key', 'my_key'\\)"):
        keyed_table(tmp_path, "left", key=["case", "my key"])
    parts = {side: keyed_table(tmp_path, side, key="case") for side in ("left", "right")}
    with pytest.raises(ArgumentError, match="for a full join"):
        joined_view(tmp_path, "full", **parts)
