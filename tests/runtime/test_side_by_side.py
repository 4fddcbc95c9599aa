"""Writes that are done at once."""

from __future__ import annotations

from functools import partial
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import ConflictError
from tidegate.runtime.query.side_by_side import under_way


def test_writes_are_under_way_together_and_their_jobs_are_the_querys(spark: SparkSession) -> None:
    met = Barrier(2, timeout=60)
    groups: list[str | None] = []

    def write() -> None:
        met.wait()
        groups.append(spark.sparkContext.getLocalProperty("spark.jobGroup.id"))

    spark.sparkContext.setJobGroup("query", "a query's jobs")
    try:
        with under_way(spark, [write]):
            write()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert groups == ["query", "query"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_one_write_raises_is_raised_once_the_others_have_ended(
    spark: SparkSession, at: int
) -> None:
    failed = Barrier(4, timeout=60)
    ended: list[int] = []

    def write(number: int) -> None:
        failed.wait()
        if number == at:
            raise ConflictError("another writer")
        ended.append(number)

    writes = [partial(write, number) for number in range(3)]
    with (
        pytest.raises(ConflictError, match="another writer"),
        under_way(spark, writes),
    ):
        failed.wait()
    assert sorted([*ended, at]) == [0, 1, 2]


def test_what_waits_for_the_writes_is_told_what_one_raised(spark: SparkSession) -> None:
    def write() -> None:
        raise ConflictError("another writer")

    passed: list[bool] = []

    def beside() -> None:
        with under_way(spark, [write]) as ended:
            ended()
            passed.append(True)

    with pytest.raises(ConflictError, match="another writer"):
        beside()
    assert not passed
