"""The configuration of the timelines, and the tables that it plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.timelines import Timelines, job
from tidegate.errors import ConfigError
from tidegate.views.view import View

from ..configured import configured


def test_the_shipped_configuration_holds_and_two_tables_at_one_place_are_refused(
    spark: SparkSession,
) -> None:
    config = configured(Timelines)
    names = ("table", "dead_letters", "gaps", "named_posts", "posts", "follows", "users")
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    view = job(config).sink
    assert isinstance(view, View)
    written = [Path(path).name for path, _ in view.tables()]
    assert written == ["timelines", "named_posts", "posts", "users", "follows"], (
        "a view before what it is made of"
    )
    with pytest.raises(ConfigError, match="named_posts"):
        configured(Timelines, {}, "output.named_posts=timelines")
