"""What every test may use: one small Spark session with Delta and Kafka, a broker, a fresh topic,
and the library as a zip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.session import spark_session

pytest_plugins = ["tidegate.testing.fixtures"]

# Python workers must be this interpreter, and the session reads both when it is made.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session on two cores, with Delta as the catalog, RocksDB for state and Kafka on the class
    path."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    made = spark_session(
        "tests", master="local[2]", conf={**SMALL, "spark.sql.warehouse.dir": str(warehouse)}
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tidegate` as a zip for --py-files: Spark's workers import from .zip, not from .whl, though a
    wheel is one."""
    folder = tmp_path_factory.mktemp("shipped")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(project_root()),
    ]
    subprocess.run(build, check=True, capture_output=True)
    return Path(shutil.copy(next(folder.glob("*.whl")), folder / "tidegate.zip"))
