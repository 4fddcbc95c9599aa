"""The configuration of the job customer_history."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import configured
from tidegate.errors import ConfigError
from tidegate.jobs.customer_history import CustomerHistory, job


def test_the_shipped_configuration_is_valid_and_a_key_is_required(spark: SparkSession) -> None:
    config = configured(CustomerHistory)
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "history", "dead_letters", "offset_gaps")
    }
    assert job(config).inputs["changes"].format.schema.names[:2] == ["op", "key"]
    assert job(configured(CustomerHistory, {}, "changes.format=maxwell")).one_to_one
    with pytest.raises(ConfigError, match="decimals"):
        configured(CustomerHistory, {}, "changes.decimals=text")
    with pytest.raises(ConfigError, match=r"changes\.shape with format = 'maxwell'"):
        configured(CustomerHistory, {}, "changes.format=maxwell", "changes.shape=flattened")
    with pytest.raises(ConfigError, match="history"):
        configured(CustomerHistory, {}, "output.history=customers")
