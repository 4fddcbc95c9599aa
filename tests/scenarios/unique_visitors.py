"""The world of jobs/unique_visitors.py: what minutes, hours and days must be, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import finish
from tidegate.jobs.sample_clicks import SCHEMA, Click
from tidegate.jobs.unique_visitors import PROBABILITIES, aggregates
from tidegate.sketches import rank_error

ZONE = "Europe/Berlin"
OPTIONS = {"clicks.schema": SCHEMA, "clicks.max_records_per_batch": 1_700, "roll_up.zone": ZONE}
AGGS = aggregates()
Start = Callable[[datetime], datetime]


def minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def hour(at: datetime) -> datetime:
    return minute(at).replace(minute=0)


def day(at: datetime) -> datetime:
    return (
        at.astimezone(ZoneInfo(ZONE))
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .astimezone(UTC)
    )


def grouped(good: Sequence[Click], start: Start) -> dict[tuple[datetime, str], list[Click]]:
    groups: dict[tuple[datetime, str], list[Click]] = {}
    for click in good:
        at = datetime.fromtimestamp(click.event_time_ms / 1000, UTC)
        groups.setdefault((start(at), click.page), []).append(click)
    return groups


def agrees(row: Row, group: Sequence[Click]) -> None:
    """Check one row of answers: exact where a sketch is exact, within its error where it is not."""
    assert row["views"] == len(group)
    users = len({click.user for click in group})
    assert row["visitors"] == pytest.approx(users, rel=4 * 0.0082, abs=0.5)
    times = sorted(click.ms for click in group)
    for found, rank in zip(row["ms"], PROBABILITIES, strict=True):
        below, upto = sum(ms < found for ms in times), sum(ms <= found for ms in times)
        error = 0 if len(times) <= 200 else 2 * rank_error(200) * len(times)
        assert below - error <= rank * len(times) <= upto + error


STARTS: dict[str, Start] = {"minutes": minute, "hours": hour, "days": day}


def agree(spark: SparkSession, root: Path, good: Sequence[Click]) -> None:
    """Require exactly the expected rows in the three tables."""
    for table, start in STARTS.items():
        groups = grouped(good, start)
        stored = spark.read.format("delta").load(str(root / table))
        rows = (
            finish(stored, AGGS).select(F.unix_seconds("window.start").alias("at"), "*").collect()
        )
        assert len(rows) == len(groups)
        for row in rows:
            agrees(row, groups[datetime.fromtimestamp(row["at"], UTC), row["page"]])
