"""A recount of a batch has the same counts as the counts observed while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.test_accounting import batch
from tests.support.kafka_topics import pages_input
from tests.support.log_lateness_job import MINUTE, DisorderedTopics
from tidegate import run
from tidegate.engine import accounting
from tidegate.engine.accounting import ObservedCounts, Recounter
from tidegate.joins import IntervalJoin
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


@pytest.mark.draws(
    "kind",
    short=["log lateness, backfill"],
    long=["log lateness", "log lateness, backfill", "backfill"],
)
def test_both_ways_of_counting_write_the_same_tables(
    kind: str,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    topics = DisorderedTopics(broker, tmp_path, (topic,))
    source = pages_input(
        broker.bootstrap_servers, topic, watermark_delay="5 seconds", max_records=60
    )
    job_input = replace(
        source,
        where="second(event_time) % 7 != 0",
        watermarks="log" if "log lateness" in kind else "global",
    )
    threshold = 0 if "backfill" in kind else None
    first: list[ObservedCounts] = []
    runs: dict[str, list[Mapping[str, Any]]] = {"observed": [], "recounted": []}

    def is_needed(_: Recounter, seen: ObservedCounts, __: int) -> bool:
        first.append(seen)
        return True

    topics.send(0, 80)
    for part in range(2):
        for name, done in runs.items():
            job = topics.job(MINUTE, name, inputs={"left": job_input}, backfill_threshold=threshold)
            with monkeypatch.context() as patched:
                if name == "recounted":
                    patched.setattr(Recounter, "is_needed", is_needed)
                found = asdict(run(job, spark))
            done.append({each: found[each] for each in found if each != "seconds"})
        if not part:
            topics.send(80, 150)
    assert runs["observed"] == runs["recounted"]
    assert topics.table_rows("observed") == topics.table_rows("recounted")
    recounted = runs["recounted"]
    assert all(
        sum(each[what] for each in recounted)
        for what in ("dead_letters", "filtered_rows", "late_rows")
    )
    assert sum(seen.rows for seen in first) == sum(each["rows_in"] for each in recounted)


def test_a_lost_executor_is_reported_once_per_input(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [2]
    monkeypatch.setattr(accounting, "count_lost_executors", lambda _: lost[-1])
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how="inner")
    job = DisorderedTopics(broker, tmp_path, ("impressions", "clicks")).job(near, "rows")
    factory = accounting.RecounterFactory(job, spark)
    left, right = (factory.recounter(name, batch(), {}) for name in job.inputs)
    assert not left.executors_lost()
    lost.append(3)
    assert [
        left.executors_lost(),
        right.executors_lost(),
        left.executors_lost(),
        right.executors_lost(),
    ] == [True, True, False, False]
