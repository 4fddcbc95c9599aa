"""Writes that are done at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.side_by_side import under_way
from tidegate.errors import ConflictError
from tidegate.jvm import at_the_commit


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


def connections(spark: SparkSession) -> set[int]:
    """List the connections to the JVM that are open."""
    return {id(each) for each in spark.sparkContext._gateway._gateway_client.deque}  # type: ignore[union-attr]


def test_a_thread_that_delta_has_called_back_leaves_no_connection(
    spark: SparkSession, tmp_path: Path
) -> None:
    looks: list[int] = []

    def write() -> None:
        with at_the_commit(spark, lambda: looks.append(1)):
            spark.range(1).write.format("delta").mode("append").save(str(tmp_path))

    write()
    before = connections(spark)
    for _ in range(3):
        with under_way(spark, [write]):
            pass
    assert len(looks) == 4
    assert connections(spark) <= before
