"""Files of this machine are made without a program for each."""

from __future__ import annotations

import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.runtime.process.local_files import bare_checkpoint
from tidegate.testing import StreamDriver
from tidegate.windows import Tumbling, Windowed

START = datetime(2026, 1, 1, tzinfo=UTC)
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def of_ended_programs(spark: SparkSession) -> int:
    """Count the page faults of all programs that Spark's JVM has started and seen end."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[8])


@pytest.mark.skipif(sys.platform != "linux", reason="counts a process's children by /proc")
def test_a_batch_with_state_and_a_commit_start_no_program(
    spark: SparkSession, tmp_path: Path
) -> None:
    windows = Windowed(Tumbling("10 seconds"), by="k", aggs={"n": count()})
    with StreamDriver(spark, "event_time timestamp, k int", windows, lateness="0 s") as stream:
        stream.feed([(START, 1)])
        before = of_ended_programs(spark)
        assert stream.feed([(START + timedelta(seconds=30), 1)])
        spark.range(3).write.format("delta").save(str(tmp_path / "table"))
        spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "table"))
        assert of_ended_programs(spark) == before


def test_files_have_the_permissions_and_the_check_sums_that_hadoop_gives_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "table"))
    (written,) = (tmp_path / "table").glob("*.parquet")
    assert stat.S_IMODE(written.stat().st_mode) == 0o644
    assert written.with_name(f".{written.name}.crc").exists()
    written.write_bytes(written.read_bytes()[:-9] + b"corrupted")
    with pytest.raises(Exception, match=r"(?i)checksum"):
        spark.read.schema("id bigint").parquet(str(tmp_path / "table")).collect()


def test_only_checkpoints_of_this_machine_are_written_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    with bare_checkpoint(spark, str(tmp_path)):
        assert "FileSystemBased" in (spark.conf.get(MANAGER, None) or "")
    with bare_checkpoint(spark, "hdfs://host/checkpoint"):
        assert spark.conf.get(MANAGER, None) is None
    spark.conf.set(MANAGER, "of.ones.Own")
    try:
        with bare_checkpoint(spark, str(tmp_path)):
            assert spark.conf.get(MANAGER) == "of.ones.Own"
    finally:
        spark.conf.unset(MANAGER)
