"""Deterministic lateness: the late rows do not depend on batch boundaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input
from tests.support.log_lateness_job import (
    MINUTE,
    OTHER_TRANSFORMS,
    TRANSFORMS,
    DisorderedTopics,
    late_offsets,
)
from tidegate import Input, Job, compare, run
from tidegate.errors import ArgumentError, CheckpointError
from tidegate.joins import IntervalJoin
from tidegate.sinks import Append, CorrectedWindows
from tidegate.sources.log_watermark import running_max
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


@given(
    times=st.lists(st.none() | st.integers(-50, 50), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    before=st.none() | st.integers(-50, 50),
)
def test_the_running_maximum_before_a_row_covers_all_earlier_rows(
    times: list[int | None], cuts: list[int], before: int | None
) -> None:
    none = -(2**63)
    reached = none if before is None else before
    found: list[int | None] = []
    edges = [0, *sorted(cuts), len(times)]
    for first, last in pairwise(edges):
        part, reached = running_max(pa.array(times[first:last], pa.int64()), reached)
        found += part.to_pylist()
    for place, newest in enumerate(found):
        earlier = [time for time in [before, *times[:place]] if time is not None]
        assert newest == max(earlier, default=None)


@pytest.fixture
def topics(broker: Broker, topic: str, tmp_path: Path) -> DisorderedTopics:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    return DisorderedTopics(broker, tmp_path, (topic,))


@pytest.mark.broker
@pytest.mark.draws("kind", short=["tumbling"], long=list(TRANSFORMS))
def test_the_late_rows_are_those_of_the_oracle(
    spark: SparkSession, topics: DisorderedTopics, kind: str
) -> None:
    transform, late_at = TRANSFORMS[kind]
    logs = topics.send(0, 150)
    job = topics.job(transform, "stream")
    done = run(job, spark)
    late = rows(
        topics.root / "stream" / "rows.late", ["partition", "offset", "final_at", "watermark"]
    )
    expected = late_offsets(logs, late_at)
    assert Counter((row["partition"], row["offset"]) for row in late) == expected
    assert done.late_rows == len(late) > 10
    assert all(row["final_at"] <= row["watermark"] for row in late)
    found = compare(job, spark)
    assert found.is_empty, str(found)


@pytest.mark.broker
@pytest.mark.draws("kind", short=["session"], long=[*TRANSFORMS, *OTHER_TRANSFORMS])
def test_tables_do_not_depend_on_batch_boundaries(
    spark: SparkSession, topics: DisorderedTopics, kind: str
) -> None:
    transform = TRANSFORMS[kind][0] if kind in TRANSFORMS else OTHER_TRANSFORMS[kind]
    topics.send(0, 80)
    halves = topics.job(transform, "in two halves", max_records=90)
    run(halves, spark)
    backfilled = topics.job(transform, "with a backfill", backfill_threshold=0)
    run(backfilled, spark)
    topics.send(80, 150)
    run(halves, spark)
    run(backfilled, spark)
    run(topics.job(transform, "at once", max_records=10_000), spark)
    run(topics.job(transform, "in small batches"), spark)
    expected = topics.table_rows("at once")
    assert len(expected) == 3
    for name in ("in two halves", "with a backfill", "in small batches"):
        assert topics.table_rows(name) == expected, name


@pytest.mark.broker
def test_the_rows_of_a_join_do_not_depend_on_batch_boundaries(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    names = (f"{topic}-l", f"{topic}-r")
    for name in names:
        broker.create_topic(name, partitions=3, retention_ms=-1)
    topics = DisorderedTopics(broker, tmp_path, names)
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how="left")
    topics.send(0, 60)
    backfilled = topics.job(near, "with a backfill", backfill_threshold=0)
    run(backfilled, spark)
    topics.send(60, 100)
    run(backfilled, spark)
    run(topics.job(near, "at once", max_records=10_000), spark)
    expected = topics.table_rows("at once")
    assert len(expected) == 4
    assert topics.table_rows("with a backfill") == expected


@pytest.mark.broker
def test_a_lost_checkpoint_resumes_with_the_maximum_event_times_of_the_table(
    spark: SparkSession, topics: DisorderedTopics
) -> None:
    logs = topics.send(0, 100)
    job = topics.job(MINUTE, "lost", checkpoint=str(topics.root / "first"))
    run(job, spark)
    again = topics.job(MINUTE, "lost", checkpoint=str(topics.root / "second"))
    more = topics.send(100, 150)
    run(again, spark, resume_from_table=True)
    late = rows(topics.root / "lost" / "rows.late", ["partition", "offset"])
    complete = [[*first, *second] for first, second in zip(logs, more, strict=True)]
    expected = late_offsets(complete, TRANSFORMS["tumbling"][1])
    assert Counter((row["partition"], row["offset"]) for row in late) == expected


@pytest.mark.broker
def test_a_checkpoint_is_bound_to_its_kind_of_lateness(
    spark: SparkSession, topics: DisorderedTopics
) -> None:
    topics.send(0, 40)
    job = topics.job(MINUTE, "bound")
    by_batch = {
        name: replace(job_input, watermarks="partition") for name, job_input in job.inputs.items()
    }
    run(topics.job(MINUTE, "bound", inputs=by_batch), spark)
    with pytest.raises(
        CheckpointError, match=r"left\.watermark changed from None to by the log, after"
    ):
        run(job, spark)


@pytest.mark.broker
def test_an_added_partition_requires_a_new_checkpoint(
    spark: SparkSession, topics: DisorderedTopics
) -> None:
    topics.send(0, 40)
    job = topics.job(MINUTE, "added")
    run(job, spark)
    (topic,) = topics.topics
    topics.broker.add_partitions(topic, 4)
    with pytest.raises(CheckpointError, match=f"does not have the partitions {topic}-3"):
        run(job, spark)


def log_input(**settings: Any) -> Input:
    return replace(pages_input("localhost:9092", "clicks", **settings), watermarks="log")


REFUSED: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "no transform": ("no transform", lambda: {"transform": None}),
    "changes": ("windows that change", lambda: {"emit": "changes", "sink": corrected()}),
    "another input": (
        "an input with other watermarks",
        lambda: {
            "inputs": {"left": log_input(), "right": pages_input("localhost:9092", "views")},
            "transform": IntervalJoin("page", within=("1s", "1s"), how="inner"),
        },
    ),
}


def corrected() -> CorrectedWindows:
    return CorrectedWindows("/tmp/never", aggregation=MINUTE, log=None)


@pytest.mark.parametrize("case", REFUSED)
def test_jobs_whose_lateness_depends_on_more_than_the_log_are_refused(
    spark: SparkSession, case: str
) -> None:
    message, options = REFUSED[case]
    defaults: dict[str, Any] = {
        "inputs": {"clicks": log_input()},
        "transform": MINUTE,
        "sink": Append("/tmp/never"),
    }
    with pytest.raises(ArgumentError, match=message):
        Job(**{"name": "by-log", **defaults, **options()})
