"""What two runs of a job have left, for the tests that damage a copy of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Broker

from .left import THIRD, Left
from .numbers import Numbers
from .topics import sent
from .watched import Watched
from .watched import watched as run_watched


@pytest.fixture(scope="session")
def original(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What two runs have left, with the records of a third one in the topic; no test changes it."""
    made = Left.made(spark, broker, "left", tmp_path_factory.mktemp("left"))
    sent(broker.servers, made.topic, THIRD)
    return made


@pytest.fixture
def left(original: Left, tmp_path: Path) -> Left:
    """A copy of what two runs have left, over the same topic."""
    return original.copied(tmp_path / "copy")


@pytest.fixture(scope="session")
def watched(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Watched:
    """What a run has told of itself while it went on, and at its end."""
    return run_watched(spark, broker, tmp_path_factory.mktemp("watched"))


@pytest.fixture
def numbers(broker: Broker, topic: str, tmp_path: Path) -> Numbers:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    made = Numbers(broker, topic, tmp_path)
    made.send(1, 2.5, 3)
    return made
