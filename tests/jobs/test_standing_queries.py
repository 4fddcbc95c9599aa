"""The configuration of the job standing_queries."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import configured
from tidegate.errors import ConfigError
from tidegate.jobs.standing_queries import StandingQueries, job


def test_the_shipped_configuration_is_valid_and_invalid_keys_are_rejected(
    spark: SparkSession,
) -> None:
    config = configured(StandingQueries)
    assert config.search.max_changelog_lag == "1 minute"
    names = {"table", "dead_letters", "offset_gaps", "versions", "waiting"}
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    assert list(job(config).inputs) == ["documents", "queries"]
    with pytest.raises(ConfigError, match="values are texts"):
        configured(StandingQueries, {}, "queries.schema=query string")
    with pytest.raises(ConfigError, match=r"\[search\] .*price"):
        job(configured(StandingQueries, {}, "search.default=price"))
