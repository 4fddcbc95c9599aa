"""Fixtures of jobs: the files that runs have written, for tests that damage a copy of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import THIRD, JobFiles
from tests.support.kafka_topics import send_records
from tests.support.number_job import NumberJob
from tests.support.query_probe import ProbedRun, probe_run
from tidegate.testing import Broker


@pytest.fixture(scope="session")
def original_job_files(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> JobFiles:
    """The files of a job after two runs, with the records of a third in its topic; read-only."""
    job_files = JobFiles.create(spark, broker, "left", tmp_path_factory.mktemp("left"))
    send_records(broker.bootstrap_servers, job_files.topic, THIRD)
    return job_files


@pytest.fixture
def job_files(original_job_files: JobFiles, tmp_path: Path) -> JobFiles:
    """A copy of the files of a job after two runs, for the same topic."""
    return original_job_files.copy_to(tmp_path / "copy")


@pytest.fixture(scope="session")
def probed_run(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> ProbedRun:
    """A run with scraped metrics, its summary and its report."""
    return probe_run(spark, broker, tmp_path_factory.mktemp("watched"))


@pytest.fixture
def numbers(broker: Broker, topic: str, tmp_path: Path) -> NumberJob:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    job = NumberJob(broker, topic, tmp_path)
    job.send(1, 2.5, 3)
    return job
