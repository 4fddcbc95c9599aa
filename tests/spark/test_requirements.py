"""The interpreter of Python workers, the version of PySpark and the threads of the JVM."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.spark.jars import jars_home, project_root
from tidegate.versions import SUPPORTED_SPARK

OTHER_VERSION = """
import importlib.metadata as metadata
installed = metadata.version
metadata.version = lambda name: "{version}" if name == "pyspark" else installed(name)
import tidegate
"""


def run_python(
    script: str, folder: Path, *, without: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script by this interpreter, which is not the first one on the PATH of the process."""
    environment = {key: value for key, value in os.environ.items() if key != without}
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(project_root()), **variables},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.3.0", "4.3.0.dev1"])
def test_another_version_of_pyspark_is_refused_with_the_supported_ones(
    version: str, tmp_path: Path
) -> None:
    done = run_python(OTHER_VERSION.format(version=version), tmp_path)
    assert (
        f"SetupError: unsupported pyspark {version}: tidegate supports 4.0, 4.1, 4.2, from 4.0.1 on"
    ) in done.stderr.splitlines()[-3]


@pytest.mark.parametrize("version", ["4.0.1", "4.0.2", "4.1.1", "4.2.0"])
def test_a_supported_version_of_pyspark_is_accepted(version: str, tmp_path: Path) -> None:
    done = run_python(OTHER_VERSION.format(version=version), tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_package_requires_the_supported_versions_of_pyspark() -> None:
    requirements = (project_root() / "pyproject.toml").read_text(encoding="utf-8")
    pins = re.findall(r'"pyspark(?:\[connect\])?>=4\.0\.1,<4\.(\d+)"', requirements)
    assert [f"4.{int(pin) - 1}" for pin in pins] == [SUPPORTED_SPARK[-1]] * 2
    assert SUPPORTED_SPARK[0] == "4.0"


OWN_SESSION = """
import {first}
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from tidegate import aggregates as agg
from tidegate.windows import sliding
events = spark.createDataFrame([("a", 1)], "user STRING, s LONG").selectExpr(
    "user", "timestamp_seconds(s) event_time"
)
windows = sliding(events, "1 minute", by="user", aggs={{"n": agg.count()}})
print("rows:", [row["n"] for row in windows.collect()])
"""


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.parametrize("first", ["tidegate", "pyspark"])
def test_workers_of_a_user_s_own_session_have_the_interpreter_of_the_program(
    tmp_path: Path, first: str
) -> None:
    # The first python3 on the PATH has no packages.
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (tmp_path / "python3").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run_python(
        OWN_SESSION.format(first=first), tmp_path, without="PYSPARK_PYTHON", PATH=path
    )
    assert done.stdout.splitlines() == ["rows: [1]"], done.stderr[-3000:]


UNPINNED = """
import os
import sys
from pathlib import Path
from tidegate import Input, Job, KafkaSource, json_format, run, sinks, spark_session
from tidegate.errors import ConfigError
from tidegate.jvm import run_before_commit
spark = spark_session("views", master="local[1]", conf={"spark.ui.enabled": "false"})
source, format = KafkaSource("localhost:9", "views"), json_format("at TIMESTAMP")
views = Input(source, format, time="at", watermark_delay="0 seconds")
# The variable counts at the start of the JVM.
os.environ.pop("PYSPARK_PIN_THREAD")
try:
    run(Job(name="views", inputs={"views": views}, sink=sinks.Append("tables/views")), spark)
except ConfigError as error:
    print(error.problem)
try:
    with run_before_commit(spark, lambda: None):
        print("commit")
except ConfigError as error:
    print(error.problem)
print(Path("tables").exists())
"""


@pytest.mark.jobs
@pytest.mark.slow
def test_a_process_without_pinned_threads_starts_no_job_and_commits_nothing(tmp_path: Path) -> None:
    done = run_python(UNPINNED, tmp_path, PYSPARK_PIN_THREAD="false")
    problem = (
        "invalid PYSPARK_PIN_THREAD: 'false', a commit would pass without its checks and without "
        "the number of its batch"
    )
    assert done.stdout.splitlines() == [problem, problem, "False"], done.stderr[-3000:]


OTHER_WORKERS = """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.defaultExtraClassPath", "{jars}/*")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    .config("spark.pyspark.python", "{python}").getOrCreate()
)
from tidegate import Input, Job, KafkaSource, json_format, run, sinks
from tidegate.errors import SetupError
source, format = KafkaSource("localhost:9", "views"), json_format("at TIMESTAMP")
views = Input(source, format, time="at", watermark_delay="0 seconds")
try:
    run(Job(name="views", inputs={{"views": views}}, sink=sinks.Append("tables/views")), spark)
except SetupError as error:
    print(error)
"""


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "problem"),
    [("-I -S", "No module named "), ("exit", "Cannot run program ")],
    ids=["no packages", "no interpreter"],
)
def test_workers_without_the_packages_are_an_error_at_the_start(
    tmp_path: Path, options: str, problem: str
) -> None:
    python = tmp_path / "worker"
    if options != "exit":
        script = f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} {options} "$@"\n'
        python.write_text(script, encoding="utf-8")
        python.chmod(0o755)
    script = OTHER_WORKERS.format(jars=jars_home() / "spark", python=python)
    done = run_python(script, tmp_path, PYSPARK_PYTHON=str(python))
    lines = done.stdout.splitlines()
    assert lines, done.stderr[-3000:]
    assert lines[0].startswith(f"Spark's Python workers cannot run tidegate: {problem}")
    assert not (tmp_path / "tables").exists()
