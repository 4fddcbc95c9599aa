"""Temporary settings of a session, and settings that make results wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from pyspark.sql import SparkSession

from ..errors import ConfigError


class _UnsafeSetting(NamedTuple):
    """A value of a setting that makes results wrong, its consequence, and a safe value."""

    name: str
    value: str
    consequence: str
    safe_value: str
    expected: str = ""


_SKIPPED = "missing or corrupt files of a table would be skipped without an error"
_ALL_FILES = "a session that reads every file or fails"
_FILE_SETTINGS = (
    _UnsafeSetting("spark.sql.files.ignoreMissingFiles", "true", _SKIPPED, "false", _ALL_FILES),
    _UnsafeSetting("spark.sql.files.ignoreCorruptFiles", "true", _SKIPPED, "false", _ALL_FILES),
)
_VALUE_SETTINGS = (
    _UnsafeSetting(
        "spark.sql.ansi.enabled",
        "false",
        "a sum that overflows its type would be a wrong number",
        "true",
    ),
    _UnsafeSetting(
        "spark.sql.legacy.timeParserPolicy",
        "LEGACY",
        "a text could be parsed as another time than by other readers",
        "CORRECTED",
        "CORRECTED or EXCEPTION",
    ),
    _UnsafeSetting(
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MILLIS",
        "times would lose their microseconds in the tables",
        "TIMESTAMP_MICROS",
        "TIMESTAMP_MICROS or INT96",
    ),
    _UnsafeSetting(
        "spark.sql.streaming.multipleWatermarkPolicy",
        "max",
        "rows of one input would be late by the times of another",
        "min",
    ),
    _UnsafeSetting(
        "spark.sql.timestampType",
        "TIMESTAMP_NTZ",
        "a TIMESTAMP would be a time without a zone instead of an instant",
        "TIMESTAMP_LTZ",
    ),
)
_STATISTICS_SETTING = _UnsafeSetting(
    "spark.databricks.delta.stats.collect",
    "false",
    "the number of rows of a commit would be unknown",
    "true",
    "a session in which Delta records the number of rows of each file",
)
_STATISTICS_HINT = (
    "; the table property delta.dataSkippingNumIndexedCols = 0 disables all other statistics"
)
_OTHER_NUMBERS = "commits would have the number of another program"
_TRANSACTION_SETTINGS = {
    "spark.databricks.delta.write.txnAppId": _OTHER_NUMBERS,
    "spark.databricks.delta.write.txnVersion": _OTHER_NUMBERS,
    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration": (
        "new tables would forget the numbers of their batches"
    ),
}
"""Settings that a session must not have, and what each would do."""

_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY_RELATION_RULE = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
_RULES_LOCK = Lock()


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings of the session for the block."""
    previous = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, previous_value in previous.items():
            spark.conf.unset(key) if previous_value is None else spark.conf.set(key, previous_value)


@contextmanager
def read_all_rows(spark: SparkSession) -> Iterator[None]:
    """Make queries that start in this block read all rows, also if their result is empty.

    Otherwise Spark skips the rest of a query, and its observed counts, when an empty input makes
    the result empty. Each of several concurrent blocks excludes the rule once more and removes one
    exclusion, so the rule is excluded until the last block ends.
    """
    with _RULES_LOCK:
        _set_excluded_rules(spark, [*_excluded_rules(spark), _EMPTY_RELATION_RULE])
    try:
        yield
    finally:
        with _RULES_LOCK:
            rules = _excluded_rules(spark)
            if _EMPTY_RELATION_RULE in rules:
                rules.remove(_EMPTY_RELATION_RULE)
            _set_excluded_rules(spark, rules)


def _excluded_rules(spark: SparkSession) -> list[str]:
    return [rule for rule in (spark.conf.get(_EXCLUDED_RULES, None) or "").split(",") if rule]


def _set_excluded_rules(spark: SparkSession, rules: Sequence[str]) -> None:
    if rules:
        spark.conf.set(_EXCLUDED_RULES, ",".join(rules))
    else:
        spark.conf.unset(_EXCLUDED_RULES)


def require_all_files(spark: SparkSession) -> None:
    """Refuse a session that ignores missing or corrupt files."""
    _require_safe(spark, *_FILE_SETTINGS)


def require_standard_semantics(spark: SparkSession) -> None:
    """Refuse a session that silently computes, parses or stores other values."""
    _require_safe(spark, *_VALUE_SETTINGS)


def require_statistics(spark: SparkSession) -> None:
    """Refuse a session that writes tables without the row counts of their files."""
    _require_safe(spark, _STATISTICS_SETTING, extra_hint=_STATISTICS_HINT)


def require_own_transactions(spark: SparkSession) -> None:
    """Refuse a session whose settings change or remove the transaction numbers of commits."""
    for name, consequence in _TRANSACTION_SETTINGS.items():
        value = spark.conf.get(name, None)
        if value is not None:
            raise ConfigError(
                f"invalid {name}: {value!r}, {consequence}",
                "a session without it",
                f'spark.conf.unset("{name}")',
            )


def _require_safe(spark: SparkSession, *settings: _UnsafeSetting, extra_hint: str = "") -> None:
    for setting in settings:
        if (spark.conf.get(setting.name, None) or "").lower() == setting.value.lower():
            raise ConfigError(
                f"invalid {setting.name}: {setting.value!r}, {setting.consequence}",
                setting.expected or setting.safe_value,
                f'spark.conf.set("{setting.name}", "{setting.safe_value}"){extra_hint}',
            )


def set_task_property(spark: SparkSession, name: str, value: str) -> None:
    """Set a local property for the tasks of all Spark jobs that this thread starts from now on.

    Threads that this thread starts inherit it.
    """
    spark.sparkContext.setLocalProperty(name, value)
