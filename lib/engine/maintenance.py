"""The tables of a job between batches: compaction, vacuum, and names in a catalog."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..delta.catalog import register_table, table_location
from ..errors import ArgumentError, ConflictError, TableError
from ..job.job import Job
from ..jvm import delta_state, refuse_missing_files, with_settings
from ..paths import normalize_path
from ..spark.spark_errors import translate_error
from ..startup.environment import table_paths

_LOG = logging.getLogger(__name__)
_MB = 1024**2
_OPTIMIZE_SETTINGS = {
    # Files of at least the first size are not rewritten, so that compacting a large table costs
    # only as much as the batches since the last compaction.
    "spark.databricks.delta.optimize.minFileSize": str(96 * _MB),
    "spark.databricks.delta.optimize.maxFileSize": str(128 * _MB),
}
_LISTING_PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def run_maintenance(job: Job, spark: SparkSession, number: int) -> None:
    """Compact and vacuum the tables if that is due after a batch, once the batch is in all tables.

    Tables that batches create take turns, so that the maintenance of many of them does not delay a
    single batch. Maintenance is idempotent, so a batch that runs again after a crash can repeat it.
    Errors of Delta are logged as warnings, because the rows are already committed.
    """
    maintenance = job.maintenance
    side_tables = [job.locations.dead_letters.path, job.locations.offset_gaps.path]
    sink_tables = [path for path, _ in job.sink.tables()]
    compacted = [] if job.sink.compacts_itself else sink_tables
    for every, tables, maintain in (
        (maintenance.compact_every, [*compacted, *side_tables], compact),
        (maintenance.vacuum_every, [*sink_tables, *side_tables], vacuum),
    ):
        if every is not None:
            due = tables if (number + 1) % every == 0 else []
            created = job.sink.created_tables(spark)
            _for_each_table(job, spark, [*due, *created[number % every :: every]], maintain)


def compact(spark: SparkSession, path: str) -> str:
    """Compact the small files of a table; return the result as text."""
    with with_settings(spark, _OPTIMIZE_SETTINGS), refuse_missing_files(spark):
        metrics = DeltaTable.forPath(spark, path).optimize().executeCompaction()
    file_counts = metrics.select("metrics.numFilesRemoved", "metrics.numFilesAdded").head()
    if file_counts is None or not file_counts[0]:
        return "no small files"
    return f"{file_counts[0]:,} files compacted into {file_counts[1]:,}"


def vacuum(spark: SparkSession, path: str) -> str:
    """Delete the files of a table that no retained version needs; return the result as text."""
    # Delta lists the folders in this number of tasks; the default is 10,000.
    tasks = spark.conf.get("spark.sql.shuffle.partitions")
    with with_settings(spark, {_LISTING_PARALLELISM: str(tasks)}):
        DeltaTable.forPath(spark, path).vacuum()
    return "unused files deleted"


def _for_each_table(
    job: Job, spark: SparkSession, paths: list[str], maintain: Callable[[SparkSession, str], str]
) -> None:
    for path in dict.fromkeys(paths):
        if delta_state(spark, path).version < 0:
            continue
        started = time.monotonic()
        try:
            outcome = maintain(spark, path)
        except (PySparkException, ConflictError) as error:
            _LOG.warning(
                "%s: maintenance of %s failed, and is retried when it is due again: %s",
                job.name,
                path,
                translate_error(error),
            )
            continue
        _LOG.info("%s: %s: %s in %.1f s", job.name, path, outcome, time.monotonic() - started)


class CatalogRegistrar:
    """Registers the tables of a job in its catalog; does nothing for a job without a catalog."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._spark = spark
        self._catalog = job.catalog
        self._unregistered = (
            {} if job.catalog is None else catalog_names(job.catalog, table_paths(job))
        )

    def require_free_names(self) -> str:
        """Refuse a missing schema and names that other tables have; return the result as text.

        Raises TableError.
        """
        if self._catalog is None:
            return "no catalog configured"
        if not self._spark.catalog.databaseExists(self._catalog):
            raise TableError(
                f"unknown schema: {self._catalog!r}",
                "an existing schema of the session's catalogs",
                f"CREATE SCHEMA {self._catalog}",
            )
        unregistered = {}
        for name, path in self._unregistered.items():
            location = table_location(self._spark, name)
            if location is None:
                unregistered[name] = path
            elif normalize_path(location) != normalize_path(path):
                raise TableError(
                    f"the name {name} is taken by the table at {location}",
                    f"a name that is free, or registered for the job's table at {path}",
                    f"another schema; or DROP TABLE {name}, if the name is not needed otherwise",
                )
        registered_count = len(self._unregistered) - len(unregistered)
        self._unregistered = unregistered
        return f"{registered_count} tables are registered in {self._catalog}"

    def register_new(self) -> None:
        """Register the tables that were created since the last call.

        Raises TableError.
        """
        for name, path in list(self._unregistered.items()):
            if delta_state(self._spark, path).version >= 0:
                register_table(self._spark, name, path)
                del self._unregistered[name]


def catalog_names(catalog: str, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each table by its name, which is made of the schema and the folder's name.

    Raises ArgumentError for two tables with the same name.

    >>> catalog_names("shop", {"target": "/data/views", "dead_letters": "/data/views.dead_letters"})
    {'shop.views': '/data/views', 'shop.views_dead_letters': '/data/views.dead_letters'}
    """
    paths_by_name: dict[str, str] = {}
    for path in tables.values():
        table_name = re.sub(r"\W", "_", normalize_path(path).rpartition("/")[2], flags=re.ASCII)
        name = f"{catalog}.{table_name if not table_name[:1].isdigit() else f'_{table_name}'}"
        if normalize_path(paths_by_name.setdefault(name, path)) != normalize_path(path):
            raise ArgumentError(
                f"invalid catalog: {paths_by_name[name]} and {path} would both be named {name}",
                "tables whose folders have different names",
            )
    return paths_by_name
