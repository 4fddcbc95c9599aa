"""The configuration of the unique visitors."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from jobs.unique_visitors import UniqueVisitors

from ..configured import configured


def test_the_shipped_configuration_is_whole() -> None:
    config = configured(UniqueVisitors)
    assert set(config.output.tables()) == {
        f"output.{t}" for t in ("table", "hours", "days", "dead_letters", "gaps")
    }
    assert timedelta(0) == datetime.now(ZoneInfo(config.roll_up.zone)).utcoffset()
