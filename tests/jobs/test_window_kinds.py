"""The command line alone turns the job's shipped configuration to another kind of window."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.page_views import PageViews, views
from tidegate.errors import ConfigError
from tidegate.runtime.config.load import load
from tidegate.runtime.process.installation import project_root

SHIPPED = project_root() / "conf" / "jobs" / "page_views.toml"


@pytest.mark.parametrize(
    ("overrides", "closes"),
    [
        ([], "10:04:00"),
        (["window.kind=hopping", "window.hop=20 seconds"], "10:04:00"),
        (["window.kind=session", "window.gap=30 minutes"], "10:07:30"),
        (
            [
                "window.kind=cumulative",
                "window.step=1 hour",
                "window.size=1 day",
                "window.zone=Europe/Berlin",
            ],
            "11:00:00",
        ),
        (["window.size=1 day", "window.zone=Asia/Kolkata"], "18:30:00"),
    ],
)
def test_a_click_is_late_by_its_own_kind_of_window(
    spark: SparkSession, overrides: list[str], closes: str
) -> None:
    window = load(PageViews, SHIPPED, overrides).config.window
    click = spark.createDataFrame(
        [(datetime(2026, 3, 2, 10, 3, 45, tzinfo=UTC),)], "event_time timestamp"
    )
    row = click.select(
        F.unix_seconds(views(window).late_at(F.col("event_time"))).alias("at")
    ).collect()[0]
    assert datetime.fromtimestamp(row["at"], UTC).strftime("%H:%M:%S") == closes


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["window.kind=cumulative", "window.size=1 day"], "for cumulative: step and size"),
        (["window.kind=cumulative", "window.size=1 day", "window.step=7 minutes"], "multiple"),
        (["window.size=1 month"], "no fixed length"),
        (["window.size=1 day", "window.zone=Europe/Berlinn"], "Europe/Berlin"),
        (["window.kind=sliding", "window.zone=UTC"], "a zone for tumbling and cumulative"),
    ],
)
def test_durations_that_do_not_fit_the_kind_are_refused(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(PageViews, SHIPPED, overrides)
