"""The settings of a Spark session, and their precedence."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate import spark_session
from tidegate.errors import SetupError
from tidegate.jvm import has_class, read_all_rows, with_settings
from tidegate.spark.jars import jars, project_root, require_locked
from tidegate.spark.presets import local_cores
from tidegate.spark.session import (
    CORE_COUNT_SETTINGS,
    archive_path,
    cds_options,
    default_settings,
    merge_settings,
)
from tidegate.versions import spark_version

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


WITHOUT_JARS = """
from pyspark.sql import SparkSession
from tidegate.errors import SetupError
from tidegate import Input, Job, KafkaSource, json_format, run, sinks, spark_session
own = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for running in (True, False):
    if not running:
        own.stop()
    try:
        spark_session("views")
    except SetupError as error:
        print(error)
    if running:
        source, format = KafkaSource("localhost:9", "views"), json_format("at TIMESTAMP")
        views = Input(source, format, time="at", watermark_delay="0 seconds")
        try:
            run(Job(name="views", inputs={"views": views}, sink=sinks.Append("views")), own)
        except SetupError as error:
            print("run:", error)
"""


@pytest.mark.jobs
@pytest.mark.slow
def test_a_user_s_session_without_the_jars_is_rejected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JARS], cwd=project_root(), capture_output=True, text=True
    )
    running, stopped = done.stdout.split("the new Spark session")
    lacks = "has no Delta (delta-spark) and no Kafka (spark-sql-kafka-0-10)"
    # Both the session and the run of a job name what is missing.
    assert running.count(f"the active Spark session {lacks}") == 2
    assert "run: the active Spark session" in running
    assert f"spark.jars.packages=io.delta:delta-spark_{spark_version()}_2.13:" in running
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


@pytest.mark.jobs
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
