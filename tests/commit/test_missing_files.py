"""Files that another program deletes before their commit are written again, never committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import changelog_oracle as oracle
from tests.support.changelog_frames import changes, valid_versions, values_by_key
from tests.support.changelog_oracle import Change
from tests.support.kafka_topics import pages_input, send_records
from tests.support.pair_jobs import (
    IDS,
    SIDES,
    START,
    create_topics,
    expected,
    join_job,
    pairs,
    send,
    view_job,
)
from tests.support.readers import assert_readers_agree
from tests.support.sink_batches import as_another_writer, batch, commits, rows
from tidegate import Job, Maintenance, run
from tidegate.commit.batch import Stamp
from tidegate.commit.concurrent import start_pending_write
from tidegate.commit.delta_commit import DeltaCommitter
from tidegate.commit.protocol import CommitHook
from tidegate.delta.table_layout import TableLayout
from tidegate.engine.maintenance import vacuum
from tidegate.errors import ConflictError
from tidegate.jvm import copy_session, delta, delta_state, with_settings
from tidegate.sinks import Append, CurrentTable, FanOut, HistoryTable, Upsert
from tidegate.sinks.base import TableSink
from tidegate.testing import Broker
from tidegate.views import View, bucketing
from tidegate.views import view as view_module

pytestmark = pytest.mark.jobs

CHANGE_DATA = TableLayout(properties={"delta.enableChangeDataFeed": True})
DELETION_VECTORS = TableLayout(properties={"delta.enableDeletionVectors": True})
NO_RETENTION = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta lists the files in 10,000 tasks by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


class Vacuum:
    """A program that vacuums a table without retention before the next commits."""

    def __init__(self, spark: SparkSession, path: str, runs: int) -> None:
        # Its commits must not have the metadata that the sink sets in its own session.
        self.spark = copy_session(spark)
        for name, value in NO_RETENTION.items():
            self.spark.conf.set(name, value)
        self.path, self.remaining_runs = path, runs

    def run(self) -> None:
        if self.remaining_runs:
            self.remaining_runs -= 1
            command = f"VACUUM delta.`{self.path}` RETAIN 0 HOURS"
            as_another_writer(lambda: self.spark.sql(command))


@pytest.mark.parametrize("kind", ["append", "deletion_vectors", "changes"])
def test_files_that_a_vacuum_without_retention_deletes_before_the_commit_are_written_again(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "table")
    sinks: dict[str, TableSink] = {
        "append": Append(path),
        "deletion_vectors": Upsert(path, keys=["id"], layout=DELETION_VECTORS),
        "changes": Upsert(path, keys=["id"], layout=CHANGE_DATA),
    }
    sink = sinks[kind]
    numbers = spark.range(6)
    sink.write({"rows": numbers.where("id < 3")}, batch(0))
    other = Vacuum(spark, path, runs=1)
    with with_settings(spark, NO_RETENTION):
        context = replace(batch(1), wait_for_prior_commits=other.run)
        first_id = 3 if isinstance(sink, Append) else 2
        assert sink.write({"rows": numbers.where(f"id >= {first_id}")}, context) == "written"
    assert other.remaining_runs == 0
    assert [row["id"] for row in rows(spark, path, "id")] == [0, 1, 2, 3, 4, 5]
    if kind == "changes":
        changes = spark.read.option("readChangeFeed", True).option("startingVersion", 0)
        inserted = changes.format("delta").load(path).where("_commit_version > 1")
        assert sorted(row["id"] for row in inserted.collect()) == [3, 4, 5]


def test_a_pending_write_whose_files_are_deleted_is_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "table"))
    sink.write({"rows": spark.range(3)}, batch(0))
    other = Vacuum(spark, sink.path, runs=1)
    with with_settings(spark, NO_RETENTION):
        later = spark.range(3, 6)
        with start_pending_write(
            lambda context: sink.write({"rows": later}, context), batch(1), spark
        ) as (pending_write, commit):
            assert pending_write.wait_for_rows() == 3
            other.run()
            assert commit(batch(1)) == "written"
    assert [row["id"] for row in rows(spark, sink.path, "id")] == [0, 1, 2, 3, 4, 5]


def test_a_batch_whose_files_are_deleted_every_time_is_not_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Append(str(tmp_path / "table"))
    sink.write({"rows": spark.range(3)}, batch(0))
    context = replace(batch(1), wait_for_prior_commits=Vacuum(spark, sink.path, runs=99).run)
    with (
        with_settings(spark, NO_RETENTION),
        pytest.raises(ConflictError, match=r"^files of a batch were deleted before") as error,
    ):
        sink.write({"rows": spark.range(3, 6)}, context)
    assert "VACUUM" in error.value.detail
    assert [row["id"] for row in rows(spark, sink.path, "id")] == [0, 1, 2]
    assert sink.write({"rows": spark.range(3, 6)}, batch(1)) == "written"
    vacuum(spark, sink.path)
    assert len(rows(spark, sink.path)) == 6


@contextmanager
def vacuum_before_each_commit(spark: SparkSession) -> Iterator[Counter[str]]:
    """Vacuum each table without retention once a batch, right before its first commit.

    Yields the number of times that each table has written a batch again.
    """
    commit, vacuumed, repeated = DeltaCommitter.commit, set[tuple[str, int]](), Counter[str]()
    without_metadata = copy_session(spark)

    def commit_after_vacuum(
        log: DeltaCommitter, stamp: Stamp, before_commit: CommitHook | None = None
    ) -> None:
        def vacuum_first() -> None:
            if before_commit is not None:
                before_commit()
            if (log.path, stamp.batch) in vacuumed:
                repeated[Path(log.path).name] += 1
            elif delta_state(spark, log.path).version >= 0:
                vacuumed.add((log.path, stamp.batch))
                Vacuum(without_metadata, log.path, runs=1).run()

        commit(log, stamp, vacuum_first)

    with with_settings(spark, NO_RETENTION), pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaCommitter, "commit", commit_after_vacuum)
        yield repeated


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["join", "view", "recomputed view"])
def test_a_join_and_a_view_write_deleted_files_again(
    kind: str,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = join_job if kind == "join" else view_job
    if kind == "view":
        monkeypatch.setattr(view_module, "SMALL_BYTES", -1)
        monkeypatch.setattr(view_module, "REWRITE_COST_RATIO", 0)
    create_topics(broker, topic)
    job = build(broker.bootstrap_servers, topic, tmp_path)
    send(broker.bootstrap_servers, topic, IDS[:4])
    run(job, spark)
    # Records that were sent before are late for the join, and replace equal rows of the view.
    send(broker.bootstrap_servers, topic, IDS[4:] if kind == "join" else IDS)
    with vacuum_before_each_commit(spark) as repeated:
        run(job, spark)
    assert all(repeated[Path(path).name] for path, _ in job.sink.tables()), repeated
    assert pairs(tmp_path) == expected(IDS)
    for path, _ in job.sink.tables():
        assert_readers_agree(spark, Path(path))


def test_the_tables_of_a_changelog_write_deleted_files_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    past, now = HistoryTable(str(tmp_path / "history")), CurrentTable(str(tmp_path / "current"))
    sink = FanOut(now, other_sinks=[past])
    log = [Change("create", "a", "x", (1,), 10), Change("create", "b", "x", (2,), 10)]
    later = [Change("update", "a", "y", (3,), 20), Change("delete", "b", None, (4,), 30)]
    sink.write({"rows": changes(spark, log)}, batch(0))
    with vacuum_before_each_commit(spark) as repeated:
        assert sink.write({"rows": changes(spark, later, 2)}, batch(1)) == "written"
    assert repeated == {"history": 1, "current": 1}
    assert values_by_key(now.rows(spark).collect()) == oracle.current([*log, *later])
    assert valid_versions(past.rows(spark)) == oracle.history([*log, *later])
    for table in (past.path, now.path):
        assert_readers_agree(spark, Path(table))


@pytest.mark.parametrize(("table", "max_recent_rows"), [("pairs", 1), ("left", 1), ("left", 1000)])
def test_a_compaction_of_a_view_whose_files_are_deleted_is_not_committed(
    table: str,
    max_recent_rows: int,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = view_job("localhost:1", "unused", tmp_path).sink
    assert isinstance(view, View)
    for number in IDS[:3]:
        schemas = {side: f"id INT, {side} STRING, event_time TIMESTAMP" for side in SIDES}
        frames = {
            side: spark.createDataFrame([(number, f"{side} {number}", START)], schema)
            for side, schema in schemas.items()
        }
        view.write(frames, batch(number))
    monkeypatch.setattr(bucketing, "MAX_RECENT_ROWS", max_recent_rows)
    compacted = {"pairs": view, "left": view.left}[table]
    with (
        vacuum_before_compaction(spark, tmp_path / table),
        pytest.raises(ConflictError, match=r"^files of a batch were deleted before"),
    ):
        compacted.compact(spark)
    assert_readers_agree(spark, tmp_path / table)
    view.compact(spark)
    assert pairs(tmp_path) == expected(IDS[:3])


@contextmanager
def vacuum_before_compaction(spark: SparkSession, table: Path) -> Iterator[None]:
    """Vacuum a table without retention right before its next compaction."""
    other = Vacuum(spark, str(table), runs=1)
    run_before = delta.run_before_commit
    with with_settings(spark, NO_RETENTION), pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "run_before_commit", lambda spark, _: run_before(spark, other.run))
        yield
    assert other.remaining_runs == 0


@pytest.mark.broker
def test_an_optimize_whose_files_are_deleted_is_not_committed(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    pages = pages_input(broker.bootstrap_servers, topic, max_records=3)
    table = tmp_path / "table"
    sink, policy = Append(str(table)), Maintenance(compact_every=2)
    job = Job(name="pages", inputs={"pages": pages}, sink=sink, maintenance=policy)
    send_records(broker.bootstrap_servers, topic, range(6))
    with vacuum_before_compaction(spark, table):
        run(job, spark)
    assert f"maintenance of {table} failed, and is retried when it is due again" in caplog.text
    assert "OPTIMIZE" not in [commit["operation"] for commit in commits(str(table))]
    assert [row["event_time"].second for row in rows(spark, str(table), "event_time")] == [
        *range(6)
    ]
    send_records(broker.bootstrap_servers, topic, range(6, 12))
    run(job, spark)
    assert len(rows(spark, str(table))) == 12
    assert "OPTIMIZE" in [commit["operation"] for commit in commits(str(table))]
