"""Dead letters are as many as the stream has counted, and committed before the target, or nothing
of the batch is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from tidegate.commit.batch import Batch
from tidegate.commit.options import CommitOptions
from tidegate.errors import AccountingError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.side_outputs import Aside, kept_aside
from tidegate.sinks import Append, Layout
from tidegate.sources import KafkaSource, Reading
from tidegate.sources.aside import BAD, UNREAD, UNTIMED, SetAside
from tidegate.sources.kafka import RAW

from ..sinks.batches import batch
from ..tables import is_there, rows

FOUND = f"{RAW}, {BAD} BOOLEAN, {UNREAD} BOOLEAN, {UNTIMED} STRING"
FORM = json_format(StructType([StructField("at", TimestampType())]))


def made(folder: Path, **settings: Any) -> Job:
    """Return a job whose tables lie in a folder."""
    reading = Reading(KafkaSource("s:1", "t"), FORM, time="at", lateness="1 second")
    return Job(
        name="j",
        inputs={"clicks": Input(reading)},
        sink=Append(str(folder / "target")),
        dead=str(folder / "dead"),
        **settings,
    )


def read_again(spark: SparkSession, letters: int, counted: int) -> Mapping[str, Aside]:
    """Return so many dead letters, said to be as many as were counted."""
    bad = ("t", 0, 0, None, None, b"bad", None, True, True, None)
    found = spark.createDataFrame([bad] * letters, FOUND)
    return {"clicks": Aside(SetAside(found, format=FORM, cap=9, behind=None), counted)}


@pytest.mark.parametrize(("counted", "found"), [(1, 0), (0, 1), (2, 1)])
def test_a_batch_that_is_known_to_have_other_unreadable_records_is_not_written(
    counted: int, found: int, spark: SparkSession, tmp_path: Path
) -> None:
    aside = read_again(spark, found, found)
    own = replace(batch(0), dead=counted)
    with (
        pytest.raises(AccountingError, match=rf"counted {counted} dead rows, and {found} were"),
        kept_aside(made(tmp_path), spark, own, aside),
    ):
        pass
    assert not (tmp_path / "dead").exists()


@pytest.mark.parametrize("found", [0, 1, 3])
def test_neither_table_is_committed_where_other_records_are_unreadable_when_they_are_written(
    found: int, spark: SparkSession, tmp_path: Path
) -> None:
    job = made(tmp_path)
    with (
        pytest.raises(AccountingError, match=f"counted 2 dead rows, and {found} were to be"),
        kept_aside(job, spark, replace(batch(0), dead=2), read_again(spark, found, 2)) as waiting,
    ):
        job.sink.write({"rows": spark.range(3).toDF("n")}, waiting, rows_out=3)
    assert not is_there(tmp_path / "dead")
    assert not is_there(tmp_path / "target")


@pytest.mark.parametrize("layout", [Layout(), Layout(cluster_by=["topic"])])
def test_the_target_is_written_beside_the_dead_letters_and_committed_after_them(
    layout: Layout, spark: SparkSession, tmp_path: Path
) -> None:
    job = made(tmp_path, side_layout=layout)
    with kept_aside(job, spark, replace(batch(0), dead=2), read_again(spark, 2, 2)) as waiting:
        assert job.sink.write({"rows": spark.range(3).toDF("n")}, waiting) == "written"
        assert is_there(tmp_path / "dead")
    assert len(rows(tmp_path / "dead")) == 2
    assert len(rows(tmp_path / "target")) == 3


def test_the_targets_files_are_written_while_the_dead_letters_are_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = made(tmp_path)
    written = Event()
    from tidegate.commit import table

    append = table.append

    def held_back(
        frame: DataFrame, path: str, options: CommitOptions, *rest: Any, **more: Any
    ) -> None:
        if path == job.places.dead.path:
            assert written.wait(60), "the target waits for the dead letters before it writes a file"
        append(frame, path, options, *rest, **more)

    monkeypatch.setattr(table, "append", held_back)
    with ExitStack() as stack:
        waiting: Batch = stack.enter_context(
            kept_aside(job, spark, replace(batch(0), dead=1), read_again(spark, 1, 1))
        )
        ended = waiting.ahead
        assert ended is not None

        def ahead() -> None:
            assert list((tmp_path / "target").glob("*.parquet"))
            assert not is_there(tmp_path / "target")
            written.set()
            ended()

        frames = {"rows": spark.range(3).toDF("n")}
        assert job.sink.write(frames, replace(waiting, ahead=ahead)) == "written"
        assert is_there(tmp_path / "dead")
