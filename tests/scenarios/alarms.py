"""The scenario of jobs/alarms.py: clicks of the same hours of some weeks, with unusual ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.support.delta_tables import rows
from tests.support.deviation_oracle import Values, expected_verdicts
from tidegate.jobs.sample_clicks import SCHEMA, Click, SentRecord
from tidegate.patterns import DeviationRule, PastWindows

ZONE = "Europe/Berlin"
HOUR, WEEK = timedelta(hours=1), timedelta(weeks=1)
FIRST = datetime(2026, 3, 2, 9, tzinfo=ZoneInfo(ZONE))
LATENESS = timedelta(seconds=10)
SINCE = datetime(2026, 3, 2, tzinfo=UTC)
RULE = DeviationRule(
    "views", PastWindows(3, every="1 week", zero_from=SINCE), ratio=2.0, absolute=5.0
)
OPTIONS: dict[str, object] = {
    "input.schema": SCHEMA,
    "input.watermark_delay": "10 seconds",
    "window.allowed_lateness": "10 weeks",
    "rule.zero_from": SINCE.isoformat(),
    "rule.count": 3,
    "rule.absolute": 5.0,
}
Alarm = tuple[str, datetime]
"""Page, and the beginning of the hour."""


def clicked() -> tuple[list[Click], list[Click]]:
    """Return clicks of three hours on five Mondays around a daylight saving change, and late
    clicks.

    On the fifth Monday, ten o'clock has many clicks, and eleven o'clock has no clicks of one page.
    The late clicks belong to the earlier weeks: with them ten o'clock is not unusual.
    """
    made: list[Click] = []
    names = itertools.count()

    def put(at: datetime, page: str, count: int, now: datetime | None = None) -> None:
        for number in range(count):
            moment = at + timedelta(seconds=number)
            arrived = moment if now is None else now + timedelta(seconds=number)
            name = f"e{next(names)}"
            micros = [round(each.timestamp() * 1000) for each in (moment, arrived)]
            made.append(
                Click(name, "u", page, 1.0, 1, event_time_ms=micros[0], arrival_ms=micros[1])
            )

    for week in range(5):
        for hour in range(3):
            at = (FIRST + week * WEEK + hour * HOUR).astimezone(UTC)
            put(at, "/", 30 if (week, hour) == (4, 1) else 8)
            if (week, hour) != (4, 2):
                put(at + HOUR / 2, "/a", 6)
    evening = (FIRST + 4 * WEEK + 9 * HOUR).astimezone(UTC)
    put(evening, "/b", 1)
    first = made.copy()
    made.clear()
    for week in (2, 3):
        put((FIRST + week * WEEK + HOUR + HOUR / 4).astimezone(UTC), "/", 25, now=evening + HOUR)
    put(evening + 2 * HOUR, "/b", 1)
    return first, made


def unusual(ledger: Iterable[SentRecord]) -> set[Alarm]:
    """Return the hours that are alarms once the topic is drained."""
    clicks = [sent.click for sent in ledger]
    watermark = (
        datetime.fromtimestamp(max(click.event_time_ms for click in clicks) / 1000, UTC) - LATENESS
    )
    counts = Counter(
        (click.page, datetime.fromtimestamp(click.event_time_ms // 3_600_000 * 3600, UTC))
        for click in clicks
    )
    values: Values = {(page, start): float(number) for (page, start), number in counts.items()}
    found = expected_verdicts(values, RULE, HOUR, WEEK, ZONE, watermark)
    return {(each.key or "", each.start) for each in found if each.verdict == "alarm"}


def log(table: Path) -> list[tuple[int, Alarm, str]]:
    """Return the entries of the log of alarms: version, page and hour, status."""
    return sorted(
        (row["version"], (row["page"], row["window"]["start"].astimezone(UTC)), row["status"])
        for row in rows(table)
    )


def standing(table: Path) -> set[Alarm]:
    """Return the alarms that are not withdrawn."""
    last = {alarm: status for _, alarm, status in log(table)}
    return {alarm for alarm, status in last.items() if status == "raised"}
