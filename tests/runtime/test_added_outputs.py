"""An output that lacks the batches so far begins only where that is asked for."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import ArgumentError, CheckpointError
from tidegate.runtime.query.preflight import Preflight
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, FanOut

from ..tables import rows
from .left import WINDOWS, Left

pytestmark = pytest.mark.broker


def with_log(left: Left) -> FanOut:
    log = Append(str(left.root / "log"), step="log")
    return FanOut(Append(str(left.root / "views")), also=[log])


def logged(left: Left) -> dict[int, int]:
    found = rows(left.root / "log")
    return {int(row["window"]["start"].timestamp()) % 3600: row["n"] for row in found}


def test_an_output_that_is_added_is_refused_and_begins_with_the_next_batch_where_asked_for(
    left: Left, spark: SparkSession
) -> None:
    batch = left.identity.batch
    with pytest.raises(CheckpointError, match=r"step 'log' \(.*/log\) has none of the") as error:
        run(left.job(sink=with_log(left)), spark)
    assert f"end with batch {batch}:" in str(error.value)
    assert "--recreate log" in str(error.value)
    with pytest.raises(CheckpointError, match="step 'log'"):
        run(left.job(sink=with_log(left)), spark, recreate=["all"])
    with pytest.raises(ArgumentError, match=r"recreate names 'append', whose table is there"):
        run(left.job(sink=with_log(left)), spark, recreate=["log", "append"])
    assert left.identity.batch == batch
    run(left.job(sink=with_log(left)), spark, recreate=["log"])
    run(left.job(sink=with_log(left)), spark)
    assert left.views() == WINDOWS
    assert logged(left) == {start: n for start, n in WINDOWS.items() if start >= 70}


def test_a_lost_checkpoint_does_not_go_on_with_an_output_that_has_nothing_of_it(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.checkpoint)
    job = left.job(sink=with_log(left))
    with pytest.raises(CheckpointError, match=r"step 'log' .* has none of"):
        Preflight(job, spark, resume=True).require()
    found = Preflight(job, spark, resume=True, recreate=["log"]).require()
    assert found.steps == ("log", "append")


def test_a_checkpoint_that_noted_no_steps_takes_those_of_its_next_start(
    left: Left, spark: SparkSession
) -> None:
    newest = left.identities[-1]
    newest.write_text(replace(left.identity, steps=None).text())
    assert Preflight(left.job(sink=with_log(left)), spark).require().steps == ("log", "append")
