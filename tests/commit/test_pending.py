"""A pending write commits its batch once the checks allow it, or never."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.sink_batches import as_another_writer, batch, commits, leftover_settings, rows
from tidegate.commit.batch import CommitContext
from tidegate.commit.concurrent import start_pending_write
from tidegate.commit.delta_commit import commit_once
from tidegate.commit.protocol import Outcome
from tidegate.delta import delta_table as table
from tidegate.delta.commit_options import CommitOptions
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import AccountingError, TableError
from tidegate.sinks import Append

LAYOUTS = {
    "plain": TableLayout(),
    "partitioned": TableLayout(partition_by=["part"], properties={"delta.appendOnly": True}),
    "clustered": TableLayout(cluster_by=["id"]),
}


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).withColumn("part", F.col("id") % 2)


def write_of(sink: Append, frame: DataFrame) -> Callable[[CommitContext], Outcome]:
    """Return a function that writes a frame as a batch."""
    return lambda current: sink.write({"rows": frame}, current)


def stamp(path: Path) -> Mapping[str, Any]:
    """Return the JSON of the stamp of the newest commit."""
    data: Mapping[str, Any] = json.loads(commits(str(path))[-1]["userMetadata"])
    return data


def alter(spark: SparkSession, path: str) -> None:
    """Change a table as another writer, so that an open transaction has a conflict."""
    change = f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('tidegate.test' = 'yes')"
    as_another_writer(lambda: spark.sql(change))


def files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_commit_has_the_stamp_that_was_known_after_the_write(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    path = tmp_path / "t"
    sink = Append(str(path), layout=LAYOUTS[layout])
    for number in range(2):
        count_before = len(commits(str(path)))
        with start_pending_write(write_of(sink, numbers(spark, 5)), batch(number), spark) as (
            pending,
            commit,
        ):
            assert pending.wait_for_rows() == 5
            # The commit that creates a clustered table is not the batch.
            creates_table = layout == "clustered" and number == 0
            assert len(commits(str(path))) == count_before + creates_table
            waited = Event()
            counted = batch(number, rows_in=7, dead_letters=2, max_event_time=9)
            checked = replace(counted, wait_for_prior_commits=waited.set)
            assert commit(checked) == "written"
            assert waited.is_set()
        data = stamp(path)
        assert (data["batch"], data["rows"]) == (
            number,
            {"in": 7, "dead_letters": 2, "late": 0, "out": 5},
        )
        assert data["max_event_time"] == 9
    assert len(rows(spark, str(path))) == 10
    assert leftover_settings(spark) == []


def test_a_refused_batch_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = Append(str(path), layout=LAYOUTS["partitioned"])
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    files_before = files(path)
    write = write_of(sink, numbers(spark, 4))
    with suppress(ZeroDivisionError), start_pending_write(write, batch(1), spark) as (pending, _):
        assert pending.wait_for_rows() == 4
        assert files(path) != files_before
        raise ZeroDivisionError
    assert files(path) == files_before
    with start_pending_write(write, batch(1), spark) as (pending, _):
        assert pending.wait_for_rows() == 4
    assert files(path) == files_before
    assert len(commits(str(path))) == 1
    assert leftover_settings(spark) == []
    with start_pending_write(write, batch(1), spark) as (pending, commit):
        assert pending.wait_for_rows() == 4
        assert commit(batch(1)) == "written"
    assert len(rows(spark, str(path))) == 7


def test_a_failure_of_a_prior_commit_prevents_the_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    def fail() -> None:
        raise AccountingError("other dead letters")

    write = write_of(Append(str(tmp_path)), numbers(spark, 4))
    with (
        pytest.raises(AccountingError, match="other dead letters"),
        start_pending_write(write, batch(0), spark) as (_, commit),
    ):
        commit(replace(batch(0), wait_for_prior_commits=fail))
    assert files(tmp_path) == []
    assert commits(str(tmp_path)) == []


def test_waiting_for_the_rows_raises_the_failure_of_the_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    other = write_of(sink, spark.range(1))
    with (
        pytest.raises(TableError, match="part is missing"),
        start_pending_write(other, batch(1), spark) as (
            pending,
            _,
        ),
    ):
        pending.wait_for_rows()


def test_a_batch_that_the_table_has_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with start_pending_write(write_of(sink, numbers(spark, 3)), batch(0), spark) as (pending, _):
        assert pending.wait_for_rows() is None
    assert len(rows(spark, sink.path)) == 3


def test_after_a_conflict_the_rows_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    sink = Append(path)
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with start_pending_write(write_of(sink, numbers(spark, 4)), batch(1), spark) as (
        pending,
        commit,
    ):
        assert pending.wait_for_rows() == 4
        alter(spark, path)
        assert commit(batch(1, rows_in=4)) == "written"
    assert len(rows(spark, path)) == 7
    assert stamp(Path(path))["rows"] == {"in": 4, "dead_letters": 0, "late": 0, "out": 4}


def test_another_number_of_rows_after_a_conflict_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path)
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    sizes = iter([4, 5])

    def write(current: CommitContext) -> Outcome:
        def commit(options: CommitOptions) -> None:
            table.append(numbers(spark, next(sizes)), path, options)

        return commit_once(spark, path, current, "append", commit, {})

    with start_pending_write(write, batch(1), spark) as (pending, commit):
        assert pending.wait_for_rows() == 4
        alter(spark, path)
        with pytest.raises(AccountingError, match="5 rows after a conflict, and had 4"):
            commit(batch(1))
    assert len(rows(spark, path)) == 3


def test_a_batch_that_another_writes_meanwhile_is_written_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with start_pending_write(write_of(sink, numbers(spark, 4)), batch(1), spark) as (
        pending,
        commit,
    ):
        assert pending.wait_for_rows() == 4
        as_another_writer(lambda: sink.write({"rows": numbers(spark, 4)}, batch(1)))
        assert commit(batch(1)) == "written"
    assert len(rows(spark, sink.path)) == 7
