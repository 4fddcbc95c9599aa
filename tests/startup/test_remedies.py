"""The remedy of each preflight error works: afterwards, the tables have each record once."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import WINDOWS, JobFiles
from tests.support.kafka_topics import pages_input
from tidegate import run
from tidegate.aggregates import count
from tidegate.errors import (
    ArgumentError,
    CheckpointError,
    LostCheckpointError,
    TableError,
    TableMismatchError,
    TidegateError,
)
from tidegate.formats import json_format
from tidegate.operations.doctor import examine_job
from tidegate.startup.preflight import Preflight
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


def require_complete(job_files: JobFiles) -> None:
    assert job_files.window_counts() == WINDOWS
    assert job_files.side_rows("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])
    assert job_files.side_rows("late") == Counter([(0, 8), (0, 16)])


def test_a_restored_table_can_be_restored_forward_and_a_folder_can_move(
    job_files: JobFiles, spark: SparkSession
) -> None:
    table = f"{job_files.root}/views"
    for version in (0, job_files.lineage.tables["append"].version):
        spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {version}")
    shutil.move(job_files.root / "views.late", job_files.root / "late_rows")
    run(job_files.job(late_rows=f"{job_files.root}/late_rows"), spark)
    shutil.move(job_files.root / "late_rows", job_files.root / "views.late")
    require_complete(job_files)


def test_missing_tables_are_created_again_with_recreate(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.root / "views")
    shutil.rmtree(job_files.root / "views.dead_letters")
    with pytest.raises(TableMismatchError, match="--recreate append"):
        run(job_files.job(), spark, recreate=["dead_letters"])
    with pytest.raises(ArgumentError, match=r"^invalid recreate: 'late', whose table exists"):
        run(job_files.job(), spark, recreate=["late"])
    run(job_files.job(), spark, recreate=["all"])
    assert job_files.window_counts() == {70: 1, 80: 1, 90: 1}
    assert job_files.side_rows("dead_letters") == Counter([(0, 17)])
    assert job_files.side_rows("late") == Counter([(0, 8), (0, 16)])


def test_a_job_resumes_after_a_lost_checkpoint_without_windows_whose_state_is_lost(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.checkpoint)
    with pytest.raises(LostCheckpointError, match="--resume-from-table"):
        run(job_files.job(), spark)
    run(job_files.job(), spark, resume_from_table=True)
    assert job_files.window_counts() == {start: n for start, n in WINDOWS.items() if start != 70}
    run(job_files.job(), spark)
    assert job_files.window_counts() == {start: n for start, n in WINDOWS.items() if start != 70}
    assert job_files.side_rows("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])
    # The first batch has a row of a window that the lost checkpoint has emitted.
    assert job_files.side_rows("late") == Counter([(0, 8), (0, 16)])


def test_a_renamed_job_without_its_checkpoint_is_refused_and_resumes_under_the_former_name(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.checkpoint)
    with pytest.raises(
        LostCheckpointError, match=r"views was written by the job 'left', output 'append', which"
    ) as refused:
        run(job_files.job(name="renamed"), spark)
    assert "name='left' and --resume-from-table" in refused.value.remedy
    findings = {each.check: each for each in examine_job(job_files.job(name="renamed"), spark)}
    assert findings["table append"].error is not None
    other = WindowAggregation(Tumbling("20 seconds"), aggs={"n": count()})
    changed = job_files.job(name="another", transform=other)
    with pytest.raises(LostCheckpointError, match="which has another query and") as refused:
        run(changed, spark)
    assert "name='left' and --resume-from-table" in refused.value.remedy
    pages = changed.inputs["pages"]
    source = replace(pages.source, start={job_files.topic: {0: -2}})
    # A second job that writes to the same table names its first offsets.
    Preflight(replace(changed, inputs={"pages": replace(pages, source=source)}), spark).claim()
    shutil.rmtree(job_files.checkpoint)
    run(job_files.job(name="left"), spark, resume_from_table=True)
    assert job_files.window_counts() == {start: n for start, n in WINDOWS.items() if start != 70}
    assert job_files.side_rows("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])


def test_a_checkpoint_without_lineage_files_is_refused_and_a_new_one_resumes(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.checkpoint / "tidegate")
    for resume_from_table in (False, True):
        with pytest.raises(CheckpointError, match="no lineage file is in") as error:
            run(job_files.job(), spark, resume_from_table=resume_from_table)
        assert "start with a new checkpoint and --resume-from-table" in error.value.remedy
    new = str(job_files.root / "new.checkpoint")
    run(job_files.job(checkpoint=new), spark, resume_from_table=True)
    assert job_files.window_counts() == {start: n for start, n in WINDOWS.items() if start != 70}
    assert job_files.side_rows("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])


def test_late_rows_with_fewer_columns_are_refused_and_their_table_can_be_created_again(
    job_files: JobFiles, spark: SparkSession
) -> None:
    pages = pages_input(job_files.broker.bootstrap_servers, job_files.topic)
    fewer = replace(pages, format=json_format("event_time TIMESTAMP"))
    with pytest.raises(TableError, match=r"views\.late.*page is missing") as error:
        run(job_files.job(inputs={"pages": fewer}), spark)
    assert "--recreate late" in error.value.remedy
    shutil.move(job_files.root / "views.late", job_files.root / "away")
    run(job_files.job(inputs={"pages": fewer}), spark, recreate=["late"])
    assert job_files.window_counts() == WINDOWS
    assert job_files.side_rows("late") == Counter([(0, 16)])


def test_a_restored_checkpoint_continues(
    job_files: JobFiles, spark: SparkSession, tmp_path: Path
) -> None:
    """All remedies are tested with one run at the end, because refused runs write nothing."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(job_files.checkpoint, copy)

    def require_remedy(kind: type[TidegateError], remedy: str, **options: object) -> None:
        with pytest.raises(kind) as error:
            run(job_files.job(**options), spark)
        assert re.search(remedy, error.value.remedy), error.value

    shutil.rmtree(job_files.checkpoint)
    require_remedy(LostCheckpointError, "restore that checkpoint")
    shutil.copytree(copy, job_files.checkpoint)
    max((job_files.checkpoint / "commits").glob("[0-9]*")).unlink()
    require_remedy(CheckpointError, "restore the .*checkpoint.* from a (copy|backup)")
    shutil.rmtree(job_files.checkpoint)
    shutil.copytree(copy, job_files.checkpoint)
    require_remedy(CheckpointError, "name='left'", name="other")
    table = f"delta.`{job_files.root}/views`"
    retention = "delta.setTransactionRetentionDuration"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{retention}' = 'interval 1 day')")
    require_remedy(TableError, rf"UNSET TBLPROPERTIES \('{retention}'\)")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{retention}')")
    run(job_files.job(), spark)
    require_complete(job_files)


def test_an_orphaned_checksum_file_of_a_killed_run_is_not_a_second_query(
    job_files: JobFiles, spark: SparkSession
) -> None:
    log = job_files.checkpoint / "offsets"
    number = max(int(file.name) for file in log.iterdir() if file.name.isdecimal()) + 1
    orphan = log / f".{number}.crc"
    orphan.write_bytes(b"crc\x00\x00\x00\x02\x00")
    (finding,) = [each for each in examine_job(job_files.job(), spark) if each.check == "checksums"]
    assert f"left by a killed run: {orphan}" in finding.result
    orphan.unlink()
    run(job_files.job(), spark)
    require_complete(job_files)
