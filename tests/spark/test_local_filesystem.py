"""Local files are created without a child process per file."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.spark.session import checkpoint_by_rename
from tidegate.testing import StreamDriver
from tidegate.windows import Tumbling, WindowAggregation

START = datetime(2026, 1, 1, tzinfo=UTC)
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@contextmanager
def started_programs(spark: SparkSession, folder: Path) -> Iterator[list[str]]:
    """Gather the command lines that name a path of `folder` of what Spark's JVM starts meanwhile.

    Others may start at any time: Spark looks after the state of all queries that ran before.
    """
    jvm: Any = spark._jvm
    recording = jvm.jdk.jfr.Recording()
    recording.enable("jdk.ProcessStart")
    recorded = jvm.java.io.File(f"{folder}.jfr").toPath()
    commands: list[str] = []
    recording.start()
    try:
        yield commands
        recording.dump(recorded)
    finally:
        recording.close()
    events = jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(recorded)
    started = [event.getString("command") for event in events]
    commands += [command for command in started if str(folder) in command]


@pytest.mark.slow
def test_a_batch_with_state_and_a_commit_start_no_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    windows = WindowAggregation(Tumbling("10 seconds"), by="k", aggs={"n": count()})
    with (
        started_programs(spark, tmp_path) as commands,
        StreamDriver(
            spark, "event_time timestamp, k int", windows, watermark_delay="0 s"
        ) as stream,
    ):
        stream.feed([(START, 1)])
        assert stream.feed([(START + timedelta(seconds=30), 1)])
        with checkpoint_by_rename(spark, str(tmp_path)):
            spark.range(3).write.format("delta").save(str(tmp_path / "table"))
            spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "table"))
    assert commands == []


def test_processes_that_hadoop_s_file_system_starts_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop
    with started_programs(spark, tmp_path) as commands:
        files = hadoop.fs.RawLocalFileSystem()
        files.initialize(jvm.java.net.URI("file:///"), hadoop.conf.Configuration())
        owner_alone = hadoop.fs.permission.FsPermission("700")
        files.setPermission(hadoop.fs.Path(str(tmp_path)), owner_alone)
    assert any(command.startswith("chmod") for command in commands)


def test_files_have_the_permissions_and_checksums_of_hadoop(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "table"))
    (written,) = (tmp_path / "table").glob("*.parquet")
    assert stat.S_IMODE(written.stat().st_mode) == 0o644
    assert written.with_name(f".{written.name}.crc").exists()
    written.write_bytes(written.read_bytes()[:-9] + b"corrupted")
    with pytest.raises(Exception, match=r"(?i)checksum"):
        spark.read.schema("id bigint").parquet(str(tmp_path / "table")).collect()


def test_only_local_checkpoints_are_written_by_rename(spark: SparkSession, tmp_path: Path) -> None:
    with checkpoint_by_rename(spark, str(tmp_path)):
        assert "FileSystemBased" in (spark.conf.get(MANAGER, None) or "")
    with checkpoint_by_rename(spark, "hdfs://host/checkpoint"):
        assert spark.conf.get(MANAGER, None) is None
    spark.conf.set(MANAGER, "of.ones.Own")
    try:
        with checkpoint_by_rename(spark, str(tmp_path)):
            assert spark.conf.get(MANAGER) == "of.ones.Own"
    finally:
        spark.conf.unset(MANAGER)
