"""Writes that run at the same time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.concurrent import run_in_background
from tidegate.errors import ConflictError
from tidegate.jvm import run_before_commit


def test_writes_run_together_and_their_jobs_belong_to_the_query(spark: SparkSession) -> None:
    barrier = Barrier(2, timeout=60)
    groups: list[str | None] = []

    def write() -> None:
        barrier.wait()
        groups.append(spark.sparkContext.getLocalProperty("spark.jobGroup.id"))

    spark.sparkContext.setJobGroup("query", "a query's jobs")
    try:
        with run_in_background(spark, [write]):
            write()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert groups == ["query", "query"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_the_failure_of_one_write_is_raised_after_the_others_have_ended(
    spark: SparkSession, failing: int
) -> None:
    barrier = Barrier(4, timeout=60)
    ended: list[int] = []

    def write(number: int) -> None:
        barrier.wait()
        if number == failing:
            raise ConflictError("another writer")
        ended.append(number)

    writes = [partial(write, number) for number in range(3)]
    with (
        pytest.raises(ConflictError, match="another writer"),
        run_in_background(spark, writes),
    ):
        barrier.wait()
    assert sorted([*ended, failing]) == [0, 1, 2]


def test_waiting_for_the_writes_raises_their_failure(spark: SparkSession) -> None:
    def write() -> None:
        raise ConflictError("another writer")

    continued: list[bool] = []

    def commit() -> None:
        with run_in_background(spark, [write]) as wait_for_writes:
            wait_for_writes()
            continued.append(True)

    with pytest.raises(ConflictError, match="another writer"):
        commit()
    assert not continued


def connections(spark: SparkSession) -> set[int]:
    """Return the open connections to the JVM."""
    return {id(each) for each in spark.sparkContext._gateway._gateway_client.deque}  # type: ignore[union-attr]


def test_a_thread_with_a_commit_hook_leaves_no_connection(
    spark: SparkSession, tmp_path: Path
) -> None:
    calls: list[int] = []

    def write() -> None:
        with run_before_commit(spark, lambda: calls.append(1)):
            spark.range(1).write.format("delta").mode("append").save(str(tmp_path))

    write()
    connections_before = connections(spark)
    for _ in range(3):
        with run_in_background(spark, [write]):
            pass
    assert len(calls) == 4
    assert connections(spark) <= connections_before
