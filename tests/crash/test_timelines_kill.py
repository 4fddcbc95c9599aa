"""The timelines job killed between its tables: what runs again finds the tables below as they were
before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.timelines import TOPICS, Topic, events, expected, options, read_timelines, send
from tests.support.crash_leftovers import batches
from tests.support.crash_oracle import require_same
from tests.support.delta_tables import rows
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.timelines import newest_posts
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("timelines", "named_posts", "posts", "users", "follows")
"""In the order in which a batch is written to them."""


@pytest.mark.draws(
    "kills",
    short=[[("timelines", 0), ("posts", 0)]],
    long=[[(table, number) for number in range(2) for table in TABLES[:-1]]],
)
def test_a_job_killed_between_its_tables_loses_no_change_and_repeats_none(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kills: list[tuple[str, int]]
) -> None:
    topics: dict[Topic, str] = {
        name: broker.create_topic(f"{topic}-{name}", partitions=2, retention_ms=-1)
        for name in TOPICS
    }
    made = events(800, users=30)
    send(broker.bootstrap_servers, topics, made)
    limits = {f"{name}.max_records_per_batch": 260 for name in TOPICS}
    job = SubmittedJob(
        "timelines",
        tmp_path / "tables",
        tmp_path / "job.log",
        {**options(broker, topics), **limits},
    )

    for table, number in kills:
        job.killed_at(table)
        behind = [name for name in TABLES if batches(job.root, name)[-1:] != [number]]
        assert behind == list(TABLES[TABLES.index(table) + 1 :]), "the kill came too late"

    summary = job.finished(spark)
    assert summary.skipped_batches == 1, "the view had the batch that was killed"
    assert [batches(job.root, name) for name in TABLES] == [[0, 1]] * len(TABLES)
    require_same(read_timelines(job.root), expected(made), "timelines")
    assert len(rows(job.root / "dead_letters")) == sum(event.broken for event in made) > 0

    # The reader's way: whose timeline, newest first.
    reader = Counter(follower for follower, *_ in expected(made).elements()).most_common(1)[0][0]
    written = {dict(event.key)["post_id"]: event.at for event in made if event.op == "post"}
    posts = [post for follower, _, post, *_ in expected(made) if follower == reader]
    timelines = spark.read.format("delta").load(str(job.root / "timelines"))
    shown = [row.post_id for row in newest_posts(timelines, reader, 10).collect()]
    assert shown == sorted(posts, key=written.__getitem__, reverse=True)[:10]
