"""Table maintenance between the batches of a job, by the job and by other writers."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.sink_batches import as_another_writer, batch, commits
from tidegate import Job, Maintenance, run
from tidegate.aggregates import count
from tidegate.commit.delta_commit import DeltaCommitter
from tidegate.delta.table_layout import TableLayout
from tidegate.engine import maintenance
from tidegate.errors import ArgumentError
from tidegate.jvm import run_before_commit
from tidegate.sinks import Append, Upsert
from tidegate.testing import Broker
from tidegate.testing.crash_points import CrashError

pytestmark = pytest.mark.jobs

AT_ONCE = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}


def copy_job(broker: Broker, topic: str, path: Path, policy: Maintenance) -> Job:
    """Return a job that copies a topic, three records per batch, and retains no old files."""
    clicks = pages_input(broker.bootstrap_servers, topic, max_records=3)
    sink = Append(str(path), layout=TableLayout(properties=AT_ONCE))
    return Job(name="copies", inputs={"clicks": clicks}, sink=sink, maintenance=policy)


def pages(path: Path) -> Counter[str]:
    return Counter(row["page"] for row in rows(path))


def optimize_versions(path: Path) -> list[int]:
    """Return the versions of OPTIMIZE commits."""
    done = [commit["operation"] for commit in commits(str(path))]
    return [version for version, name in enumerate(done) if name == "OPTIMIZE"]


def files(path: Path) -> int:
    return len(list(path.glob("*.parquet")))


@pytest.mark.broker
def test_files_are_compacted_and_vacuumed_even_after_a_crash_during_compaction(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    path = tmp_path / "t"
    job = copy_job(broker, topic, path, Maintenance(compact_every=2, vacuum_every=4))
    send_records(broker.bootstrap_servers, topic, [*range(5), "unreadable"])
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "refuse_missing_files", crash_before_commit)
        with pytest.raises(Exception, match="before the commit"):
            run(job, spark)
    assert optimize_versions(path) == []
    assert pages(path) == {"p0": 5}

    send_records(broker.bootstrap_servers, topic, range(6))
    done = run(job, spark)
    assert (done.skipped_batches, done.rows_in) == (1, 3 + 6)
    assert pages(path) == {"p0": 11}
    # After two batches and the fence of the second run, then after two more batches.
    assert optimize_versions(path) == [3, 6]
    assert files(path) == 1
    assert len(rows(tmp_path / "t.dead_letters")) == 1


def crash_before_commit(spark: SparkSession) -> AbstractContextManager[object]:
    """Return a context whose commits crash before they are made."""

    def die() -> None:
        raise CrashError("before the commit")

    return run_before_commit(spark, die)


@pytest.mark.broker
def test_maintenance_that_conflicts_with_another_writer_is_retried_later(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    path = tmp_path / "t"

    def too_late(spark: SparkSession) -> AbstractContextManager[object]:
        def other() -> None:
            as_another_writer(lambda: spark.sql(f"DELETE FROM delta.`{path}`"))

        return run_before_commit(spark, other)

    monkeypatch.setattr(maintenance, "refuse_missing_files", too_late)
    send_records(broker.bootstrap_servers, topic, range(6))
    run(copy_job(broker, topic, path, Maintenance(compact_every=2)), spark)
    assert optimize_versions(path) == []
    assert f"maintenance of {path} failed, and is retried when it is due again" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["OPTIMIZE {}", "DELETE FROM {} WHERE id = 9"])
def test_a_batch_is_written_once_when_other_writers_commit_to_its_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The other commit is between the read of the table and the commit of the batch."""
    require_open = DeltaCommitter._require_open
    conflicting: list[str] = []

    def commit_after_other_writer(self: DeltaCommitter, *arguments: Any) -> None:
        if self.path not in conflicting:
            conflicting.append(self.path)
            as_another_writer(lambda: spark.sql(statement.format(f"delta.`{self.path}`")))
        require_open(self, *arguments)

    ids = spark.range(3)
    sinks: list[Append | Upsert] = [
        Append(str(tmp_path / "appended")),
        Upsert(str(tmp_path / "merged"), keys=["id"], aggs={"n": count()}),
    ]
    frames = [ids, ids.selectExpr("id", "1L AS n")]
    for sink, frame in zip(sinks, frames, strict=True):
        for number in range(3):
            sink.write({"rows": frame}, batch(number))
    monkeypatch.setattr(DeltaCommitter, "_require_open", commit_after_other_writer)
    for sink, frame in zip(sinks, frames, strict=True):
        assert sink.write({"rows": frame}, batch(3)) == "written"
        assert sink.write({"rows": frame}, batch(3)) == "skipped"
    assert len(conflicting) == 2
    assert Counter(row["id"] for row in rows(tmp_path / "appended")) == dict.fromkeys(range(3), 4)
    assert {row["id"]: row["n"] for row in rows(tmp_path / "merged")} == dict.fromkeys(range(3), 4)


def test_an_invalid_interval_raises() -> None:
    with pytest.raises(ArgumentError, match=r"^invalid compact_every: 0"):
        Maintenance(compact_every=0)
    with pytest.raises(ArgumentError, match=r"^invalid vacuum_every: 'daily'"):
        Maintenance(vacuum_every="daily")  # type: ignore[arg-type]
