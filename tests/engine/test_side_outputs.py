"""Dead letters are counted exactly and committed before the target, or the batch is not written."""

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

from tests.support.delta_tables import is_there, rows
from tests.support.sink_batches import batch
from tidegate import Job
from tidegate.commit.batch import CommitContext
from tidegate.delta.commit_options import CommitOptions
from tidegate.delta.table_layout import TableLayout
from tidegate.engine.side_outputs import SideOutput, write_side_outputs
from tidegate.errors import AccountingError
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import Input, KafkaSource
from tidegate.sources.event_time_column import DEAD_LETTER, STOPPING, UNREADABLE
from tidegate.sources.kafka_source import RAW_SCHEMA
from tidegate.sources.side_output_rows import REASON, STAGE, SideOutputRows

FLAGS = f"{DEAD_LETTER} BOOLEAN, {UNREADABLE} BOOLEAN, {STOPPING} BOOLEAN"
SIDE_SCHEMA = f"{RAW_SCHEMA}, {FLAGS}, {STAGE} STRING, {REASON} STRING"
FORMAT = json_format(StructType([StructField("at", TimestampType())]))


def create_job(folder: Path, **settings: Any) -> Job:
    """Return a job whose tables are in a folder."""
    clicks = Input(KafkaSource("s:1", "t"), FORMAT, time="at", watermark_delay="1 second")
    return Job(
        name="j",
        inputs={"clicks": clicks},
        sink=Append(str(folder / "target")),
        dead_letters=str(folder / "dead"),
        **settings,
    )


def side_outputs(spark: SparkSession, letters: int, counted: int) -> Mapping[str, SideOutput]:
    """Return side outputs with dead letters; the count of the query is `counted`."""
    bad = ("t", 0, 0, None, None, b"bad", None, True, True, False, None, None)
    found = spark.createDataFrame([bad] * letters, SIDE_SCHEMA)
    return {"clicks": SideOutput(SideOutputRows(found, format=FORMAT, max_value_bytes=9), counted)}


@pytest.mark.parametrize(("counted", "found"), [(1, 0), (0, 1), (2, 1)])
def test_a_batch_with_another_number_of_dead_letters_is_not_written(
    counted: int, found: int, spark: SparkSession, tmp_path: Path
) -> None:
    outputs = side_outputs(spark, found, found)
    own = batch(0, dead_letters=counted)
    with (
        pytest.raises(
            AccountingError, match=rf"counted {counted} rows of dead_letters, but {found} were"
        ),
        write_side_outputs(create_job(tmp_path), spark, own, outputs),
    ):
        pass
    assert not (tmp_path / "dead").exists()


@pytest.mark.parametrize("found", [0, 1, 3])
def test_neither_table_is_committed_if_the_dead_letters_differ_while_they_are_written(
    found: int, spark: SparkSession, tmp_path: Path
) -> None:
    job = create_job(tmp_path)
    with (
        pytest.raises(
            AccountingError, match=f"counted 2 rows of dead_letters, but {found} were to be"
        ),
        write_side_outputs(
            job, spark, batch(0, dead_letters=2), side_outputs(spark, found, 2)
        ) as target_batch,
    ):
        job.sink.write({"rows": spark.range(3).toDF("n")}, target_batch, rows_out=3)
    assert not is_there(tmp_path / "dead")
    assert not is_there(tmp_path / "target")


@pytest.mark.parametrize("layout", [TableLayout(), TableLayout(cluster_by=["topic"])])
def test_the_target_is_written_concurrently_with_the_dead_letters_and_committed_after_them(
    layout: TableLayout, spark: SparkSession, tmp_path: Path
) -> None:
    job = create_job(tmp_path, side_table_layout=layout)
    with write_side_outputs(
        job, spark, batch(0, dead_letters=2), side_outputs(spark, 2, 2)
    ) as target_batch:
        assert job.sink.write({"rows": spark.range(3).toDF("n")}, target_batch) == "written"
        assert is_there(tmp_path / "dead")
    assert len(rows(tmp_path / "dead")) == 2
    assert len(rows(tmp_path / "target")) == 3


def test_the_targets_files_are_written_before_the_dead_letters_are_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = create_job(tmp_path)
    written = Event()
    from tidegate.delta import delta_table as table

    append = table.append

    def wait_for_target_files(
        frame: DataFrame, path: str, options: CommitOptions, *rest: Any, **more: Any
    ) -> None:
        if path == job.locations.dead_letters.path:
            assert written.wait(60), "the target waits for the dead letters before it writes a file"
        append(frame, path, options, *rest, **more)

    monkeypatch.setattr(table, "append", wait_for_target_files)
    with ExitStack() as stack:
        target_batch: CommitContext = stack.enter_context(
            write_side_outputs(job, spark, batch(0, dead_letters=1), side_outputs(spark, 1, 1))
        )
        wait_for_commits = target_batch.wait_for_prior_commits

        def record_files() -> None:
            assert list((tmp_path / "target").glob("*.parquet"))
            assert not is_there(tmp_path / "target")
            written.set()
            wait_for_commits()

        frames = {"rows": spark.range(3).toDF("n")}
        assert (
            job.sink.write(frames, replace(target_batch, wait_for_prior_commits=record_files))
            == "written"
        )
        assert is_there(tmp_path / "dead")
