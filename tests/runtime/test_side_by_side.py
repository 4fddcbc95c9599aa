"""Writes that are done at once."""

from __future__ import annotations

from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import ConflictError
from tidegate.runtime.query.side_by_side import side_by_side


def test_writes_are_under_way_together_and_their_jobs_are_the_querys(spark: SparkSession) -> None:
    met = Barrier(2, timeout=60)
    groups: list[str | None] = []

    def write() -> None:
        met.wait()
        groups.append(spark.sparkContext.getLocalProperty("spark.jobGroup.id"))

    spark.sparkContext.setJobGroup("query", "a query's jobs")
    try:
        side_by_side(spark, [write, write])
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert groups == ["query", "query"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_one_write_raises_is_raised_once_the_others_have_ended(
    spark: SparkSession, at: int
) -> None:
    failed = Barrier(3, timeout=60)
    ended: list[int] = []

    def write(number: int) -> None:
        failed.wait()
        if number == at:
            raise ConflictError("another writer")
        ended.append(number)

    with pytest.raises(ConflictError, match="another writer"):
        side_by_side(spark, [lambda n=number: write(n) for number in range(3)])  # type: ignore[misc]
    assert sorted([*ended, at]) == [0, 1, 2]
