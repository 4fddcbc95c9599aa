"""Jobs in threads of one session write under their own names, in every interleaving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.sink_batches import leftover_settings
from tidegate import Job, run
from tidegate.commit.delta_commit import read_table_log
from tidegate.delta.commit_options import CommitOptions
from tidegate.sinks import Append
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

NAMES = ("first", "second")


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
    commit_metadata = CommitOptions.commit_metadata
    both_are_set, leftovers = Barrier(len(NAMES), timeout=120), []

    @contextmanager
    def wait_for_the_other(session: SparkSession, metadata: str) -> Iterator[None]:
        with commit_metadata(session, metadata):
            both_are_set.wait()
            leftovers.append(leftover_settings(spark))
            yield

    monkeypatch.setattr(CommitOptions, "commit_metadata", staticmethod(wait_for_the_other))
    threads = [
        InheritableThread(target=run, args=(job, spark), session=spark) for job in jobs.values()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    assert leftovers == [[], []]
    for name, job in jobs.items():
        stamp = read_table_log(spark, job.sink.path).last_stamp(name, "append")
        assert stamp is not None
        assert stamp.job == name
    send_records(broker.bootstrap_servers, topic, [4])
    for name, job in jobs.items():
        assert run(job, spark).rows_in == 1
        assert len(rows(tmp_path / name)) == 4
