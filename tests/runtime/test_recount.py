"""A batch that is counted once more has the counts of one that is counted while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.joins import IntervalJoin
from tidegate.runtime.job import Input
from tidegate.runtime.query import recount
from tidegate.runtime.query.accounting import Again, Observed
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from .late_by_log import MINUTE, World
from .test_accounting import batch
from .topics import reading

pytestmark = [pytest.mark.broker, pytest.mark.jobs]


@pytest.mark.draws(
    "kind",
    short=["late by the log, with a backlog"],
    long=["late by the log", "late by the log, with a backlog", "with a backlog"],
)
def test_both_ways_of_counting_make_the_same_tables(
    kind: str,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=3, retention_ms=-1)
    world = World(broker, tmp_path, (topic,))
    source = reading(broker.servers, topic, lateness="5 seconds", max_rows=60)
    given = Input(
        replace(source, where="second(event_time) % 7 != 0"),
        watermarks="log" if "log" in kind else 1,
    )
    backlog = 0 if "backlog" in kind else None
    first: list[Observed] = []
    runs: dict[str, list[Mapping[str, Any]]] = {"meanwhile": [], "once more": []}

    def needed(_: Again, seen: Observed, __: int) -> bool:
        first.append(seen)
        return True

    world.send(0, 80)
    for part in range(2):
        for name, done in runs.items():
            job = world.job(MINUTE, name, inputs={"left": given}, backlog=backlog)
            with monkeypatch.context() as patched:
                if name == "once more":
                    patched.setattr(Again, "needed", needed)
                found = asdict(run(job, spark))
            done.append({each: found[each] for each in found if each != "seconds"})
        if not part:
            world.send(80, 150)
    assert runs["meanwhile"] == runs["once more"]
    assert world.found("meanwhile") == world.found("once more")
    told = runs["once more"]
    assert all(sum(each[what] for each in told) for what in ("dead", "filtered", "late"))
    assert sum(seen.rows for seen in first) == sum(each["rows_in"] for each in told)


def test_a_lost_executor_is_told_once_of_each_input(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [2]
    monkeypatch.setattr(recount, "lost_executors", lambda _: gone[-1])
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how="inner")
    job = World(broker, tmp_path, ("impressions", "clicks")).job(near, "rows")
    counted = recount.Recount(job, spark)
    left, right = (counted.of(name, batch(), {}) for name in job.inputs)
    assert not left.lost()
    gone.append(3)
    assert [left.lost(), right.lost(), left.lost(), right.lost()] == [True, True, False, False]
