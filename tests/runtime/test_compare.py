"""A job's target against its log: it agrees, and a row that was changed is found."""

from __future__ import annotations

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.errors import CheckpointError, ColumnTypeError, DifferenceError
from tidegate.runtime.cli import compared
from tidegate.runtime.query.compare import compare
from tidegate.testing import Broker

from .left import Left

pytestmark = pytest.mark.broker


@pytest.fixture(scope="session")
def left(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Left:
    return Left.made(spark, broker, "compared", tmp_path_factory.mktemp("left"))


def test_a_target_agrees_with_its_log_until_rows_are_changed_or_taken_away(
    left: Left, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    compared(left.job(), spark, [])
    assert "6 rows expected, all of them found and no other, 1 late rows" in capsys.readouterr().out
    table = DeltaTable.forPath(spark, f"{left.root}/views")
    table.update(F.col("n") == 2, {"n": F.lit(7)})
    table.delete(F.col("window.start") == F.lit("2026-03-02T09:00:20Z").cast("timestamp"))
    with pytest.raises(DifferenceError, match="1 missing, 0 extra, 4 different"):
        compared(left.job(), spark, [])


def test_a_job_whose_target_does_not_follow_from_its_log_is_refused(
    left: Left, spark: SparkSession
) -> None:
    with pytest.raises(ColumnTypeError, match="each_batch"):
        compare(left.job(each_batch=lambda rows: rows), spark)
    with pytest.raises(CheckpointError, match="has no whole batch"):
        compare(left.job(checkpoint=f"{left.root}/other", name="other"), spark)
