"""Overrides select another kind of window with the shipped configuration."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.spark_session import configured
from tidegate.errors import ConfigError
from tidegate.jobs.page_views import PageViews


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
def test_lateness_depends_on_the_kind_of_window(
    spark: SparkSession, overrides: list[str], closes: str
) -> None:
    window = configured(PageViews, {}, *overrides).window
    click = spark.createDataFrame(
        [(datetime(2026, 3, 2, 10, 3, 45, tzinfo=UTC),)], "event_time timestamp"
    )
    late = window.to_window().late_at(F.col("event_time"))
    row = click.select(F.unix_seconds(late).alias("at")).collect()[0]
    assert datetime.fromtimestamp(row["at"], UTC).strftime("%H:%M:%S") == closes


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["window.kind=cumulative"], "missing key: window.step, for window.kind 'cumulative'"),
        (["window.kind=session"], "missing key: window.gap, for window.kind 'session'"),
        (["window.kind=hopping"], "missing key: window.hop, for window.kind 'hopping'"),
        (["window.hop=20s"], "unknown key: window.hop .*, for window.kind 'tumbling'"),
        (["window.kind=hopping", "window.hop=2m"], "invalid window.hop: '2m'"),
        (["window.kind=cumulative", "window.size=1 day", "window.step=7 minutes"], "multiple"),
        (["window.size=1 month"], "no fixed length"),
        (["window.size=1 day", "window.zone=Europe/Berlinn"], "Europe/Berlin"),
        (
            ["window.kind=sliding", "window.zone=UTC"],
            "unknown key: window.zone .*, for window.kind",
        ),
        (["window.kind=sliding", "window.emit=changes"], "for window.kind 'sliding'"),
        (["window.kind=sliding", "window.allowed_lateness=1h"], "for window.kind 'sliding'"),
    ],
)
def test_invalid_keys_and_durations_of_a_kind_are_rejected(
    overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(PageViews, {}, *overrides)
