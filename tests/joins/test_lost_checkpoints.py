"""Joins and views that are renamed, lose their checkpoint, or run in threads of one session."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.pair_jobs import (
    IDS,
    START,
    Build,
    create_topics,
    expected,
    join_job,
    pairs,
    send,
    view_job,
)
from tests.support.raw_records import produce
from tests.support.sink_batches import commits
from tidegate import run
from tidegate.commit.batch import Stamp
from tidegate.errors import LostCheckpointError
from tidegate.joins import IntervalJoin
from tidegate.joins.interval_join import IntervalJoinType
from tidegate.jvm import with_settings
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

KOLKATA = {"spark.sql.session.timeZone": "Asia/Kolkata"}


@pytest.fixture
def topics(broker: Broker, topic: str) -> str:
    create_topics(broker, topic)
    return topic


@pytest.mark.parametrize("build", [join_job, view_job])
def test_a_renamed_job_is_refused_and_a_lost_checkpoint_is_resumed(
    build: Build, spark: SparkSession, broker: Broker, topics: str, tmp_path: Path
) -> None:
    job = build(broker.bootstrap_servers, topics, tmp_path)
    send(broker.bootstrap_servers, topics, IDS[:3])
    run(job, spark)
    assert pairs(tmp_path) == expected(IDS[:3])
    shutil.rmtree(job.locations.checkpoint)
    with pytest.raises(LostCheckpointError, match=f"was written by the job '{job.name}'"):
        run(replace(job, name="renamed"), spark)
    with pytest.raises(LostCheckpointError):
        run(job, spark)
    assert pairs(tmp_path) == expected(IDS[:3])
    run(job, spark, resume_from_table=True)
    assert pairs(tmp_path) == expected(IDS[:3])
    send(broker.bootstrap_servers, topics, IDS[3:], 9)
    with with_settings(spark, KOLKATA):
        done = run(job, spark)
    assert pairs(tmp_path) == expected(IDS)
    assert done.filtered_rows == 2


def test_a_join_and_a_view_in_threads_of_one_session_have_their_own_commits(
    spark: SparkSession, broker: Broker, topics: str, tmp_path: Path
) -> None:
    send(broker.bootstrap_servers, topics, IDS)
    jobs = {
        root: build(broker.bootstrap_servers, topics, root)
        for build in (join_job, view_job)
        for root in [tmp_path / build.__name__]
    }
    with ThreadPoolExecutor() as threads:
        for running in [threads.submit(run, job, spark) for job in jobs.values()]:
            running.result()
    for root, job in jobs.items():
        assert pairs(root) == expected(IDS)
        stamps = [Stamp.from_json(each["userMetadata"]) for each in commits(str(root / "pairs"))]
        assert {stamp.job for stamp in stamps if stamp is not None} == {job.name}
        assert run(job, spark).rows_in == 0


@pytest.mark.parametrize(("how", "resumed"), [("inner", [7, 8]), ("left", [8])])
def test_a_resumed_join_omits_pairs_that_need_a_lost_row_and_results_that_could_be_wrong(
    how: IntervalJoinType,
    resumed: list[int],
    spark: SparkSession,
    broker: Broker,
    topics: str,
    tmp_path: Path,
) -> None:
    def send_at(side: str, seconds: int, *ids: int) -> None:
        at = START + timedelta(seconds=seconds)
        values = [{"id": number, side: f"{side} {number}", "at": at} for number in ids]
        records = [json.dumps(value, default=datetime.isoformat).encode() for value in values]
        produce(broker.bootstrap_servers, f"{topics}-{side}", records)

    job = join_job(broker.bootstrap_servers, topics, tmp_path)
    assert isinstance(job.transform, IntervalJoin)
    job = replace(job, transform=replace(job.transform, how=how))
    send_at("left", 0, 1, 2)
    send_at("right", 0, 1)
    run(job, spark)
    assert pairs(tmp_path) == expected([1])
    shutil.rmtree(job.locations.checkpoint)
    send_at("right", 30, 2, 7)
    send_at("left", 30, 7)
    # Beyond the reach of lost rows.
    for side in ("left", "right"):
        send_at(side, 150, 8)
    run(job, spark, resume_from_table=True)
    assert [row for row in pairs(tmp_path) if row[2]] == expected([1, *resumed])
