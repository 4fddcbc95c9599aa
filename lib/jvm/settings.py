"""Temporary settings of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

from pyspark.sql import SparkSession

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


def set_task_property(spark: SparkSession, name: str, value: str) -> None:
    """Set a local property for the tasks of all Spark jobs that this thread starts from now on.

    Threads that this thread starts inherit it.
    """
    spark.sparkContext.setLocalProperty(name, value)
