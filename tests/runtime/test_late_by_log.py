"""Rows that are late by the log alone: the same ones wherever batches are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidegate.errors import ArgumentError, CheckpointError
from tidegate.joins import IntervalJoin
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.compare import compare
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, Corrected
from tidegate.sources.by_log import running
from tidegate.testing import Broker

from ..tables import rows
from .late_by_log import MINUTE, OTHERS, TRANSFORMS, World, late_places
from .topics import reading

pytestmark = pytest.mark.jobs


@given(
    times=st.lists(st.none() | st.integers(-50, 50), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    before=st.none() | st.integers(-50, 50),
)
def test_the_newest_before_a_row_is_that_of_all_rows_before_it(
    times: list[int | None], cuts: list[int], before: int | None
) -> None:
    none = -(2**63)
    reached = none if before is None else before
    found: list[int | None] = []
    edges = [0, *sorted(cuts), len(times)]
    for first, last in pairwise(edges):
        part, reached = running(pa.array(times[first:last], pa.int64()), reached)
        found += part.to_pylist()
    for place, newest in enumerate(found):
        earlier = [time for time in [before, *times[:place]] if time is not None]
        assert newest == max(earlier, default=None)


@pytest.fixture
def world(broker: Broker, topic: str, tmp_path: Path) -> World:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    return World(broker, tmp_path, (topic,))


@pytest.mark.broker
@pytest.mark.draws("kind", short=["tumbling"], long=list(TRANSFORMS))
def test_the_late_rows_are_those_that_the_log_says(
    spark: SparkSession, world: World, kind: str
) -> None:
    transform, late_at = TRANSFORMS[kind]
    logs = world.send(0, 150)
    job = world.job(transform, "stream")
    done = run(job, spark)
    late = rows(world.root / "stream" / "rows.late", ["partition", "offset", "closes", "watermark"])
    expected = late_places(logs, late_at)
    assert Counter((row["partition"], row["offset"]) for row in late) == expected
    assert done.late == len(late) > 10
    assert all(row["closes"] <= row["watermark"] for row in late)
    found = compare(job, spark)
    assert found.agree, str(found)


@pytest.mark.broker
@pytest.mark.draws("kind", short=["session"], long=[*TRANSFORMS, *OTHERS])
def test_tables_are_the_same_wherever_batches_are_cut(
    spark: SparkSession, world: World, kind: str
) -> None:
    transform = TRANSFORMS[kind][0] if kind in TRANSFORMS else OTHERS[kind]
    world.send(0, 80)
    halves = world.job(transform, "in two halves", max_rows=90)
    run(halves, spark)
    begun = world.job(transform, "a backlog first", backlog=0)
    run(begun, spark)
    world.send(80, 150)
    run(halves, spark)
    run(begun, spark)
    run(world.job(transform, "at once", max_rows=10_000), spark)
    run(world.job(transform, "in small batches"), spark)
    expected = world.found("at once")
    assert len(expected) == 3
    for name in ("in two halves", "a backlog first", "in small batches"):
        assert world.found(name) == expected, name


@pytest.mark.broker
def test_a_join_has_the_same_rows_wherever_batches_are_cut(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    topics = (f"{topic}-l", f"{topic}-r")
    for each in topics:
        broker.create_topic(each, partitions=3, retention_ms=-1)
    world = World(broker, tmp_path, topics)
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how="left")
    world.send(0, 60)
    begun = world.job(near, "a backlog first", backlog=0)
    run(begun, spark)
    world.send(60, 100)
    run(begun, spark)
    run(world.job(near, "at once", max_rows=10_000), spark)
    expected = world.found("at once")
    assert len(expected) == 4
    assert world.found("a backlog first") == expected


@pytest.mark.broker
def test_a_lost_checkpoint_goes_on_with_what_the_table_says_was_newest(
    spark: SparkSession, world: World
) -> None:
    logs = world.send(0, 100)
    job = world.job(MINUTE, "lost", checkpoint=str(world.root / "first"))
    run(job, spark)
    again = world.job(MINUTE, "lost", checkpoint=str(world.root / "second"))
    more = world.send(100, 150)
    run(again, spark, resume_from_table=True)
    late = rows(world.root / "lost" / "rows.late", ["partition", "offset"])
    whole = [[*first, *second] for first, second in zip(logs, more, strict=True)]
    expected = late_places(whole, TRANSFORMS["tumbling"][1])
    assert Counter((row["partition"], row["offset"]) for row in late) == expected


@pytest.mark.broker
def test_a_checkpoint_is_bound_to_how_its_rows_are_late(spark: SparkSession, world: World) -> None:
    world.send(0, 40)
    job = world.job(MINUTE, "bound")
    by_batch = {
        name: Input(given.reading, watermarks="partition") for name, given in job.inputs.items()
    }
    run(world.job(MINUTE, "bound", inputs=by_batch), spark)
    with pytest.raises(CheckpointError, match=r"left\.late was None and is by the log, after"):
        run(job, spark)


@pytest.mark.broker
def test_a_partition_that_was_added_takes_a_new_checkpoint(
    spark: SparkSession, world: World
) -> None:
    world.send(0, 40)
    job = world.job(MINUTE, "added")
    run(job, spark)
    (topic,) = world.topics
    world.broker.add_partitions(topic, 4)
    with pytest.raises(CheckpointError, match=f"{topic}-3 came after the checkpoint"):
        run(job, spark)


def by_log(**settings: Any) -> Input:
    return Input(reading("localhost:9092", "clicks", **settings), watermarks="log")


REFUSED: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "no transform": ("no transform", lambda: {"transform": None}),
    "updates": ("windows that change", lambda: {"emission": "updates", "sink": corrected()}),
    "another input": (
        "an input with other watermarks",
        lambda: {
            "inputs": {"left": by_log(), "right": Input(reading("localhost:9092", "views"))},
            "transform": IntervalJoin("page", within=("1s", "1s"), how="inner"),
        },
    ),
}


def corrected() -> Corrected:
    return Corrected("/tmp/never", windowed=MINUTE, log=None)


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_decide_beside_the_log_is_refused(spark: SparkSession, case: str) -> None:
    told, parts = REFUSED[case]
    given: dict[str, Any] = {
        "inputs": {"clicks": by_log()},
        "transform": MINUTE,
        "sink": Append("/tmp/never"),
    }
    with pytest.raises(ArgumentError, match=told):
        Job(**{"name": "by-log", **given, **parts()})
