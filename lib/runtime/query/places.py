"""Where a job writes: its tables by step, and the disks that they stand on."""

from __future__ import annotations

import logging
import shutil
import tempfile

from pyspark.sql import SparkSession

from ..job import Job
from ..locations import local
from .brokers import answers

_LOG = logging.getLogger(__name__)
LOW_DISK = 2 * 1024**3
"""With how little room, in bytes, a start warns."""


def steps(job: Job) -> dict[str, str]:
    """Return the path of every table that a job writes, by its step."""
    beside = [job.places.dead, job.places.gaps]
    if job.transform is not None:
        beside += job.places.late.values()
    return {
        **{table.step: table.path for table in beside},
        **{step: path for path, step in job.sink.tables()},
    }


def written(job: Job) -> list[str]:
    """Return where a job writes: its tables, its checkpoint, and Spark's own scratch folder."""
    return [*steps(job).values(), job.places.checkpoint, tempfile.gettempdir()]


def prepare(job: Job, spark: SparkSession) -> None:
    """Make the local folders; refuse a topic of dead letters that is not there.

    Warns when their disk is nearly full, and when no broker answers yet.
    """
    if job.dead_topic is not None:
        job.dead_topic.require(spark)
    for servers in {given.reading.source.servers for given in job.inputs.values()}:
        if not answers(servers):
            _LOG.warning("no broker answers at %s; Kafka's client tries for some minutes", servers)
    for place in {job.places.checkpoint, job.sink.path}:
        folder = local(place)
        if folder is None:
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
        if free < LOW_DISK:
            _LOG.warning("only %s MiB are free under %s", f"{free / 1024**2:,.0f}", folder.parent)
