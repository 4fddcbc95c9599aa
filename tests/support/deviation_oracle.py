"""Deviation detection in plain Python, window by window, in local time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import fmean, median
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tidegate.patterns import DeviationRule

Values = Mapping[tuple[str | None, datetime], float | None]
"""The values of windows by key and start in UTC."""


class Verdict(NamedTuple):
    """The result of a rule for a window."""

    key: str | None
    start: datetime
    value: float | None
    past: tuple[tuple[datetime, float, bool], ...]
    baseline: float | None
    robust_z: float | None
    verdict: str


def previous_start(
    start: datetime, distance: timedelta, number: int, zone: str | None, size: timedelta
) -> datetime | None:
    """Return the start of the window `number` distances back; None for a skipped local time."""
    if number == 0 or zone is None or distance == size:
        return start - number * distance
    local = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - number * distance
    instant = local.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)
    exists = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local
    since_epoch = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return instant if exists and since_epoch % size == timedelta(0) else None


def expected_verdicts(
    values: Values,
    rule: DeviationRule,
    size: timedelta,
    distance: timedelta | None,
    zone: str | None,
    until: datetime | None = None,
) -> list[Verdict]:
    """Return the verdict of every window, and with zero_from also of windows without a row."""
    last = max((start for _, start in values), default=datetime.min.replace(tzinfo=UTC)) + size
    end = last if until is None else until
    zero_from = rule.past.zero_from
    distance = distance or size

    def is_skipped(start: datetime) -> bool:
        return start.astimezone(ZoneInfo(zone or "UTC")).date() in rule.past.skip

    def past_starts(start: datetime) -> list[datetime]:
        starts = [
            previous_start(start, distance, number, zone, size)
            for number in range(1, rule.past.count + 1)
        ]
        return [at for at in starts if at is not None]

    windows = set(values)
    if zero_from is not None:
        for key in {key for key, _ in values}:
            at = min(start for other, start in values if other == key)
            while at + size <= end:
                if at >= zero_from and any((key, each) in values for each in past_starts(at)):
                    windows.add((key, at))
                at += size

    verdicts = []
    for key, start in windows:
        if start + size > end or is_skipped(start):
            continue
        past = []
        for at in past_starts(start):
            if is_skipped(at):
                continue
            if (key, at) in values:
                value = values[key, at]
                if value is not None and math.isfinite(value):
                    past.append((at, float(value), False))
            elif zero_from is not None and at >= zero_from:
                past.append((at, 0.0, True))
        value = values.get((key, start), 0.0)
        if value is not None and not math.isfinite(value):
            value = None
        verdicts.append(_verdict(key, start, value, past, rule))
    return verdicts


def _verdict(
    key: str | None, start: datetime, value: float | None, past: list[Any], rule: DeviationRule
) -> Verdict:
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
    elif len(numbers) < rule.required_samples:
        verdict = "too little history"
    else:
        assert baseline is not None
        deviation = value - baseline
        directions = {"either": deviation != 0, "above": deviation > 0, "below": deviation < 0}
        reached = [directions[rule.direction]]
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
    return Verdict(key, start, value, tuple(past), baseline, robust, verdict)


def sorted_by_window(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts sorted by key and start."""
    return sorted(verdicts, key=lambda each: (each.key or "", each.start))
