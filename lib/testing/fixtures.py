"""Fixtures for pytest: a Spark session, a broker and a fresh topic, for your own tests.

With `pytest_plugins = ["tidegate.testing.fixtures"]` in your conftest.py:

def test_my_job(spark, broker, topic, tmp_path):
    broker.create_topic(topic, partitions=2)
    ...
"""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ..runtime.process.session import quiet, spark_session
from .broker import Broker

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings of a session whose tables are small, and which nobody reaches from outside."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session on two cores for all tests of the run, with Delta, Kafka and RocksDB state."""
    # Spark's Python workers have to be this interpreter; the session reads both when it is made.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {**SMALL, "spark.sql.warehouse.dir": warehouse}
    made = spark_session("tests", master="local[2]", conf=conf)
    quiet(made, "ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One embedded broker for all tests of the run; a test that kills a broker starts its own."""
    with Broker.start() as started:
        yield started


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name, made of the test's own, that no other test has; the topic is not created."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"{words[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
