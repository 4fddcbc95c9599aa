"""The configuration of the standing queries."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from jobs.standing_queries import StandingQueries, job
from tidegate.errors import ConfigError

from ..configured import configured


def test_the_shipped_configuration_holds_and_what_it_must_not_have_is_told(
    spark: SparkSession,
) -> None:
    config = configured(StandingQueries)
    assert config.search.lag == "1 minute"
    names = {"table", "dead_letters", "gaps", "versions", "waiting"}
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    assert list(job(config).inputs) == ["documents", "queries"]
    with pytest.raises(ConfigError, match="its values are texts"):
        configured(StandingQueries, {}, "queries.schema=query string")
    with pytest.raises(ConfigError, match="default names price"):
        job(configured(StandingQueries, {}, "search.default=price"))
