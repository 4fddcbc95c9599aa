"""The locale, the time zone and the hash seed of a process leave the result of a job as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.settings_job import send_views, setting_job, written
from tidegate import run
from tidegate.spark.jars import project_root
from tidegate.spark.result_settings import HARMLESS_SETTINGS
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs

JOB = """
import sys
from pathlib import Path
from tests.support.settings_job import setting_job
from tidegate import run, spark_session
from tidegate.testing.fixtures import TEST_SESSION_SETTINGS
servers, topic, root = sys.argv[1:]
spark = spark_session("views", master="local[2]", conf=TEST_SESSION_SETTINGS)
java = spark._jvm.java.util
print(java.Locale.getDefault().toString(), java.TimeZone.getDefault().getID())
run(setting_job(servers, topic, Path(root)), spark)
"""


@pytest.mark.slow
def test_a_job_has_the_same_result_in_another_locale_zone_and_hash_order(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1)
    send_views(broker.bootstrap_servers, topic)
    run(setting_job(broker.bootstrap_servers, topic, tmp_path / "here"), spark)
    changed = {
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "7",
        "user.timezone": "Pacific/Apia",
        "user.language": "tr",
        "user.country": "TR",
    }
    assert changed.keys() == HARMLESS_SETTINGS.keys()
    properties = " ".join(f"-D{key}={value}" for key, value in changed.items() if "." in key)
    variables = {key: value for key, value in changed.items() if "." not in key}
    options = {"SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} {properties}"}
    done = subprocess.run(
        [sys.executable, "-c", JOB, broker.bootstrap_servers, topic, str(tmp_path / "there")],
        cwd=project_root(),
        env={**os.environ, **variables, **options},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[0] == "tr_TR Pacific/Apia"
    assert written(tmp_path / "there") == written(tmp_path / "here")
