"""The configuration of the customers' history."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from jobs.customer_history import CustomerHistory, job
from tidegate.errors import ConfigError

from ..configured import configured


def test_the_shipped_configuration_holds_and_a_key_is_asked_for(spark: SparkSession) -> None:
    config = configured(CustomerHistory)
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "history", "dead_letters", "gaps")
    }
    assert job(config).inputs["changes"].reading.format.schema.names[:2] == ["op", "key"]
    assert job(configured(CustomerHistory, {}, "changes.format=maxwell")).one_to_one
    with pytest.raises(ConfigError, match="position"):
        configured(CustomerHistory, {}, "changes.position=time")
    with pytest.raises(ConfigError, match="history"):
        configured(CustomerHistory, {}, "output.history=customers")
