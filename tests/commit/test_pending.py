"""A batch that is written while its rows are counted is committed once it is checked, or never."""

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

from tidegate.commit import Batch, table
from tidegate.commit.once import commit_once
from tidegate.commit.options import CommitOptions
from tidegate.commit.pending import pending
from tidegate.errors import AccountingError, TableError
from tidegate.sinks import Append, Layout, Outcome

from ..sinks.batches import batch, by_another, commits, rows, settings_left

LAYOUTS = {
    "plain": Layout(),
    "partitioned": Layout(partition_by=["part"], properties={"delta.appendOnly": True}),
    "clustered": Layout(cluster_by=["id"]),
}


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).withColumn("part", F.col("id") % 2)


def writing(sink: Append, frame: DataFrame) -> Callable[[Batch], Outcome]:
    """Return what writes a frame."""
    return lambda own: sink.write({"rows": frame}, own)


def stamp(path: Path) -> Mapping[str, Any]:
    """Return what the newest commit says of its batch."""
    said: Mapping[str, Any] = json.loads(commits(str(path))[-1]["userMetadata"])
    return said


def alter(spark: SparkSession, path: str) -> None:
    """Change a table as another writer, so that a commit that is under way meets a conflict."""
    change = f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('tidegate.test' = 'yes')"
    by_another(lambda: spark.sql(change))


def files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet"))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_commit_bears_what_was_known_after_its_rows_were_written(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t"
    sink = Append(str(path), layout=LAYOUTS[kind])
    for number in range(2):
        before = len(commits(str(path)))
        with pending(writing(sink, numbers(spark, 5)), batch(number), spark) as (way, commit):
            assert way.rows() == 5
            # The commit that lays a clustered table out is none of the batch's.
            apart = kind == "clustered" and number == 0
            assert len(commits(str(path))) == before + apart
            seen = Event()
            known = replace(batch(number), rows_in=7, dead=2, latest=9, ahead=seen.set)
            assert commit(known) == "written"
            assert seen.is_set()
        told = stamp(path)
        assert (told["batch"], told["rows"]) == (number, {"in": 7, "dead": 2, "out": 5})
        assert told["latest"] == 9
    assert len(rows(spark, str(path))) == 10
    assert settings_left(spark) == []


def test_nothing_of_a_batch_that_is_refused_is_left(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = Append(str(path), layout=LAYOUTS["partitioned"])
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    before = files(path)
    write = writing(sink, numbers(spark, 4))
    with suppress(ZeroDivisionError), pending(write, batch(1), spark) as (way, _):
        assert way.rows() == 4
        assert files(path) != before
        raise ZeroDivisionError
    assert files(path) == before
    with pending(write, batch(1), spark) as (way, _):
        assert way.rows() == 4
    assert files(path) == before
    assert len(commits(str(path))) == 1
    assert settings_left(spark) == []
    with pending(write, batch(1), spark) as (way, commit):
        assert way.rows() == 4
        assert commit(batch(1)) == "written"
    assert len(rows(spark, str(path))) == 7


def test_what_fails_ahead_of_the_commit_stops_it(spark: SparkSession, tmp_path: Path) -> None:
    def fails() -> None:
        raise AccountingError("the dead letters are others")

    write = writing(Append(str(tmp_path)), numbers(spark, 4))
    with (
        pytest.raises(AccountingError, match="the dead letters are others"),
        pending(write, batch(0), spark) as (_, commit),
    ):
        commit(replace(batch(0), ahead=fails))
    assert files(tmp_path) == []
    assert commits(str(tmp_path)) == []


def test_a_write_that_fails_says_so_where_its_rows_are_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    other = writing(sink, spark.range(1))
    with (
        pytest.raises(TableError, match="part is missing"),
        pending(other, batch(1), spark) as (
            way,
            _,
        ),
    ):
        way.rows()


def test_a_batch_that_the_table_has_is_neither_written_nor_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with pending(writing(sink, numbers(spark, 3)), batch(0), spark) as (way, _):
        assert way.rows() is None
    assert len(rows(spark, sink.path)) == 3


def test_after_a_conflict_the_rows_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    sink = Append(path)
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with pending(writing(sink, numbers(spark, 4)), batch(1), spark) as (way, commit):
        assert way.rows() == 4
        alter(spark, path)
        assert commit(replace(batch(1), rows_in=4)) == "written"
    assert len(rows(spark, path)) == 7
    assert stamp(Path(path))["rows"] == {"in": 4, "out": 4}


def test_rows_that_are_others_after_a_conflict_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    sink = Append(path)
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    sizes = iter([4, 5])

    def write(own: Batch) -> Outcome:
        def commit(options: CommitOptions) -> None:
            table.append(numbers(spark, next(sizes)), path, options)

        return commit_once(spark, path, own, "append", commit, {})

    with pending(write, batch(1), spark) as (way, commit):
        assert way.rows() == 4
        alter(spark, path)
        with pytest.raises(AccountingError, match="5 rows, where there were 4"):
            commit(batch(1))
    assert len(rows(spark, path)) == 3


def test_a_batch_that_another_writes_meanwhile_is_written_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "t"))
    sink.write({"rows": numbers(spark, 3)}, batch(0))
    with pending(writing(sink, numbers(spark, 4)), batch(1), spark) as (way, commit):
        assert way.rows() == 4
        by_another(lambda: sink.write({"rows": numbers(spark, 4)}, batch(1)))
        assert commit(batch(1)) == "written"
    assert len(rows(spark, sink.path)) == 7
