"""The files of a job's tables, put in order between its batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...jvm import delta_state, with_settings
from ...sinks.sink import compacts
from ..job import Job
from ..process.failures import plain

_LOG = logging.getLogger(__name__)
_MB = 1024**2
_SIZES = {
    # Files of the first size and more stay as they are, so that a large table is not written anew
    # each time for what a few batches have added.
    "spark.databricks.delta.optimize.minFileSize": str(96 * _MB),
    "spark.databricks.delta.optimize.maxFileSize": str(128 * _MB),
}
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def keep_up(job: Job, spark: SparkSession, number: int) -> None:
    """Do what is due after a batch. To be called when the batch is in all tables.

    A batch that runs again after a crash does it again, which changes nothing that is done. What
    Delta refuses is told in a warning: the rows are where they belong either way.
    """
    upkeep = job.upkeep
    beside = [job.places.dead.path, job.places.gaps.path]
    target = [path for path, _ in job.sink.tables()]
    if _due(upkeep.compact_every, number):
        own = [] if compacts(job.sink) else target
        _each(job, spark, [*own, *beside], compact)
    if _due(upkeep.vacuum_every, number):
        _each(job, spark, [*target, *beside], vacuum)


def compact(spark: SparkSession, path: str) -> str:
    """Put the small files of a table together; return what was done."""
    with with_settings(spark, _SIZES):
        done = DeltaTable.forPath(spark, path).optimize().executeCompaction()
    files = done.select(F.col("metrics.numFilesRemoved"), F.col("metrics.numFilesAdded")).head()
    if files is None or not files[0]:
        return "no small files"
    return f"{files[0]:,} files put into {files[1]:,}"


def vacuum(spark: SparkSession, path: str) -> str:
    """Delete the files of a table that no version needs any longer; return what was done."""
    # Delta lists the folders in as many tasks as this says, 10,000 unless it is set.
    tasks = spark.conf.get("spark.sql.shuffle.partitions")
    with with_settings(spark, {_LISTING: str(tasks)}):
        DeltaTable.forPath(spark, path).vacuum()
    return "files that no version needs are deleted"


def _due(every: int | None, number: int) -> bool:
    return every is not None and (number + 1) % every == 0


def _each(
    job: Job, spark: SparkSession, paths: list[str], work: Callable[[SparkSession, str], str]
) -> None:
    for path in dict.fromkeys(paths):
        if delta_state(spark, path).version < 0:
            continue
        began = time.monotonic()
        try:
            done = work(spark, path)
        except PySparkException as error:
            _LOG.warning("%s: %s is left as it is for now: %s", job.name, path, plain(error))
            continue
        _LOG.info("%s: %s: %s in %.1f s", job.name, path, done, time.monotonic() - began)
