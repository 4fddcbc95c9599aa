"""The command line alone turns the job's shipped configuration to another kind of window."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.page_views import PageViews
from tidegate.errors import ConfigError

from ..configured import configured


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
    window = configured(PageViews, {}, *overrides).window
    click = spark.createDataFrame(
        [(datetime(2026, 3, 2, 10, 3, 45, tzinfo=UTC),)], "event_time timestamp"
    )
    late = window.value().late_at(F.col("event_time"))
    row = click.select(F.unix_seconds(late).alias("at")).collect()[0]
    assert datetime.fromtimestamp(row["at"], UTC).strftime("%H:%M:%S") == closes


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["window.kind=cumulative"], "window.step is missing, with window.kind 'cumulative'"),
        (["window.kind=session"], "window.gap is missing, with window.kind 'session'"),
        (["window.kind=hopping"], "window.hop is missing, with window.kind 'hopping'"),
        (["window.hop=20s"], "window.hop .* is no key of window.kind 'tumbling'"),
        (["window.kind=hopping", "window.hop=2m"], "window.hop is '2m', longer than size"),
        (["window.kind=cumulative", "window.size=1 day", "window.step=7 minutes"], "multiple"),
        (["window.size=1 month"], "no fixed length"),
        (["window.size=1 day", "window.zone=Europe/Berlinn"], "Europe/Berlin"),
        (["window.kind=sliding", "window.zone=UTC"], "window.zone .* is no key of window.kind"),
        (["window.kind=sliding", "window.emission=updates"], "with window.kind 'sliding'"),
        (["window.kind=sliding", "window.corrections=1h"], "with window.kind 'sliding'"),
    ],
)
def test_durations_that_do_not_fit_the_kind_are_refused(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        configured(PageViews, {}, *overrides)
