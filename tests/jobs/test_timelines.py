"""The configuration and the tables of the job timelines."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import configured
from tidegate.errors import ConfigError
from tidegate.jobs.timelines import Timelines, job
from tidegate.views.view import View


def test_the_shipped_configuration_is_valid_and_equal_paths_are_rejected(
    spark: SparkSession,
) -> None:
    config = configured(Timelines)
    names = ("table", "dead_letters", "offset_gaps", "named_posts", "posts", "follows", "users")
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    view = job(config).sink
    assert isinstance(view, View)
    written = [Path(path).name for path, _ in view.tables()]
    assert written == ["timelines", "named_posts", "posts", "users", "follows"], (
        "a view before its base tables"
    )
    with pytest.raises(ConfigError, match="named_posts"):
        configured(Timelines, {}, "output.named_posts=timelines")
