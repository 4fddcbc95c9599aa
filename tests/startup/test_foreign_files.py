"""A folder with files of another program never becomes a table of a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka_topics import pages_input
from tests.support.number_job import NumberJob
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.errors import SetupError, TableError
from tidegate.sinks import Append, FanOut
from tidegate.startup.environment import prepare_locations, table_paths
from tidegate.startup.preflight import Preflight
from tidegate.windows import Tumbling, WindowAggregation

OUTPUTS = ("append", "log", "late", "dead_letters", "offset_gaps")


def windows_job(root: Path) -> Job:
    log = Append(f"{root}/log", output="log")
    return Job(
        name="views",
        inputs={"clicks": pages_input("localhost:1", "clicks")},
        transform=WindowAggregation(Tumbling("1 minute"), by="page", aggs={"n": count()}),
        sink=FanOut(Append(f"{root}/views"), other_sinks=[log]),
    )


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_folder_of_parquet_files_is_not_taken_as_the_table_of_an_output(
    output: str, spark: SparkSession, tmp_path: Path
) -> None:
    job = windows_job(tmp_path)
    folder = table_paths(job)[output]
    spark.range(3).write.parquet(folder)
    with pytest.raises(TableError, match=rf"^invalid table {folder} of output '{output}'") as error:
        Preflight(job, spark).require_all()
    assert "not a Delta table, and not empty" in error.value.problem
    assert "CONVERT TO DELTA" in error.value.remedy
    assert not Path(job.locations.checkpoint).exists()


def test_every_output_of_the_job_was_tried(tmp_path: Path) -> None:
    assert set(table_paths(windows_job(tmp_path))) == set(OUTPUTS)


def test_a_single_file_in_the_place_of_a_table_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "views.late").write_text("notes")
    with pytest.raises(SetupError, match=r"views\.late cannot be a folder"):
        Preflight(windows_job(tmp_path), spark).require_all()
    with pytest.raises(SetupError, match=r"views\.late cannot be a folder"):
        prepare_locations(windows_job(tmp_path), spark)


def test_an_empty_folder_and_a_converted_folder_are_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = windows_job(tmp_path)
    (tmp_path / "views").mkdir()
    assert job.transform is not None
    rows = job.transform(spark.createDataFrame([], "page STRING, event_time TIMESTAMP"))
    rows.write.parquet(f"{tmp_path}/log")
    spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/log`")
    Preflight(job, spark).require_all()


@pytest.mark.broker
def test_files_that_an_interrupted_batch_left_do_not_stop_the_job(
    numbers: NumberJob, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    gaps = Path(numbers.job().locations.offset_gaps.path)
    gaps.mkdir()
    (gaps / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    run(numbers.job(), spark)
    assert numbers.values() == [1.0, 3.0]


def test_a_path_below_a_file_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    job = windows_job(tmp_path / "notes.txt")
    with pytest.raises(SetupError, match=r"notes\.txt/.* cannot be a folder") as error:
        prepare_locations(job, spark)
    assert error.value.detail == f"{tmp_path}/notes.txt is a file."
