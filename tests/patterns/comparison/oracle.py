"""Comparison with the past in plain Python: one window after another, by the zone's clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import fmean, median
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tidegate.patterns import Deviation

Values = Mapping[tuple[str | None, datetime], float | None]
"""The value of each key's window by its beginning, in UTC."""


class Judged(NamedTuple):
    """What a rule says of a window."""

    key: str | None
    start: datetime
    value: float | None
    past: tuple[tuple[datetime, float, bool], ...]
    baseline: float | None
    robust_z: float | None
    verdict: str


def back(
    start: datetime, distance: timedelta, number: int, zone: str | None, size: timedelta
) -> datetime | None:
    """Return the window so many distances before; None where the clocks never showed its time."""
    if number == 0 or zone is None or distance == size:
        return start - number * distance
    shown = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - number * distance
    found = shown.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)
    is_there = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == shown
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    return found if is_there and since % size == timedelta(0) else None


def judged(
    values: Values,
    rule: Deviation,
    size: timedelta,
    distance: timedelta | None,
    zone: str | None,
    until: datetime | None = None,
) -> list[Judged]:
    """Judge every window that there is, and those that there are not where missing ones are 0."""
    last = max((start for _, start in values), default=datetime.min.replace(tzinfo=UTC)) + size
    end = last if until is None else until
    zero_from = rule.past.zero_from
    distance = distance or size

    def skipped(start: datetime) -> bool:
        return start.astimezone(ZoneInfo(zone or "UTC")).date() in rule.past.skip

    def looked(start: datetime) -> list[tuple[int, datetime]]:
        every = [
            (number, back(start, distance, number, zone, size))
            for number in range(1, rule.past.count + 1)
        ]
        return [(number, at) for number, at in every if at is not None and not skipped(at)]

    starts = set(values)
    if zero_from is not None:
        for key in {key for key, _ in values}:
            first = min(start for own, start in values if own == key)
            at = first
            while at + size <= end:
                reaches = [back(at, distance, n, zone, size) for n in range(1, rule.past.count + 1)]
                if at >= zero_from and any((key, each) in values for each in reaches):
                    starts.add((key, at))
                at += size

    found = []
    for key, start in starts:
        if start + size > end or skipped(start):
            continue
        past = []
        for _, at in looked(start):
            if (key, at) in values:
                value = values[key, at]
                if value is not None and math.isfinite(value):
                    past.append((at, float(value), False))
            elif zero_from is not None and at >= zero_from:
                past.append((at, 0.0, True))
        value = values.get((key, start), 0.0)
        if value is not None and not math.isfinite(value):
            value = None
        found.append(_judge(key, start, value, past, rule))
    return found


def _judge(
    key: str | None, start: datetime, value: float | None, past: list[Any], rule: Deviation
) -> Judged:
    numbers = [each[1] for each in past]
    average = median if rule.baseline == "median" else fmean
    baseline = average(numbers) if numbers else None
    robust = None
    spread = 0.0
    if baseline is not None and rule.baseline == "median":
        distances = [abs(each - baseline) for each in numbers]
        spread = 1.4826 * median(distances) or 1.2533 * fmean(distances)
        if spread and value is not None:
            robust = (value - baseline) / spread
    verdict = "ordinary"
    if value is None:
        verdict = "no value"
    elif len(numbers) < rule.least:
        verdict = "too little history"
    else:
        assert baseline is not None
        deviation = value - baseline
        ways = {"either": deviation != 0, "above": deviation > 0, "below": deviation < 0}
        reached = [ways[rule.direction]]
        if rule.absolute is not None:
            reached.append(abs(deviation) >= rule.absolute)
        if rule.ratio is not None:
            reached.append(max(value, baseline) >= rule.ratio * min(value, baseline))
        if rule.robust_z is not None:
            reached.append(abs(deviation) >= rule.robust_z * spread)
        if rule.ratio is not None and min(value, baseline) < 0:
            verdict = "no ratio"
        elif all(reached):
            verdict = "alarm"
    return Judged(key, start, value, tuple(past), baseline, robust, verdict)


def sorted_by_window(found: Iterable[Judged]) -> list[Judged]:
    """Return them by key and beginning."""
    return sorted(found, key=lambda each: (each.key or "", each.start))
