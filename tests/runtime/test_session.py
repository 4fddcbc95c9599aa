"""The settings of a Spark session, and who has the last word on each."""

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

from tidegate.aggregates import total
from tidegate.errors import ConfigError, SetupError
from tidegate.jvm import has_class, reading_all, require_same_values, with_settings
from tidegate.local_cores import local_cores
from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.class_archive import place, sharing
from tidegate.runtime.process.fetching import require_locked
from tidegate.runtime.process.installation import jars, project_root
from tidegate.runtime.process.session import (
    SMALL,
    choose,
    defaults,
    spark_session,
)
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.windows import tumbling

from .topics import reading

FILE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.x": "file",
}


def test_the_settings_file_is_read_without_its_comments() -> None:
    found = defaults()
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


def test_a_small_machine_gets_as_many_partitions_as_cores() -> None:
    chosen = choose(FILE, {}, {"spark.master": "local[3]"})
    assert [chosen[key] for key in SMALL] == ["3", "3"]


def test_a_cluster_keeps_the_file() -> None:
    chosen = choose(FILE, {"spark.master": "spark://h:7077"}, {})
    assert [chosen[key] for key in SMALL] == ["2", "2"]


def test_what_a_user_has_set_stays() -> None:
    submitted = {"spark.sql.shuffle.partitions": "64", "spark.x": "submitted"}
    chosen = choose(FILE, submitted, {"spark.master": "local[3]", SMALL[1]: "2"})
    assert (chosen[SMALL[0]], chosen[SMALL[1]], chosen["spark.x"]) == ("64", "2", "submitted")


def test_a_session_that_has_all_is_given_back_as_it_is(spark: SparkSession) -> None:
    assert spark_session("other").sparkContext is spark.sparkContext
    assert not has_class(spark, "io.delta.NoSuchClass")


def refused(spark: SparkSession, root: Path, setting: str, value: str) -> ConfigError:
    """Return the error with which a job ends in a session that has a setting."""
    pages = Input(reading("nowhere:9092", "pages"))
    job = Job(name="pages", inputs={"pages": pages}, sink=Append(str(root / "pages")))
    with with_settings(spark, {setting: value}), pytest.raises(ConfigError) as error:
        run(job, spark)
    assert list(root.iterdir()) == []
    return error.value


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_no_job_runs_where_files_may_be_left_out(
    spark: SparkSession, tmp_path: Path, setting: str
) -> None:
    error = refused(spark, tmp_path, f"spark.sql.files.{setting}", "true")
    assert f"{setting} is true" in str(error)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("spark.sql.ansi.enabled", "false", "another number"),
        ("spark.sql.legacy.timeParserPolicy", "legacy", "another time"),
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS", "lose their microseconds"),
        ("spark.sql.streaming.multipleWatermarkPolicy", "max", "late by the times of another"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", "no instant"),
    ],
)
def test_no_job_runs_where_values_would_be_others(
    spark: SparkSession, tmp_path: Path, setting: str, value: str, told: str
) -> None:
    error = refused(spark, tmp_path, setting, value)
    assert told in str(error)
    # The way on that the error names is one that a job takes.
    name, right = re.findall(r'"([^"]+)"', error.hint)
    with with_settings(spark, {name: right}):
        require_same_values(spark)


def test_values_are_others_where_a_session_has_these_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = "timestamp '2026-01-01' event_time"
    most = spark.sql(f"select 9223372036854775807L n, {at} union all select 1L, {at}")
    with with_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        windows = tumbling(most, "1 hour", aggs={"sum": total("n")})
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
from tidegate.runtime import spark_session
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
def test_a_session_of_one_s_own_without_the_jars_is_refused_with_what_it_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JARS], cwd=project_root(), capture_output=True, text=True
    )
    running, stopped = done.stdout.split("a new Spark session")
    lacks = "has no Delta (delta-spark) and no Kafka (spark-sql-kafka-0-10)"
    assert lacks in running
    assert "spark.jars.packages=io.delta:delta-spark_4.2_2.13:" in running
    # A stopped session leaves its JVM, to which no jar is added any more.
    assert lacks in stopped
    assert "a notebook's kernel anew" in stopped


OPTIONS = """
from tidegate.runtime import spark_session
spark = spark_session("views", master="local[1]", conf={"spark.ui.enabled": "false"})
beans = spark._jvm.java.lang.management.ManagementFactory
print(*beans.getRuntimeMXBean().getInputArguments(), sep="\\n")
print(*spark._jvm.java.lang.System.getProperty("java.class.path").split(":"), sep="\\n")
"""


@pytest.mark.slow
def test_what_an_installation_starts_java_with_stays_beside_the_library_s(tmp_path: Path) -> None:
    own = "spark.driver.extraJavaOptions -Dtheir.own=kept\n"
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
    told = done.stdout.splitlines()
    assert "-Dtheir.own=kept" in told, done.stderr
    assert {"/their/own.jar", *map(str, jars("spark"))} <= set(told)
    ours = sharing(place()).split()
    assert [option for option in told if option in ours] == ours
    # An installation with settings of its own has its own way of logging too.
    assert not any("log4j2" in option for option in told)


def test_jars_that_are_not_those_of_the_lock_are_named(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "one.jar").write_bytes(b"one")
    lock = f"{hashlib.sha256(b'one').hexdigest()}  spark/one.jar\n"
    require_locked(tmp_path, lock)
    with pytest.raises(SetupError, match=r"jars\.lock: spark/one\.jar, spark/two\.jar"):
        require_locked(tmp_path, f"{'0' * 64}  spark/one.jar\n{'1' * 64}  spark/two.jar\n")


@pytest.mark.parametrize("own", [None, "org.example.Mine"])
def test_a_rule_is_left_out_beside_those_that_the_session_leaves_out(
    own: str | None, spark: SparkSession
) -> None:
    key = "spark.sql.adaptive.optimizer.excludedRules"
    assert spark.conf.get(key, None) is None
    with with_settings(spark, {} if own is None else {key: own}):
        with reading_all(spark):
            found = (spark.conf.get(key, None) or "").split(",")
        assert found[:-1] == ([] if own is None else [own])
        assert found[-1].endswith(".AQEPropagateEmptyRelation")
        assert spark.conf.get(key, None) == own


def test_a_rule_is_left_out_until_the_last_of_two_jobs_has_ended(spark: SparkSession) -> None:
    key = "spark.sql.adaptive.optimizer.excludedRules"
    first, second = ExitStack(), ExitStack()
    for job in (first, second):
        job.enter_context(reading_all(spark))
    first.close()
    assert (spark.conf.get(key, None) or "").endswith(".AQEPropagateEmptyRelation")
    second.close()
    assert spark.conf.get(key, None) is None
