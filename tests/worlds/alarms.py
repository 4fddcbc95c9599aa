"""The world of jobs/alarms.py: clicks of the same hours of some weeks, and what is unusual."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tidegate.patterns import Deviation, Past
from tidegate.testing.clicks import SCHEMA, Click
from tidegate.testing.ledger import Sent

from ..patterns.comparison.oracle import Values, judged
from ..tables import rows

ZONE = "Europe/Berlin"
HOUR, WEEK = timedelta(hours=1), timedelta(weeks=1)
FIRST = datetime(2026, 3, 2, 9, tzinfo=ZoneInfo(ZONE))
LATENESS = timedelta(seconds=10)
SINCE = datetime(2026, 3, 2, tzinfo=UTC)
RULE = Deviation("views", Past(3, every="1 week", zero_from=SINCE), ratio=2.0, absolute=5.0)
OPTIONS: dict[str, object] = {
    "input.schema": SCHEMA,
    "input.lateness": "10 seconds",
    "window.corrections": "10 weeks",
    "rule.zero_from": SINCE.isoformat(),
    "rule.count": 3,
    "rule.absolute": 5.0,
}
Alarm = tuple[str, datetime]
"""Page, and the beginning of the hour."""


def clicked() -> tuple[list[Click], list[Click]]:
    """Make clicks of three hours on five Mondays about a change of clocks, and late ones.

    On the fifth, ten o'clock has many, and eleven o'clock none of one page. The late clicks are of
    the weeks before: with them ten o'clock is as it always was.
    """
    made: list[Click] = []
    names = itertools.count()

    def put(at: datetime, page: str, count: int, now: datetime | None = None) -> None:
        for number in range(count):
            moment = at + timedelta(seconds=number)
            arrived = moment if now is None else now + timedelta(seconds=number)
            name = f"e{next(names)}"
            micros = [round(each.timestamp() * 1000) for each in (moment, arrived)]
            made.append(Click(name, "u", page, 1.0, 1, at=micros[0], arrived=micros[1]))

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


def unusual(ledger: Iterable[Sent]) -> set[Alarm]:
    """Return the hours that are alarms once the topic is drained."""
    clicks = [sent.click for sent in ledger]
    watermark = datetime.fromtimestamp(max(click.at for click in clicks) / 1000, UTC) - LATENESS
    counts = Counter(
        (click.page, datetime.fromtimestamp(click.at // 3_600_000 * 3600, UTC)) for click in clicks
    )
    values: Values = {(page, start): float(number) for (page, start), number in counts.items()}
    found = judged(values, RULE, HOUR, WEEK, ZONE, watermark)
    return {(each.key or "", each.start) for each in found if each.verdict == "alarm"}


def log(table: Path) -> list[tuple[int, Alarm, str]]:
    """Return the entries of the log of alarms: version, page and hour, status."""
    return sorted(
        (row["version"], (row["page"], row["window"]["start"].astimezone(UTC)), row["status"])
        for row in rows(table)
    )


def standing(table: Path) -> set[Alarm]:
    """Return the alarms that stand."""
    last = {alarm: status for _, alarm, status in log(table)}
    return {alarm for alarm, status in last.items() if status == "raised"}
