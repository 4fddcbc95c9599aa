"""The comparison of windows with past windows by one rule, in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...columns import quote_name, quoted_column, same_key
from ...durations import microseconds
from ._window_calendar import WindowGrid
from .deviation_rule import DeviationRule

ALARM = "alarm"
DEVIATION_COLUMNS = (
    "rule",
    "value",
    "baseline",
    "deviation",
    "ratio",
    "robust_z",
    "past",
    "limits",
    "verdict",
)
"""The result columns of a comparison, without the window and its keys."""
WINDOW_START = "__tidegate_window_start"

_COMPARED_START = "__tidegate_compared_start"
_NUMBER = "__tidegate_number"
_VALUE = "__tidegate_value"
_ROW = "__tidegate_row"
_WINDOWS = "__tidegate_windows"
_LAST_START = "__tidegate_last_start"
_PAST_TYPE = "ARRAY<STRUCT<start: TIMESTAMP, value: DOUBLE, filled: BOOLEAN>>"
_MEDIAN_TO_STD_DEV = 1.4826
_MEAN_TO_STD_DEV = 1.2533


@dataclass(frozen=True)
class RuleComparison:
    """The comparison of the windows of each key with past windows of the key, by one rule."""

    name: str
    rule: DeviationRule
    by: tuple[str, ...]
    grid: WindowGrid

    def verdicts(
        self, windows: DataFrame, targets: DataFrame | None = None, *, until: datetime | None = None
    ) -> DataFrame:
        """Return the windows with the verdict of the rule.

        targets: the windows to compare, as keys and start; by default all windows.
        """
        window_values = self._window_values(windows)
        if targets is not None:
            candidates = targets
        elif self.rule.past.zero_from is not None:
            # Windows without a row are compared too.
            candidates = self.affected_windows(window_values)
        else:
            candidates = window_values.select(*self._keys, WINDOW_START).distinct()
        ended_windows = self._ended_windows(candidates, window_values, until)
        with_past = self._with_past(self._compared_windows(ended_windows), window_values)
        return self._judge(with_past)

    def affected_windows(self, windows: DataFrame) -> DataFrame:
        """Return the windows whose verdicts depend on these windows, including themselves.

        Columns: the keys and the start. Windows without a row are included.
        """
        if WINDOW_START not in windows.columns:
            windows = windows.withColumn(WINDOW_START, quoted_column("window")["start"])
        start, number = quoted_column(WINDOW_START), quoted_column(_NUMBER)
        following_starts = self.grid.following_starts(start, number, self.rule.past)
        affected = F.explode(following_starts).alias(WINDOW_START)
        return self._numbered(windows).select(*self._keys, affected).distinct()

    def compared_range(self, targets: DataFrame) -> DataFrame:
        """Return the first and last start of the windows that the targets are compared with.

        Columns: `number`, the number of distances back; `first` and `last`.
        """
        return (
            self._compared_windows(targets)
            .groupBy(quoted_column(_NUMBER).alias("number"))
            .agg(F.min(_COMPARED_START).alias("first"), F.max(_COMPARED_START).alias("last"))
        )

    @property
    def _keys(self) -> list[Column]:
        return [quoted_column(name) for name in self.by]

    def _numbered(self, windows: DataFrame) -> DataFrame:
        """Return a row for each window and each number of distances from 0 to `past.count`."""
        numbers = F.explode(F.sequence(F.lit(0), F.lit(self.rule.past.count))).alias(_NUMBER)
        return windows.select(*self._keys, WINDOW_START, numbers)

    def _window_values(self, windows: DataFrame) -> DataFrame:
        """Return the keys, the start and the value of each window."""
        window = quoted_column("window")
        message = F.lit("invalid window, whose size or alignment differs from the rule's: ")
        raise_wrong_size = F.raise_error(F.concat(message, window.cast("string"))).cast("timestamp")
        start = F.when(self.grid.contains(window), window["start"]).otherwise(raise_wrong_size)
        value = _finite_or_null(quoted_column(self.rule.value))
        if self.rule.per is not None:
            length = F.unix_micros(window["end"]) - F.unix_micros(window["start"])
            value = value * F.lit(microseconds(self.rule.per, "per")) / length
        return windows.select(
            *self._keys, start.alias(WINDOW_START), value.alias(_VALUE), F.lit(True).alias(_ROW)
        )

    def _ended_windows(
        self, candidates: DataFrame, window_values: DataFrame, until: datetime | None
    ) -> DataFrame:
        """Return the windows that have ended and do not begin on a skipped date."""
        start = quoted_column(WINDOW_START)
        included = candidates.where(~self._is_excluded(start))
        end = self.grid.window(start)["end"]
        if until is not None:
            return included.where(end <= F.lit(until))
        last_start = window_values.agg(F.max(WINDOW_START).alias(_LAST_START))
        with_last = included.crossJoin(F.broadcast(last_start))
        return with_last.where(start <= quoted_column(_LAST_START)).drop(_LAST_START)

    def _compared_windows(self, targets: DataFrame) -> DataFrame:
        """Return for each window the past windows by number, with the window itself as number 0."""
        start, number = quoted_column(WINDOW_START), quoted_column(_NUMBER)
        previous_start = self.grid.previous_start(start, number, self.rule.past)
        numbered = self._numbered(targets).select("*", previous_start.alias(_COMPARED_START))
        compared_start = quoted_column(_COMPARED_START)
        is_left_out = (number > 0) & self._is_excluded(compared_start)
        return numbered.where(compared_start.isNotNull() & ~is_left_out)

    def _is_excluded(self, start: Column) -> Column:
        skip = self.rule.past.skip
        return self.grid.date(start).isin(list(skip)) if skip else F.lit(False)

    def _with_past(self, compared: DataFrame, window_values: DataFrame) -> DataFrame:
        """Return for each window an array of its value and its past values."""
        compared_start = F.col(f"old.{_COMPARED_START}")
        is_same_window = compared_start == F.col(f"new.{WINDOW_START}")
        if self.by:
            is_same_window = is_same_window & same_key(self.by)
        joined = compared.alias("old").join(window_values.alias("new"), is_same_window, "left")
        filled = F.lit(False)
        if self.rule.past.zero_from is not None:
            filled = F.col(_ROW).isNull() & (compared_start >= F.lit(self.rule.past.zero_from))
        value = F.when(filled, F.lit(0.0)).otherwise(F.col(_VALUE))
        exists = F.col(_ROW).isNotNull() | filled
        entry = F.struct(
            F.col(_NUMBER).alias("number"),
            compared_start.alias("start"),
            value.alias("value"),
            filled.alias("filled"),
        )
        keys = [F.col(f"old.{quote_name(name)}").alias(name) for name in self.by]
        window_start = F.col(f"old.{WINDOW_START}").alias(WINDOW_START)
        entries = joined.where(exists).select(*keys, window_start, entry.alias(_WINDOWS))
        sorted_entries = F.sort_array(F.collect_list(_WINDOWS)).alias(_WINDOWS)
        return entries.groupBy(*self._keys, WINDOW_START).agg(sorted_entries)

    def _judge(self, with_past: DataFrame) -> DataFrame:
        """Return the verdict of the rule for each window."""
        windows = quoted_column(_WINDOWS)
        # Sorted by number: the window itself, number 0, is first if it has a row.
        first = F.get(windows, F.lit(0))
        numbers = windows["number"]
        has_duplicates = F.size(F.array_distinct(numbers)) < F.size(numbers)
        refuse = F.raise_error(F.lit("duplicate window: a window has two rows for one key"))
        is_present = F.when(has_duplicates, refuse.cast("boolean")).otherwise(first["number"] == 0)
        known = F.filter(windows, lambda each: (each["number"] > 0) & each["value"].isNotNull())
        past = F.transform(
            known, lambda each: F.struct(each["start"], each["value"], each["filled"])
        )
        compared = with_past.where(is_present).select(
            F.lit(self.name).alias("rule"),
            self.grid.window(quoted_column(WINDOW_START)).alias("window"),
            *self._keys,
            first["value"].alias(_VALUE),
            past.cast(_PAST_TYPE).alias("past"),
        )
        past = quoted_column("past")
        result = _compare_with_baseline(self.rule, quoted_column(_VALUE), past["value"])
        result |= {"past": past, "limits": F.lit(self.rule.describe())}
        columns = [result[name].alias(name) for name in DEVIATION_COLUMNS[1:]]
        return compared.select("rule", "window", *self._keys, *columns)


def _median(values: Column) -> Column:
    """Return the median of an array of doubles; null for an empty array.

    For an even number of values it is the mean of the two in the middle.
    """
    sorted_values = F.array_sort(values)
    size = F.size(values)
    low = F.get(sorted_values, F.floor((size - F.lit(1)) / F.lit(2)).cast("int"))
    high = F.get(sorted_values, F.floor(size / F.lit(2)).cast("int"))
    return F.when(size > 0, low / F.lit(2) + high / F.lit(2))


def _array_avg(values: Column) -> Column:
    """Return the mean of an array of doubles; null for an empty array."""
    total = F.aggregate(values, F.lit(0.0), lambda sum_, element: sum_ + element)
    return F.when(F.size(values) > 0, total / F.size(values))


def _robust_std_dev(values: Column, center: Column) -> Column:
    """Return a robust estimate of the standard deviation, from the distances to the median."""
    distances = F.transform(values, lambda element: F.abs(element - center))
    from_median = _median(distances) * F.lit(_MEDIAN_TO_STD_DEV)
    from_mean = _array_avg(distances) * F.lit(_MEAN_TO_STD_DEV)
    return F.when(from_median > 0, from_median).otherwise(from_mean)


def _finite_or_null(value: Column) -> Column:
    """Return a number as a double; null unless it is finite."""
    number = value.cast("double")
    return F.when(F.abs(number) < F.lit(float("inf")), number)


def _compare_with_baseline(rule: DeviationRule, value: Column, values: Column) -> dict[str, Column]:
    """Return the result columns of comparing a value with past values, by name."""
    baseline = _median(values) if rule.baseline == "median" else _array_avg(values)
    spread = _robust_std_dev(values, baseline)
    deviation = value - baseline
    has_ratio = (value >= 0) & (baseline >= 0)
    return {
        "value": value,
        "baseline": baseline,
        "deviation": deviation,
        "ratio": F.when(has_ratio & (baseline > 0), value / baseline),
        "robust_z": F.when(F.lit(rule.baseline == "median") & (spread > 0), deviation / spread),
        "verdict": F.when(value.isNull(), "no value")
        .when(F.size(values) < rule.required_samples, "too little history")
        .when(F.lit(rule.ratio is not None) & ~has_ratio, "no ratio")
        .when(_exceeds_limits(rule, value, baseline, spread), ALARM)
        .otherwise("ordinary"),
    }


def _exceeds_limits(rule: DeviationRule, value: Column, baseline: Column, spread: Column) -> Column:
    """Return whether a value reaches all limits of a rule, in its direction."""
    deviation = value - baseline
    directions = {"either": deviation != 0, "above": deviation > 0, "below": deviation < 0}
    conditions = [directions[rule.direction]]
    if rule.absolute is not None:
        conditions.append(F.abs(deviation) >= F.lit(float(rule.absolute)))
    if rule.ratio is not None:
        smallest_alarm = F.lit(float(rule.ratio)) * F.least(value, baseline)
        conditions.append(F.greatest(value, baseline) >= smallest_alarm)
    if rule.robust_z is not None:
        conditions.append(F.abs(deviation) >= F.lit(float(rule.robust_z)) * spread)
    return reduce(and_, conditions)
