"""Settings of a session: for a while, and those with which no answer can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ..errors import ConfigError

_LEAVING_OUT = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
_ALTERING = {
    "spark.sql.ansi.enabled": (
        "false",
        "a sum that does not fit its type would be another number",
        "true",
    ),
    "spark.sql.legacy.timeParserPolicy": (
        "LEGACY",
        "a text could be read as another time than by other readers",
        "CORRECTED",
    ),
    "spark.sql.parquet.outputTimestampType": (
        "TIMESTAMP_MILLIS",
        "times would lose their microseconds in the tables",
        "TIMESTAMP_MICROS",
    ),
    "spark.sql.streaming.multipleWatermarkPolicy": (
        "max",
        "rows of one input would be late by the times of another",
        "min",
    ),
    "spark.sql.timestampType": (
        "TIMESTAMP_NTZ",
        "a TIMESTAMP would be a time without a zone, and no instant",
        "TIMESTAMP_LTZ",
    ),
}
"""Settings by name: the value by which answers are others, what becomes of them, a value that is
right."""
_STATISTICS = "spark.databricks.delta.stats.collect"


@contextmanager
def with_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let the session have these settings while the block runs."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def require_all_files(spark: SparkSession) -> None:
    """Refuse a session that leaves out files which are gone or damaged, as if they had no rows."""
    for name in _LEAVING_OUT:
        if (spark.conf.get(name, None) or "").lower() == "true":
            raise ConfigError(
                f"{name} is true: a table's files that are gone or damaged would be left out "
                "unsaid.",
                "a session that reads every file or stops.",
                f'spark.conf.set("{name}", "false")',
            )


def require_same_values(spark: SparkSession) -> None:
    """Refuse a session in which values are computed, read or stored otherwise, and unsaid."""
    for name, (altering, told, right) in _ALTERING.items():
        if (spark.conf.get(name, None) or "").lower() == altering.lower():
            raise ConfigError(
                f"{name} is {altering}: {told}.",
                f"{right}, which is what Spark has by itself or as good.",
                f'spark.conf.set("{name}", "{right}")',
            )


def require_statistics(spark: SparkSession) -> None:
    """Refuse a session that writes tables without saying how many rows their files have."""
    if (spark.conf.get(_STATISTICS, None) or "true").lower() == "false":
        raise ConfigError(
            f"{_STATISTICS} is false: how many rows a commit adds could not be told.",
            "a session that has Delta note the rows of each file.",
            f'spark.conf.set("{_STATISTICS}", "true"); the property '
            "delta.dataSkippingNumIndexedCols = 0 leaves out all other statistics of a table.",
        )


def tell_tasks(spark: SparkSession, name: str, value: str) -> None:
    """Let the tasks of all Spark jobs that this thread begins from now on know a value.

    A task has it as a local property of its context. A thread that this one starts has it too.
    """
    spark.sparkContext.setLocalProperty(name, value)
