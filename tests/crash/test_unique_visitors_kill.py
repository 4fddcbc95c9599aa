"""The roll-up killed between two of its tables, and while it puts their files together: a batch is
merged into each of them once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.unique_visitors import AGGS, OPTIONS, agree, agrees
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.sink_batches import commits
from tests.support.spark_submit import SubmittedJob
from tidegate.aggregates import finish, merge_partials
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def optimized(table: Path) -> bool:
    return any(commit["operation"] == "OPTIMIZE" for commit in commits(str(table)))


@pytest.mark.draws(
    "kills", short=[[("hours", "days")]], long=[[("hours", "days"), ("days", "minutes")]]
)
def test_a_roll_up_killed_between_its_tables_counts_each_click_once_in_each(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kills: list[tuple[str, str]]
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = send_clicks(
        broker.bootstrap_servers,
        topic,
        clicks(4_000, seed=5, pages=9, rate=20, late_share=0.01),
        partitions=4,
    )
    own = {"kafka.bootstrap_servers": broker.bootstrap_servers, "clicks.topics": topic}
    options = {**OPTIONS, **own, "maintenance.compact_every": 2}
    job = SubmittedJob("unique_visitors", tmp_path / "tables", tmp_path / "job.log", options)

    for table, behind in kills:
        job.killed_at(table)
        assert batches(job.root, behind) == batches(job.root, table)[:-1], "the kill came too late"

    dead = job.root / "dead_letters"
    job.killed_when(lambda: optimized(dead), "dead letters in fewer files")
    assert batches(job.root, "minutes") == [0, 1]
    summary = job.finished(spark)
    assert summary.skipped_batches == 1, "minutes, the last table, has the batch that was killed"
    assert all(batches(job.root, table) == [0, 1, 2] for table in ("hours", "days", "minutes"))
    good = [sent.click for sent in ledger if sent.click.fault is None]
    assert sum(click.is_late for click in good) > 20
    agree(spark, job.root, good)
    # Sketches of all hours and of two pages, merged once more.
    pages = ["/", "/search"]
    hours = (
        spark.read.format("delta").load(str(job.root / "hours")).where(F.col("page").isin(pages))
    )
    (union,) = finish(merge_partials(hours, (), AGGS), AGGS).collect()
    matching = [click for click in good if click.page in pages]
    agrees(union, matching)
    views = Counter(click.page for click in matching).most_common()
    assert [(each["value"], each["count"]) for each in union["pages"]] == views
    assert len(rows(dead, ["offset"])) == len(ledger) - len(good) > 0
