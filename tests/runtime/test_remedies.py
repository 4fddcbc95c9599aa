"""Each way on that a refusal names leads on: the tables then hold each record once."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import (
    ArgumentError,
    CheckpointError,
    LostCheckpointError,
    ReplayMismatchError,
    TableError,
    TidegateError,
)
from tidegate.formats import json_format
from tidegate.runtime.doctor import examine
from tidegate.runtime.job import Input
from tidegate.runtime.query.preflight import Preflight
from tidegate.runtime.query.run import run

from .left import WINDOWS, Left
from .topics import reading

pytestmark = pytest.mark.broker


def require_whole(left: Left) -> None:
    assert left.views() == WINDOWS
    assert left.aside("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])
    assert left.aside("late") == Counter([(0, 8), (0, 16)])


def test_a_table_put_back_is_put_forward_again_and_a_folder_may_move(
    left: Left, spark: SparkSession
) -> None:
    table = f"{left.root}/views"
    noted = left.identity.tables["append"].version
    for version in (0, noted):
        spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {version}")
    shutil.move(left.root / "views.late", left.root / "stragglers")
    run(left.job(late=f"{left.root}/stragglers"), spark)
    shutil.move(left.root / "stragglers", left.root / "views.late")
    require_whole(left)


def test_tables_that_are_gone_begin_anew_when_that_is_asked_for(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.root / "views")
    shutil.rmtree(left.root / "views.dead_letters")
    with pytest.raises(ReplayMismatchError, match="--recreate append"):
        run(left.job(), spark, recreate=["dead"])
    with pytest.raises(ArgumentError, match=r"recreate names 'late', whose table is there"):
        run(left.job(), spark, recreate=["late"])
    run(left.job(), spark, recreate=["all"])
    assert left.views() == {70: 1, 80: 1, 90: 1}
    assert left.aside("dead_letters") == Counter([(0, 17)])
    assert left.aside("late") == Counter([(0, 8), (0, 16)])


def test_windows_go_on_after_a_lost_checkpoint_without_those_whose_state_is_lost(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.checkpoint)
    with pytest.raises(LostCheckpointError, match="--resume-from-table"):
        run(left.job(), spark)
    run(left.job(), spark, resume_from_table=True)
    assert left.views() == {start: n for start, n in WINDOWS.items() if start != 70}
    run(left.job(), spark)
    assert left.views() == {start: n for start, n in WINDOWS.items() if start != 70}
    assert left.aside("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])


def test_a_checkpoint_of_before_there_were_identity_files_is_adopted_and_goes_on(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.checkpoint / "tidegate")
    own = r',\\"(epoch|latest)\\":\d+|,\\"plan\\":\\"[0-9a-f]+\\"'
    for commit in left.root.glob("views*/_delta_log/*.json"):
        commit.write_text(re.sub(own, "", commit.read_text()))
        (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="is of the job 'left'"):
        Preflight(left.job(name="other"), spark).require()
    run(left.job(), spark)
    require_whole(left)
    assert left.identity.job == "left"


def test_late_rows_of_fewer_columns_are_refused_before_the_first_one_and_their_table_begins_anew(
    left: Left, spark: SparkSession
) -> None:
    given = reading(left.broker.servers, left.topic)
    fewer = Input(replace(given, format=json_format("event_time TIMESTAMP")))
    with pytest.raises(TableError, match=r"views\.late: page is missing") as no:
        run(left.job(inputs={"pages": fewer}), spark)
    assert "--recreate late" in no.value.hint
    shutil.move(left.root / "views.late", left.root / "away")
    run(left.job(inputs={"pages": fewer}), spark, recreate=["late"])
    assert left.views() == WINDOWS
    assert left.aside("late") == Counter([(0, 16)])


def test_what_was_put_back_as_it_was_is_gone_on_with(
    left: Left, spark: SparkSession, tmp_path: Path
) -> None:
    """One run for all of them, since each refusal has written nothing."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(left.checkpoint, copy)

    def refused(kind: type[TidegateError], remedy: str, **others: object) -> None:
        with pytest.raises(kind) as no:
            run(left.job(**others), spark)
        assert remedy in no.value.hint

    shutil.rmtree(left.checkpoint)
    refused(LostCheckpointError, "restore that checkpoint")
    shutil.copytree(copy, left.checkpoint)
    max((left.checkpoint / "commits").glob("[0-9]*")).unlink()
    refused(CheckpointError, "restore the checkpoint as a whole from a copy")
    shutil.rmtree(left.checkpoint)
    shutil.copytree(copy, left.checkpoint)
    refused(CheckpointError, "name='left'", name="other")
    table = f"delta.`{left.root}/views`"
    kept = "delta.setTransactionRetentionDuration"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{kept}' = 'interval 1 day')")
    refused(TableError, f"UNSET TBLPROPERTIES ('{kept}')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{kept}')")
    run(left.job(), spark)
    require_whole(left)


def test_a_check_sum_that_a_killed_run_has_left_is_told_from_a_second_query_and_deleted(
    left: Left, spark: SparkSession
) -> None:
    log = left.checkpoint / "offsets"
    number = max(int(file.name) for file in log.iterdir() if file.name.isdecimal()) + 1
    orphan = log / f".{number}.crc"
    orphan.write_bytes(b"crc\x00\x00\x00\x02\x00")
    (told,) = [each for each in examine(left.job(), spark) if each.check == "check sums"]
    assert f"no second query: {orphan}" in told.found
    orphan.unlink()
    run(left.job(), spark)
    require_whole(left)
