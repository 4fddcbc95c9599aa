"""Pytest fixtures for your tests: a Spark session, a broker and the name of a new topic.

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

from ..spark.session import set_log_level, spark_session
from .broker import Broker

TEST_SESSION_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings for small tables, and a session that is reachable from this machine only."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores for all tests, with Delta, Kafka and the RocksDB state store."""
    # The session reads the interpreter of Python workers at its start.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {**TEST_SESSION_SETTINGS, "spark.sql.warehouse.dir": warehouse}
    session = spark_session("tests", master="local[2]", conf=conf)
    set_log_level(session, "ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """An embedded broker for all tests; a test that kills a broker starts its own."""
    with Broker.start() as running_broker:
        yield running_broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique topic name, derived from the test's name; the topic is not created."""
    test_name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"{test_name[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
