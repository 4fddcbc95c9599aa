"""Deviation detection: windows compared with past windows, and alarms with their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import NumericType, StructType, TimestampType

from ...calendars import require_zone
from ...columns import (
    quoted_column,
    require_column_names,
    require_columns,
    require_instance,
    require_no_name_clash,
    require_zoned_time,
)
from ...errors import ArgumentError, ColumnTypeError
from ._verdicts import ALARM, DEVIATION_COLUMNS, RuleComparison
from ._window_calendar import WindowGrid, window_grid
from .deviation_rule import DeviationRule

WINDOW = "window"


@dataclass(frozen=True)
class DeviationDetection:
    """Anomaly detection as an argument of the sink `Alarms`; see `deviations` for the arguments."""

    plan_name: ClassVar[str] = "deviation_detection"
    size: str | timedelta
    _: KW_ONLY
    rules: Mapping[str, DeviationRule] = field(default_factory=dict)
    by: str | Sequence[str] = ()
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", tuple(require_column_names(self.by)))
        require_no_name_clash([WINDOW, *DEVIATION_COLUMNS], self.by, "by")
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise ArgumentError(
                f"invalid rules: {self.rules!r}",
                "at least one DeviationRule by name",
                "rules={'week': DeviationRule('views', PastWindows(4, every='1 week'), ratio=2)}",
            )
        for name, rule in self.rules.items():
            hint = "DeviationRule('views', PastWindows(4, every='1 week'), ratio=2)"
            require_instance(rule, f"rules[{name!r}]", DeviationRule, hint)
            self.grid.require_distance(rule.past)

    def __call__(self, windows: DataFrame, *, until: datetime | None = None) -> DataFrame:
        """Return the windows that deviate from past windows: the alarms."""
        verdicts = self.verdicts(windows, until=until)
        return verdicts.where(quoted_column("verdict") == ALARM).drop("verdict")

    def verdicts(self, windows: DataFrame, *, until: datetime | None = None) -> DataFrame:
        """Return each window for each rule, with the additional column `verdict`.

        The verdict is "alarm", "ordinary", "too little history", "no value" (the value is null or
        not finite) or "no ratio" (negative numbers).
        """
        self.require_windows(windows)
        verdicts = [each.verdicts(windows, until=until) for each in self.comparisons()]
        return reduce(DataFrame.unionByName, verdicts)

    def comparisons(self) -> list[RuleComparison]:
        """Return the comparison of each rule."""
        by, grid = tuple(self.by), self.grid
        return [RuleComparison(name, rule, by, grid) for name, rule in self.rules.items()]

    @property
    def grid(self) -> WindowGrid:
        """The grid of the windows."""
        return window_grid(self.size, self.offset, self.zone)

    def require_windows(self, windows: DataFrame) -> None:
        """Raise unless the rows are windows with keys and numeric values, as a batch."""
        values = [rule.value for rule in self.rules.values()]
        require_columns(windows, [WINDOW, *self.by], "windows")
        require_columns(windows, values, "value")
        if windows.isStreaming:
            raise ArgumentError(
                "invalid windows: a stream",
                "a batch or a table",
                "the sink tidegate.sinks.Alarms, which stores past windows",
            )
        for value in values:
            value_type = windows.schema[value].dataType
            if not isinstance(value_type, NumericType):
                raise ColumnTypeError(
                    f"invalid type of column {value!r}: {value_type.simpleString()}",
                    "a numeric type",
                )
        window_type = windows.schema[WINDOW].dataType
        edges = window_type.fields if isinstance(window_type, StructType) else []
        timestamp_fields = {edge.name for edge in edges if isinstance(edge.dataType, TimestampType)}
        if not {"start", "end"} <= timestamp_fields:
            raise ColumnTypeError(
                f"invalid type of column 'window': {window_type.simpleString()}",
                "a struct of the timestamps start and end",
                "the result of tidegate.windows.tumbling",
            )
        if self.zone is not None:
            require_zone(windows, self.zone)


def deviations(
    windows: DataFrame,
    size: str | timedelta,
    *,
    rules: Mapping[str, DeviationRule],
    by: str | Sequence[str] = (),
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the tumbling windows whose values deviate from those of past windows.

    Each rule compares each window with past windows of its key: the previous n windows, or the same
    window in the last n weeks. A rule with `zero_from` also compares windows without a row, if one
    of their past windows has a row.

    Distances are in the local time of `zone`, so that 10:00 is compared with 10:00 after a clock
    change. Cost: the windows are joined with themselves; it grows with windows times `count`.

    Args:
        windows: the result of `tumbling` with the same size, offset and (for calendar windows)
            zone: `window`, the keys and numbers, with one row per window and key.
        size: the window size.
        rules: a `DeviationRule` by name.
        by: the key columns of the windows.
        offset: the offset of the windows.
        zone: the time zone of distances, dates and calendar windows. Without a zone, a week is
            168 hours, and dates are in UTC.
        until: do not compare windows that end after this time, such as open windows. By default
            all windows are compared, and windows without a row up to the end of the last window.

    Returns:
        `rule`, `window`, the by columns, `value`, `baseline`, `deviation` (value minus baseline),
        `ratio`, `robust_z`, `past` (the windows of the baseline, newest first: structs of `start`,
        `value`, and `filled`, true for the 0 of a window without a row), and `limits` (the rule as
        text). Windows with too little history are not in the result.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. The query fails for a window of
            another size and for a repeated window of a key.

    >>> from tidegate.aggregates import count
    >>> from tidegate.patterns import DeviationRule, PastWindows
    >>> from tidegate.windows import tumbling
    >>> hours = tumbling(clicks, "1 hour", by="page", aggs={"views": count()})
    >>> past = PastWindows(4, every="1 week")
    >>> rules = {"week": DeviationRule("views", past, ratio=2, absolute=50)}
    >>> deviations(hours, "1 hour", by="page", rules=rules, zone="Europe/Berlin").columns[:5]
    ['rule', 'window', 'page', 'value', 'baseline']
    """
    if until is not None:
        require_zoned_time(until, "until")
    detection = DeviationDetection(size, rules=rules, by=by, offset=offset, zone=zone)
    return detection(windows, until=until)
