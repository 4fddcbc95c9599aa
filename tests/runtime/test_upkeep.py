"""The files of a job's tables put in order between its batches, by itself and by others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.commit.delta_log import DeltaCommitLog
from tidegate.errors import ArgumentError
from tidegate.jvm import at_the_commit
from tidegate.runtime import Job, Upkeep
from tidegate.runtime.job import Input
from tidegate.runtime.query import upkeep
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, Layout, Upsert
from tidegate.testing import Broker
from tidegate.testing.crash import CrashError

from ..sinks.batches import batch, by_another, commits
from ..tables import rows
from .topics import reading, sent

AT_ONCE = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}


def copying(broker: Broker, topic: str, path: Path, kept: Upkeep) -> Job:
    """Return a job that copies a topic, three records a batch, and keeps no old files."""
    given = Input(reading(broker.servers, topic, max_rows=3))
    sink = Append(str(path), layout=Layout(properties=AT_ONCE))
    return Job(name="copies", inputs={"clicks": given}, sink=sink, upkeep=kept)


def pages(path: Path) -> Counter[str]:
    return Counter(row["page"] for row in rows(path))


def optimized(path: Path) -> list[int]:
    """Return which commits have put files together."""
    done = [commit["operation"] for commit in commits(str(path))]
    return [version for version, name in enumerate(done) if name == "OPTIMIZE"]


def files(path: Path) -> int:
    return len(list(path.glob("*.parquet")))


@pytest.mark.broker
def test_small_files_are_put_together_and_old_ones_deleted_though_the_job_dies_in_between(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    path = tmp_path / "t"
    job = copying(broker, topic, path, Upkeep(compact_every=2, vacuum_every=4))
    sent(broker.servers, topic, [*range(5), "unreadable"])
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "compact", dying_at_the_commit)
        with pytest.raises(Exception, match="before the commit"):
            run(job, spark)
    assert optimized(path) == []
    assert pages(path) == {"p0": 5}

    sent(broker.servers, topic, range(6))
    done = run(job, spark)
    assert (done.skipped, done.rows_in) == (1, 3 + 6)
    assert pages(path) == {"p0": 11}
    # Behind the commits of two batches and the second run's fence, then behind those of two more.
    assert optimized(path) == [3, 6]
    assert files(path) == 1
    assert len(rows(tmp_path / "t.dead_letters")) == 1


def dying_at_the_commit(spark: SparkSession, path: str) -> str:
    """Put the files together, and die when they are written and not committed."""

    def die() -> None:
        raise CrashError("before the commit")

    with at_the_commit(spark, die):
        return compact(spark, path)


compact = upkeep.compact


@pytest.mark.broker
def test_what_another_writer_prevents_is_left_to_the_next_time(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    path = tmp_path / "t"

    def too_late(spark: SparkSession, table: str) -> str:
        def other() -> None:
            by_another(lambda: spark.sql(f"DELETE FROM delta.`{table}`"))

        with at_the_commit(spark, other):
            return compact(spark, table)

    monkeypatch.setattr(upkeep, "compact", too_late)
    sent(broker.servers, topic, range(6))
    run(copying(broker, topic, path, Upkeep(compact_every=2)), spark)
    assert optimized(path) == []
    assert f"{path} is left as it is for now" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["OPTIMIZE {}", "DELETE FROM {} WHERE id = 9"])
def test_a_batch_meets_what_others_do_to_its_table_and_is_written_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Between the batch's reading of the table and its commit."""
    required = DeltaCommitLog._require_open
    met: list[str] = []

    def another_first(self: DeltaCommitLog, *arguments: Any) -> None:
        if self.path not in met:
            met.append(self.path)
            by_another(lambda: spark.sql(statement.format(f"delta.`{self.path}`")))
        required(self, *arguments)

    ids = spark.range(3)
    sinks: list[Append | Upsert] = [
        Append(str(tmp_path / "appended")),
        Upsert(str(tmp_path / "merged"), keys=["id"], aggs={"n": count()}),
    ]
    frames = [ids, ids.selectExpr("id", "1L AS n")]
    for sink, frame in zip(sinks, frames, strict=True):
        for number in range(3):
            sink.write({"rows": frame}, batch(number))
    monkeypatch.setattr(DeltaCommitLog, "_require_open", another_first)
    for sink, frame in zip(sinks, frames, strict=True):
        assert sink.write({"rows": frame}, batch(3)) == "written"
        assert sink.write({"rows": frame}, batch(3)) == "skipped"
    assert len(met) == 2
    assert Counter(row["id"] for row in rows(tmp_path / "appended")) == dict.fromkeys(range(3), 4)
    assert {row["id"]: row["n"] for row in rows(tmp_path / "merged")} == dict.fromkeys(range(3), 4)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="compact_every is 0"):
        Upkeep(compact_every=0)
    with pytest.raises(ArgumentError, match="vacuum_every is 'daily'"):
        Upkeep(vacuum_every="daily")  # type: ignore[arg-type]
