"""The rules of deviation detection: past windows, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, timedelta
from math import isfinite
from typing import ClassVar, Literal

from ...calendars import is_calendar_period
from ...columns import require_choice, require_instance, require_integer, require_zoned_time
from ...durations import microseconds
from ...errors import ArgumentError, ColumnTypeError

_MAX_COUNT = 1_000


@dataclass(frozen=True)
class PastWindows:
    """The past windows that a window is compared with: `count` windows at a distance of `every`.

    `PastWindows(6)` is the previous six windows; `PastWindows(4, every="1 week")` the same window
    in each of the last four weeks. With a zone, distances are in local time: 10:00 is compared with
    10:00, also after a clock change. A local time that a clock change skipped is omitted; of an
    ambiguous local time the first window is used. Where clocks shift by half an hour, as on Lord
    Howe Island, hourly windows before and after a shift have no local time in common and are not
    compared; windows of 30 minutes are.

    Windows without a row are omitted. With `zero_from`, a window without a row after that time
    counts as 0, and is itself compared. This detects a silent source in counts and sums.

    Args:
        count: the number of past windows, 1 to 1,000.
        every: the distance between them; by default the window size.
        skip: local dates, such as holidays; windows that begin on them are neither compared nor
            used as past windows.
        zero_from: a datetime with a time zone.

    Raises:
        ArgumentError, ColumnTypeError: at construction.

    >>> PastWindows(4, every="1 week").describe()
    '4 windows every 1 week'
    """

    plan_name: ClassVar[str] = "past_windows"
    count: int
    _: KW_ONLY
    every: str | timedelta | None = None
    skip: Sequence[date] = ()
    zero_from: datetime | None = None

    def __post_init__(self) -> None:
        require_integer(self.count, "count", 1, _MAX_COUNT)
        if self.every is not None and not is_calendar_period(self.every):
            microseconds(self.every, "every")
        if isinstance(self.skip, str) or not isinstance(self.skip, Iterable):
            hint = "skip=[date(2026, 12, 25)]"
            raise ColumnTypeError(f"invalid skip: {self.skip!r}", "a list of dates", hint)
        for day in self.skip:
            if not isinstance(day, date) or isinstance(day, datetime):
                hint = "skip=[date(2026, 12, 25)]"
                raise ColumnTypeError(f"invalid date in skip: {day!r}", "a date", hint)
        object.__setattr__(self, "skip", tuple(sorted(set(self.skip))))
        if self.zero_from is not None:
            require_zoned_time(self.zero_from, "zero_from")

    def describe(self) -> str:
        """Return a description as text."""
        distance = "" if self.every is None else f" every {self.every}"
        return f"{self.count} windows{distance}"


Baseline = Literal["median", "mean"]
Direction = Literal["either", "above", "below"]


@dataclass(frozen=True)
class DeviationRule:
    """An alarm rule: the minimum deviation of a window's value from its past windows.

    At least one of `absolute`, `ratio` and `robust_z` is required. With several, the value must
    reach all of them: ratio=2 with absolute=50 ignores small numbers.

    Args:
        value: the numeric column to compare, as a double.
        past: the past windows.
        baseline: the "median" or the "mean" of their values. The mean of `PastWindows(6)` is the
            rolling average of the last six windows.
        direction: "above" the baseline, "below" it, or "either".
        absolute: the minimum distance from the baseline.
        ratio: the minimum factor, above 1, between the larger and the smaller of value and
            baseline. A nonzero value reaches any ratio to a baseline of 0. Negative numbers have no
            ratio and raise no alarm.
        robust_z: the minimum distance from the median in standard deviations, estimated as 1.4826
            times the median absolute deviation of the past values, or if that is 0, as 1.2533 times
            their mean absolute deviation. If all past values are equal, any other value reaches it;
            combine it with `absolute` to ignore small changes.
        min_samples: the minimum number of past values for an alarm; by default half of
            `past.count`, but at least 2, or 1 for one past window.
        per: divide each value by the length of its window, in units of this duration, so that rates
            are compared: a day of 23 hours with days of 24 hours.

    Raises:
        ArgumentError, ColumnTypeError: at construction.

    Source of the robust z-score: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993).

    >>> DeviationRule("views", PastWindows(4, every="1 week"), ratio=2, absolute=50).describe()
    'views against the median of 4 windows every 1 week: either way, absolute 50, ratio 2'
    """

    plan_name: ClassVar[str] = "deviation_rule"
    value: str
    past: PastWindows
    _: KW_ONLY
    baseline: Baseline = "median"
    direction: Direction = "either"
    absolute: float | None = None
    ratio: float | None = None
    robust_z: float | None = None
    min_samples: int | None = None
    per: str | timedelta | None = None

    def __post_init__(self) -> None:
        require_instance(self.value, "value", str, 'value="views"')
        require_instance(self.past, "past", PastWindows, 'PastWindows(4, every="1 week")')
        require_choice(self.baseline, "baseline", Baseline)
        require_choice(self.direction, "direction", Direction)
        self._require_limits()
        require_integer(self.required_samples, "min_samples", 1, self.past.count)
        if self.per is not None:
            microseconds(self.per, "per")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        names = ("absolute", "ratio", "robust_z")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def required_samples(self) -> int:
        """The minimum number of past values for an alarm."""
        if self.min_samples is not None:
            return self.min_samples
        return min(self.past.count, max(2, (self.past.count + 1) // 2))

    def describe(self) -> str:
        """Return the rule as text."""
        direction = "either way" if self.direction == "either" else self.direction
        limits = "".join(f", {name} {limit:g}" for name, limit in self.limits.items())
        value = self.value if self.per is None else f"{self.value} per {self.per}"
        return f"{value} against the {self.baseline} of {self.past.describe()}: {direction}{limits}"

    def _require_limits(self) -> None:
        if not self.limits:
            allowed = "at least one of absolute, ratio and robust_z"
            raise ArgumentError("invalid limits: none is set", allowed, "ratio=2")
        for name, limit in self.limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                raise ColumnTypeError(f"invalid {name}: {limit!r}", "a number", f"{name}=2")
            minimum = 1 if name == "ratio" else 0
            if not isfinite(limit) or limit <= minimum:
                allowed = f"a finite number above {minimum}"
                remedy = f"{name}=2"
                if name == "ratio" and 0 < limit < 1:
                    allowed += ": the larger of value and baseline divided by the smaller"
                    remedy = f'ratio={1 / limit:g}, direction="below"'
                raise ArgumentError(f"invalid {name}: {limit!r}", allowed, remedy)
        if self.robust_z is not None and self.baseline != "median":
            raise ArgumentError(
                f"invalid baseline with robust_z: {self.baseline!r}",
                "'median', since robust_z is the distance from the median",
                'baseline="median"',
            )
