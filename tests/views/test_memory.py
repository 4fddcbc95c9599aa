"""What the tables of a small view hold stays in memory as long as it is what they hold."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidegate.jvm import delta_state, is_kept, release
from tidegate.testing.scans import Scans
from tidegate.views import view as views
from tidegate.views.view import View

from ..joins.histories import Log, history
from ..joins.tables import Kind
from ..sinks.batches import batch
from .test_view import cases, changes_of, choose, frame, joined_view, require_joined

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


def write(spark: SparkSession, view: View, number: int, value: str) -> None:
    """Write a batch which gives the one row of the left another value."""
    rows = [("left", 1, "a", value, number, False), ("right", 2, "a", "y", number, False)]
    view.write({"rows": changes_of(spark, *rows)}, batch(number))


def kept_rows(spark: SparkSession) -> set[int]:
    """List the frames whose rows Spark keeps; those that Delta keeps of its logs bear names."""
    kept_ones = spark._jsparkSession.sparkContext().getPersistentRDDs().valuesIterator()
    found = set()
    while kept_ones.hasNext():
        each = kept_ones.next()
        if each.name() is None:
            found.add(each.id())
    return found


def test_tables_that_are_in_memory_are_not_read_and_their_rows_are_kept_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, before = joined_view(tmp_path), kept_rows(spark)
    for number in range(3):
        with Scans(spark) as scans:
            write(spark, few, number, f"x{number}")
        assert not scans.tables.keys() & {"left", "right"}
        assert len(kept_rows(spark) - before) == 2
    choose(monkeypatch, False)
    write(spark, few, 3, "x3")
    assert kept_rows(spark) <= before
    assert {row[2] for row in cases(tmp_path)[0]} == {"x3"}


def test_tables_that_are_large_or_that_another_has_written_to_are_read_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = joined_view(tmp_path)
    write(spark, few, 0, "x0")
    write(spark, joined_view(tmp_path), 1, "of another")
    with Scans(spark) as scans:
        rows = changes_of(spark, ("right", 3, "a", "z", 2, False))
        few.write({"rows": rows}, batch(2))
    assert {"left", "right"} <= scans.tables.keys()
    found = {(row[2], row[3]) for row in cases(tmp_path)[0]}
    assert found == {("of another", 2), ("of another", 3)}
    monkeypatch.setattr(views, "SMALL_BYTES", -1)
    write(spark, few, 3, "x3")
    with Scans(spark) as scans:
        write(spark, few, 4, "x4")
    assert {"left", "right"} <= scans.tables.keys()


def test_rows_that_are_lost_with_an_executor_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = joined_view(tmp_path)
    write(spark, few, 0, "x0")
    for _, rows in few._memory._rows.values():
        assert is_kept(rows)
        release(rows)
        assert not is_kept(rows)
    with Scans(spark) as scans:
        write(spark, few, 1, "x1")
    assert {"left", "right"} <= scans.tables.keys()
    assert {row[2] for row in cases(tmp_path)[0]} == {"x1"}


def test_a_table_is_the_same_until_something_is_written_to_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    first = delta_state(spark, path)
    assert delta_state(spark, path).is_same(first)
    assert first.size() == sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    spark.range(3).write.format("delta").mode("append").save(path)
    assert not delta_state(spark, path).is_same(first)


@pytest.mark.draws(
    ("how", "batches"),
    short=[("inner", 4), ("full", 4)],
    long=[("inner", 12), ("left", 12), ("full", 12)],
)
@settings(
    max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(seed=st.integers(0, 2**32))
def test_a_view_that_remembers_is_the_join_of_its_tables_after_each_batch(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    how: Kind,
    batches: int,
    seed: int,
) -> None:
    assume(seed)
    root, random = tmp_path_factory.mktemp(how), Random(seed)
    logs: dict[int, Log] = defaultdict(Log)
    mine = joined_view(root, how, compact_every=random.choice([None, 3]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        for number, events in enumerate(history(seed, cases=60, batches=batches)):
            choose(monkeypatch, random.random() < 0.8)
            writer = mine if random.random() < 0.8 else joined_view(root, how)
            writer.write({"rows": frame(spark, events)}, batch(number))
            if random.random() < 0.2:
                table = root / random.choice(["left", "right"])
                spark.sql(f"OPTIMIZE delta.`{table}`")
            require_joined(root, how, logs, events, told=(seed, number))
