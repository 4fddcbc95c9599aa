"""The settings of a Spark session, and their precedence."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka_topics import pages_input
from tidegate import Job, run, spark_session
from tidegate import aggregates as agg
from tidegate.errors import ConfigError, SetupError
from tidegate.jvm import has_class, read_all_rows, require_standard_semantics, with_settings
from tidegate.sinks import Append
from tidegate.spark.jars import jars, project_root, require_locked
from tidegate.spark.presets import local_cores
from tidegate.spark.session import (
    CORE_COUNT_SETTINGS,
    archive_path,
    cds_options,
    default_settings,
    merge_settings,
)
from tidegate.windows import tumbling

FILE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.x": "file",
}


def test_the_settings_file_is_read_without_its_comments() -> None:
    found = default_settings()
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert all(key.startswith("spark.") and value for key, value in found.items())


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4,2]", 4),
        ("spark://h:7077", 0),
        ("yarn", 0),
        ("local-cluster[2,1,99]", 0),
    ],
)
def test_only_a_local_master_has_cores_of_this_machine(master: str, cores: int) -> None:
    assert local_cores(master) == cores


def test_all_cores_are_those_of_this_process() -> None:
    assert local_cores("local[*]") >= 1


def test_a_local_master_has_one_partition_per_core() -> None:
    chosen = merge_settings(FILE, {}, {"spark.master": "local[3]"})
    assert [chosen[key] for key in CORE_COUNT_SETTINGS] == ["3", "3"]


def test_a_cluster_uses_the_partitions_of_the_file() -> None:
    chosen = merge_settings(FILE, {"spark.master": "spark://h:7077"}, {})
    assert [chosen[key] for key in CORE_COUNT_SETTINGS] == ["2", "2"]


def test_user_settings_take_precedence() -> None:
    submitted = {"spark.sql.shuffle.partitions": "64", "spark.x": "submitted"}
    chosen = merge_settings(
        FILE, submitted, {"spark.master": "local[3]", CORE_COUNT_SETTINGS[1]: "2"}
    )
    assert (chosen[CORE_COUNT_SETTINGS[0]], chosen[CORE_COUNT_SETTINGS[1]], chosen["spark.x"]) == (
        "64",
        "2",
        "submitted",
    )


def test_a_complete_active_session_is_returned_unchanged(spark: SparkSession) -> None:
    assert spark_session("other").sparkContext is spark.sparkContext
    assert not has_class(spark, "io.delta.NoSuchClass")


def startup_error(spark: SparkSession, root: Path, setting: str, value: str) -> ConfigError:
    """Return the error of a job's start in a session with a setting."""
    pages = pages_input("nowhere:9092", "pages")
    job = Job(name="pages", inputs={"pages": pages}, sink=Append(str(root / "pages")))
    with with_settings(spark, {setting: value}), pytest.raises(ConfigError) as error:
        run(job, spark)
    assert list(root.iterdir()) == []
    return error.value


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_a_job_does_not_start_if_spark_may_skip_files(
    spark: SparkSession, tmp_path: Path, setting: str
) -> None:
    error = startup_error(spark, tmp_path, f"spark.sql.files.{setting}", "true")
    assert f"{setting}: 'true'" in str(error)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("spark.sql.ansi.enabled", "false", "a wrong number"),
        ("spark.sql.legacy.timeParserPolicy", "legacy", "another time"),
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS", "lose their microseconds"),
        ("spark.sql.streaming.multipleWatermarkPolicy", "max", "late by the times of another"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", "instead of an instant"),
    ],
)
def test_a_job_does_not_start_with_settings_that_change_values(
    spark: SparkSession, tmp_path: Path, setting: str, value: str, message: str
) -> None:
    error = startup_error(spark, tmp_path, setting, value)
    assert message in str(error)
    # The setting in the remedy is valid.
    name, valid = re.findall(r'"([^"]+)"', error.remedy)
    with with_settings(spark, {name: valid}):
        require_standard_semantics(spark)


def test_these_settings_change_values(spark: SparkSession, tmp_path: Path) -> None:
    at = "timestamp '2026-01-01' event_time"
    most = spark.sql(f"select 9223372036854775807L n, {at} union all select 1L, {at}")
    with with_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        windows = tumbling(most, "1 hour", aggs={"sum": agg.sum("n")})
        assert [row["sum"] for row in windows.collect()] == [-9223372036854775808]
    path = str(tmp_path / "times")
    with with_settings(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}):
        spark.sql("select timestamp '2026-01-01 00:00:00.123456' at").write.format("delta").save(
            path
        )
    stored = spark.read.format("delta").load(path).selectExpr("cast(at as string)").head()
    assert stored == ("2026-01-01 00:00:00.123",)


WITHOUT_JARS = """
from pyspark.sql import SparkSession
from tidegate.errors import SetupError
from tidegate import spark_session
own = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for running in (True, False):
    if not running:
        own.stop()
    try:
        spark_session("views")
    except SetupError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_user_s_session_without_the_jars_is_rejected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JARS], cwd=project_root(), capture_output=True, text=True
    )
    running, stopped = done.stdout.split("the new Spark session")
    lacks = "has no Delta (delta-spark) and no Kafka (spark-sql-kafka-0-10)"
    assert lacks in running
    assert "spark.jars.packages=io.delta:delta-spark_4.2_2.13:" in running
    # The JVM of a stopped session remains, without the jars.
    assert lacks in stopped
    assert "a restart of the notebook's kernel" in stopped


OPTIONS = """
from tidegate import spark_session
spark = spark_session("views", master="local[1]", conf={"spark.ui.enabled": "false"})
beans = spark._jvm.java.lang.management.ManagementFactory
print(*beans.getRuntimeMXBean().getInputArguments(), sep="\\n")
print(*spark._jvm.java.lang.System.getProperty("java.class.path").split(":"), sep="\\n")
"""


@pytest.mark.slow
def test_java_options_of_the_installation_remain_in_effect(tmp_path: Path) -> None:
    own = "spark.driver.extraJavaOptions -Dinstalled=true\n"
    own += "spark.driver.extraClassPath /their/own.jar\n"
    (tmp_path / "spark-defaults.conf").write_text(own, encoding="utf-8")
    settings = {"SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", OPTIONS],
        cwd=project_root(),
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    options = done.stdout.splitlines()
    assert "-Dinstalled=true" in options, done.stderr
    assert {"/their/own.jar", *map(str, jars("spark"))} <= set(options)
    expected = cds_options(archive_path()).split()
    assert [option for option in options if option in expected] == expected
    # SPARK_CONF_DIR also configures the log.
    assert not any("log4j2" in option for option in options)


def test_the_error_lists_jars_that_do_not_match_the_lock(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "one.jar").write_bytes(b"one")
    lock = f"{hashlib.sha256(b'one').hexdigest()}  spark/one.jar\n"
    require_locked(tmp_path, lock)
    with pytest.raises(SetupError, match=r"jars\.lock: spark/one\.jar, spark/two\.jar"):
        require_locked(tmp_path, f"{'0' * 64}  spark/one.jar\n{'1' * 64}  spark/two.jar\n")


@pytest.mark.parametrize("own", [None, "org.example.Mine"])
def test_excluded_rules_of_the_session_remain_excluded(
    own: str | None, spark: SparkSession
) -> None:
    key = "spark.sql.adaptive.optimizer.excludedRules"
    assert spark.conf.get(key, None) is None
    with with_settings(spark, {} if own is None else {key: own}):
        with read_all_rows(spark):
            found = (spark.conf.get(key, None) or "").split(",")
        assert found[:-1] == ([] if own is None else [own])
        assert found[-1].endswith(".AQEPropagateEmptyRelation")
        assert spark.conf.get(key, None) == own


def test_a_rule_is_excluded_until_the_last_of_two_jobs_has_ended(spark: SparkSession) -> None:
    key = "spark.sql.adaptive.optimizer.excludedRules"
    first, second = ExitStack(), ExitStack()
    for job in (first, second):
        job.enter_context(read_all_rows(spark))
    first.close()
    assert (spark.conf.get(key, None) or "").endswith(".AQEPropagateEmptyRelation")
    second.close()
    assert spark.conf.get(key, None) is None
