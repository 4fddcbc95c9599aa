"""What counts as a deviation from the past."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from math import isfinite
from typing import Literal, get_args

from ...columns import require_whole
from ...durations import microseconds
from ...errors import ArgumentError, ColumnTypeError
from .past import Past

Baseline = Literal["median", "mean"]
Direction = Literal["either", "above", "below"]


@dataclass(frozen=True)
class Deviation:
    """A rule: by how much a window's value must differ from its past to be an alarm.

    Of `absolute`, `ratio` and `robust_z` at least one is given. Where several are, all must be
    reached: a ratio of 2 and an absolute deviation of 50 leave small numbers in peace.

    Args:
        value: the numeric column of the windows that is compared, as a double.
        past: the windows that it is compared with.
        baseline: the "median" of their values, or the "mean": `Past(6)` with the mean is the
            rolling average of the last six windows.
        direction: "above" the baseline, "below" it, or "either".
        absolute: the least distance from the baseline.
        ratio: the least factor, more than 1, between the value and the baseline, whichever of them
            is larger. A value other than 0 is any number of times a baseline of 0. Negative numbers
            have no ratio, and give no alarm.
        robust_z: the least distance from the median in standard deviations, which are estimated as
            1.4826 times the median absolute deviation of the past values; where that is 0, as
            1.2533 times their mean absolute deviation. Where all past values are equal, any other
            value reaches it; with `absolute` small changes do not.
        at_least: with fewer values in the past there is no alarm; by default a half of `past.count`
            and no less than 2, or 1 where `past` has one window.
        per: values become rates, so many a second or minute: each is divided by the length of its
            own window, so that a day of 23 hours can be compared with others.

    Raises:
        ArgumentError, ColumnTypeError: at construction.

    Source of the robust z-score: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993).

    >>> Deviation("views", Past(4, every="1 week"), ratio=2, absolute=50).told()
    'views against the median of 4 windows every 1 week: either way, absolute 50, ratio 2'
    """

    value: str
    past: Past
    _: KW_ONLY
    baseline: Baseline = "median"
    direction: Direction = "either"
    absolute: float | None = None
    ratio: float | None = None
    robust_z: float | None = None
    at_least: int | None = None
    per: str | timedelta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise ColumnTypeError(
                f"value is {self.value!r}, a {type(self.value).__name__}.", "a column's name."
            )
        if not isinstance(self.past, Past):
            raise ColumnTypeError(
                f"past is {self.past!r}, a {type(self.past).__name__}.",
                "a Past.",
                'Past(4, every="1 week")',
            )
        for what, given, choices in (
            ("baseline", self.baseline, get_args(Baseline)),
            ("direction", self.direction, get_args(Direction)),
        ):
            if given not in choices:
                raise ArgumentError(f"{what} is {given!r}.", f"{', '.join(choices)}.")
        self._require_limits()
        require_whole(self.least, "at_least", 1, self.past.count)
        if self.per is not None:
            microseconds(self.per, "per")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are given, by name."""
        names = ("absolute", "ratio", "robust_z")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def least(self) -> int:
        """How many values of the past an alarm needs at least."""
        count = self.past.count
        return min(count, max(2, (count + 1) // 2)) if self.at_least is None else self.at_least

    def told(self) -> str:
        """Return the rule as text."""
        way = "either way" if self.direction == "either" else self.direction
        limits = "".join(f", {name} {limit:g}" for name, limit in self.limits.items())
        value = self.value if self.per is None else f"{self.value} per {self.per}"
        return f"{value} against the {self.baseline} of {self.past.told()}: {way}{limits}"

    def _require_limits(self) -> None:
        if not self.limits:
            raise ArgumentError(
                "no limit is given, so that any window would be an alarm.",
                "absolute, ratio or robust_z.",
                "ratio=2",
            )
        for name, limit in self.limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                raise ColumnTypeError(
                    f"{name} is {limit!r}, a {type(limit).__name__}.", "a number."
                )
            low = 1 if name == "ratio" else 0
            if not isfinite(limit) or limit <= low:
                raise ArgumentError(f"{name} is {limit!r}.", f"a number above {low}.")
        if self.robust_z is not None and self.baseline != "median":
            raise ArgumentError(
                f"robust_z is {self.robust_z!r} and baseline={self.baseline!r}.",
                "robust_z with the median, about which it is measured.",
                'baseline="median"',
            )
