"""The configuration of the job unique_visitors."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tests.support.spark_session import configured
from tidegate.jobs.unique_visitors import UniqueVisitors


def test_the_shipped_configuration_is_valid() -> None:
    config = configured(UniqueVisitors)
    assert set(config.output.tables()) == {
        f"output.{t}" for t in ("table", "hours", "days", "dead_letters", "offset_gaps")
    }
    assert timedelta(0) == datetime.now(ZoneInfo(config.roll_up.zone)).utcoffset()
