"""Settings of a session: for a while, and those with which no answer can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from pyspark.sql import SparkSession

from ..errors import ConfigError


@dataclass(frozen=True)
class _Untrusted:
    """A value of a setting with which no answer can be trusted.

    told: what would become of an answer. right: a value that is right.
    """

    name: str
    value: str
    told: str
    right: str
    allowed: str
    also: str = ""


_EVERY_FILE = (
    "true",
    "a table's files that are gone or damaged would be left out unsaid",
    "false",
    "a session that reads every file or stops.",
)
_LEAVING_OUT = (
    _Untrusted("spark.sql.files.ignoreMissingFiles", *_EVERY_FILE),
    _Untrusted("spark.sql.files.ignoreCorruptFiles", *_EVERY_FILE),
)
_ALTERING = (
    _Untrusted(
        "spark.sql.ansi.enabled",
        "false",
        "a sum that does not fit its type would be another number",
        "true",
        "true.",
    ),
    _Untrusted(
        "spark.sql.legacy.timeParserPolicy",
        "LEGACY",
        "a text could be read as another time than by other readers",
        "CORRECTED",
        "CORRECTED or EXCEPTION.",
    ),
    _Untrusted(
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MILLIS",
        "times would lose their microseconds in the tables",
        "TIMESTAMP_MICROS",
        "TIMESTAMP_MICROS or INT96.",
    ),
    _Untrusted(
        "spark.sql.streaming.multipleWatermarkPolicy",
        "max",
        "rows of one input would be late by the times of another",
        "min",
        "min.",
    ),
    _Untrusted(
        "spark.sql.timestampType",
        "TIMESTAMP_NTZ",
        "a TIMESTAMP would be a time without a zone, and no instant",
        "TIMESTAMP_LTZ",
        "TIMESTAMP_LTZ.",
    ),
)
_UNCOUNTED = _Untrusted(
    "spark.databricks.delta.stats.collect",
    "false",
    "how many rows a commit adds could not be told",
    "true",
    "a session that has Delta note the rows of each file.",
    "; the property delta.dataSkippingNumIndexedCols = 0 leaves out all other statistics of a "
    "table.",
)

_LEFT_OUT = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
_CHANGING = Lock()


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


@contextmanager
def reading_all(spark: SparkSession) -> Iterator[None]:
    """Let the queries that begin in this block read all rows, also where none will come out.

    Spark leaves out the rest of a query, what is counted of its rows too, once it sees that an
    input without rows leaves nothing of the others. Of several such blocks at once each adds the
    rule once more, and takes one away: so it stays until the last of them has ended.
    """
    with _CHANGING:
        _leave_out(spark, [*_left_out(spark), _EMPTY])
    try:
        yield
    finally:
        with _CHANGING:
            rules = _left_out(spark)
            if _EMPTY in rules:
                rules.remove(_EMPTY)
            _leave_out(spark, rules)


def _left_out(spark: SparkSession) -> list[str]:
    return [rule for rule in (spark.conf.get(_LEFT_OUT, None) or "").split(",") if rule]


def _leave_out(spark: SparkSession, rules: Sequence[str]) -> None:
    if rules:
        spark.conf.set(_LEFT_OUT, ",".join(rules))
    else:
        spark.conf.unset(_LEFT_OUT)


def require_all_files(spark: SparkSession) -> None:
    """Refuse a session that leaves out files which are gone or damaged, as if they had no rows."""
    _refuse(spark, *_LEAVING_OUT)


def require_same_values(spark: SparkSession) -> None:
    """Refuse a session in which values are computed, read or stored otherwise, and unsaid."""
    _refuse(spark, *_ALTERING)


def require_statistics(spark: SparkSession) -> None:
    """Refuse a session that writes tables without saying how many rows their files have."""
    _refuse(spark, _UNCOUNTED)


def _refuse(spark: SparkSession, *settings: _Untrusted) -> None:
    for each in settings:
        if (spark.conf.get(each.name, None) or "").lower() == each.value.lower():
            raise ConfigError(
                f"{each.name} is {each.value}: {each.told}.",
                each.allowed,
                f'spark.conf.set("{each.name}", "{each.right}"){each.also}',
            )


def tell_tasks(spark: SparkSession, name: str, value: str) -> None:
    """Let the tasks of all Spark jobs that this thread begins from now on know a value.

    A task has it as a local property of its context. A thread that this one starts has it too.
    """
    spark.sparkContext.setLocalProperty(name, value)
