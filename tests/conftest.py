"""What every test may use: one small Spark session with Delta and Kafka, a broker and a fresh topic name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lib.runtime.session import session

pytest_plugins = ["lib.testing.fixtures"]

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
    """One session on two cores, with Delta as the catalog, RocksDB for state and Kafka on the class path."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    made = session("tests", master="local[2]", conf={**SMALL, "spark.sql.warehouse.dir": str(warehouse)})
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
