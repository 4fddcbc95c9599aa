"""The rows of small tables are cached between batches until another writer commits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.support.join_tables import JoinType
from tests.support.scan_metrics import ScanRecorder
from tests.support.sink_batches import batch
from tests.support.table_histories import TableLog, random_history
from tests.views.test_view import (
    assert_joined,
    cases,
    changes_of,
    frame,
    joined_view,
    set_recompute,
)
from tidegate.jvm import delta_state, has_all_checkpointed_rows, release_checkpointed_rows
from tidegate.views import view as view_module
from tidegate.views.view import View

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


def write(spark: SparkSession, view: View, number: int, value: str) -> None:
    """Write a batch that changes the value of the only row of the left side."""
    rows = [("left", 1, "a", value, number, False), ("right", 2, "a", "y", number, False)]
    view.write({"rows": changes_of(spark, *rows)}, batch(number))


def cached_frames(spark: SparkSession) -> set[int]:
    """Return the ids of cached frames; those that Delta caches have names."""
    persistent = spark._jsparkSession.sparkContext().getPersistentRDDs().valuesIterator()
    ids = set()
    while persistent.hasNext():
        rdd = persistent.next()
        if rdd.name() is None:
            ids.add(rdd.id())
    return ids


def test_cached_tables_are_not_read_and_are_cached_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, before = joined_view(tmp_path), cached_frames(spark)
    for number in range(3):
        with ScanRecorder(spark) as scans:
            write(spark, view, number, f"x{number}")
        assert not scans.tables.keys() & {"left", "right"}
        assert len(cached_frames(spark) - before) == 2
    set_recompute(monkeypatch, False)
    write(spark, view, 3, "x3")
    assert cached_frames(spark) <= before
    assert {row[2] for row in cases(tmp_path)[0]} == {"x3"}


def test_large_tables_and_tables_of_another_writer_are_read_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = joined_view(tmp_path)
    write(spark, view, 0, "x0")
    write(spark, joined_view(tmp_path), 1, "another writer")
    with ScanRecorder(spark) as scans:
        rows = changes_of(spark, ("right", 3, "a", "z", 2, False))
        view.write({"rows": rows}, batch(2))
    assert {"left", "right"} <= scans.tables.keys()
    values = {(row[2], row[3]) for row in cases(tmp_path)[0]}
    assert values == {("another writer", 2), ("another writer", 3)}
    monkeypatch.setattr(view_module, "SMALL_BYTES", -1)
    write(spark, view, 3, "x3")
    with ScanRecorder(spark) as scans:
        write(spark, view, 4, "x4")
    assert {"left", "right"} <= scans.tables.keys()


def test_rows_of_a_lost_executor_are_read_again(spark: SparkSession, tmp_path: Path) -> None:
    view = joined_view(tmp_path)
    write(spark, view, 0, "x0")
    for _, rows in view._cache.values():
        assert has_all_checkpointed_rows(rows)
        release_checkpointed_rows(rows)
        assert not has_all_checkpointed_rows(rows)
    with ScanRecorder(spark) as scans:
        write(spark, view, 1, "x1")
    assert {"left", "right"} <= scans.tables.keys()
    assert {row[2] for row in cases(tmp_path)[0]} == {"x1"}


def test_a_table_has_the_same_version_until_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    first = delta_state(spark, path)
    assert delta_state(spark, path).is_same_version(first)
    assert first.size_in_bytes() == sum(
        file.stat().st_size for file in (tmp_path / "t").glob("*.parquet")
    )
    spark.range(3).write.format("delta").mode("append").save(path)
    assert not delta_state(spark, path).is_same_version(first)


@pytest.mark.draws(
    ("how", "batches"),
    short=[("inner", 4), ("full", 4)],
    long=[("inner", 12), ("left", 12), ("full", 12)],
)
@settings(
    max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(seed=st.integers(0, 2**32))
def test_a_view_with_a_cache_equals_the_join_of_its_tables_after_each_batch(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    how: JoinType,
    batches: int,
    seed: int,
) -> None:
    assume(seed)
    root, random = tmp_path_factory.mktemp(how), Random(seed)
    logs: dict[int, TableLog] = defaultdict(TableLog)
    view = joined_view(root, how, compact_every=random.choice([None, 3]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        for number, events in enumerate(random_history(seed, cases=60, batches=batches)):
            set_recompute(monkeypatch, random.random() < 0.8)
            writer = view if random.random() < 0.8 else joined_view(root, how)
            writer.write({"rows": frame(spark, events)}, batch(number))
            if random.random() < 0.2:
                table = root / random.choice(["left", "right"])
                spark.sql(f"OPTIMIZE delta.`{table}`")
            assert_joined(root, how, logs, events, context=(seed, number))
