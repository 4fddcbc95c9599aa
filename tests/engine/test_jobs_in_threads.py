"""Jobs in threads of one session write under their own names, in every interleaving."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import START, pages_input, send_records
from tests.support.sink_batches import commits, leftover_settings
from tidegate import Job, merge_late_rows, replay, run
from tidegate.aggregates import count
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.batch import Stamp
from tidegate.commit.concurrent import run_in_background
from tidegate.commit.delta_commit import read_table_log
from tidegate.delta.commit_options import CommitOptions
from tidegate.operations.replay.comparison import ReplayComparison
from tidegate.sinks import Append, CorrectedWindows
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

NAMES = ("first", "second")


def run_at_the_same_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, calls: Sequence[Callable[[], object]]
) -> None:
    """Call functions in threads whose commits wait for each other, with the metadata of each set;
    require that none changes a setting of the session."""
    commit_metadata = CommitOptions.commit_metadata
    all_are_set, leftovers = Barrier(len(calls), timeout=120), []

    @contextmanager
    def wait_for_the_others(session: SparkSession, metadata: str) -> Iterator[None]:
        with commit_metadata(session, metadata):
            all_are_set.wait()
            leftovers.append(leftover_settings(spark))
            yield

    with monkeypatch.context() as patch:
        patch.setattr(CommitOptions, "commit_metadata", staticmethod(wait_for_the_others))
        with run_in_background(spark, calls):
            pass
    assert leftovers
    assert not any(leftovers)


def test_two_backfills_in_one_session_that_commit_at_the_same_time_have_their_own_stamps(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2, 3])
    jobs = {
        name: Job(
            name=name,
            inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
            sink=Append(str(tmp_path / name)),
            backfill_threshold=0,
        )
        for name in NAMES
    }
    run_at_the_same_time(spark, monkeypatch, [partial(run, job, spark) for job in jobs.values()])
    for name, job in jobs.items():
        stamp = read_table_log(spark, job.sink.path).last_stamp(name, "append")
        assert stamp is not None
        assert stamp.job == name
    send_records(broker.bootstrap_servers, topic, [4])
    for name, job in jobs.items():
        assert run(job, spark).rows_in == 1
        assert len(rows(tmp_path / name)) == 4


def windows_job(broker: Broker, topic: str, root: Path, name: str) -> Job:
    """Return a job that counts pages by ten seconds, and merges late rows afterwards."""
    windows = WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()})
    return Job(
        name=name,
        inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
        transform=windows,
        sink=CorrectedWindows(str(root / name), aggregation=windows, log=None),
        allowed_lateness="1 second",
    )


def counts(table: Path) -> dict[int, int]:
    """Return the counts of the pages by the first second of their windows."""
    return {int((row["window"]["start"] - START).total_seconds()): row["n"] for row in rows(table)}


def test_two_late_replays_in_one_session_that_commit_at_the_same_time_have_their_own_stamps(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = {}
    for number, name in enumerate(NAMES):
        own_topic = f"{topic}-{name}"
        broker.create_topic(own_topic, partitions=1, retention_ms=-1)
        jobs[name] = windows_job(broker, own_topic, tmp_path, name)
        for seconds in ([1, 200], [2, 3][: number + 1], [201]):
            send_records(broker.bootstrap_servers, own_topic, seconds)
            run(jobs[name], spark)
    merged: dict[str, int] = {}

    def merge(job: Job) -> None:
        merged[job.name] = merge_late_rows(job, spark)

    run_at_the_same_time(spark, monkeypatch, [partial(merge, job) for job in jobs.values()])
    assert merged == {"first": 1, "second": 2}
    for name, job in jobs.items():
        assert counts(tmp_path / name)[0] == 1 + merged[name]
        stamps = [Stamp.from_json(each["userMetadata"]) for each in commits(job.sink.path)]
        assert {stamp.job for stamp in stamps if stamp is not None} == {name}
        assert merge_late_rows(job, spark) == 0


def test_two_replays_in_one_session_that_commit_at_the_same_time_have_their_own_tables(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records: dict[str, list[float | str]] = {
        "first": [1, "no record", 200],
        "second": [2, 3, "nor this", 201, 202],
    }
    jobs = {}
    for name in NAMES:
        own_topic = broker.create_topic(f"{topic}-{name}", partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, own_topic, records[name])
        jobs[name] = Job(
            name=name,
            inputs={"pages": pages_input(broker.bootstrap_servers, own_topic)},
            sink=Append(str(tmp_path / name)),
        )
        run(jobs[name], spark)
    comparisons: dict[str, ReplayComparison | None] = {}

    def replay_job(job: Job) -> None:
        comparisons[job.name] = replay(job, spark)

    run_at_the_same_time(spark, monkeypatch, [partial(replay_job, job) for job in jobs.values()])
    for name, job in jobs.items():
        replayed = rows(tmp_path / f"{name}.replay")
        seconds = sorted(int((row["event_time"] - START).total_seconds()) for row in replayed)
        assert seconds == [each for each in records[name] if not isinstance(each, str)]
        dead_letters = rows(tmp_path / f"{name}.dead_letters.replay")
        assert [row["topic"] for row in dead_letters] == [f"{topic}-{name}"]
        comparison = comparisons[name]
        assert comparison is not None
        assert comparison.differences.is_empty
        lineage = LineageFiles(spark, f"{job.locations.checkpoint}.replay").read()
        assert lineage is not None
        assert lineage.job == name
        for output in ("", ".dead_letters"):
            path = f"{tmp_path / name}{output}.replay"
            stamps = [Stamp.from_json(each["userMetadata"]) for each in commits(path)]
            found = {(stamp.job, stamp.query) for stamp in stamps if stamp is not None}
            assert found == {(name, lineage.query)}
            assert path in {each.path for each in lineage.tables.values()}
