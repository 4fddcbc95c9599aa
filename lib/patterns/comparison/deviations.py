"""Windows compared with their past, and those that differ from it: alarms with their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import NumericType, StructType, TimestampType

from ...calendars import require_zone
from ...columns import names, quoted, require, require_free
from ...errors import ArgumentError, ColumnTypeError
from ._evidence import ALARM
from ._slots import Slots, slots
from .comparing import OWN, Comparing, union
from .deviation import Deviation

WINDOW = "window"


@dataclass(frozen=True)
class Deviations:
    """Compare windows with their past by rules; the function `deviations` tells what comes out.

    Args:
        size, offset: of the windows, as in `Tumbling`.
        rules: a `Deviation` by the name of each rule.
        by: the windows' key columns: windows are compared with those of their own key.
        zone: the zone by whose clocks distances and dates are; of days and longer windows also the
            zone whose calendar they are of. Without one a week is 168 hours, and dates are UTC's.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
    """

    size: str | timedelta
    _: KW_ONLY
    rules: Mapping[str, Deviation] = field(default_factory=dict)
    by: str | Sequence[str] = ()
    offset: str | timedelta = "0 seconds"
    zone: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", tuple(names(self.by)))
        require_free([WINDOW, *OWN], self.by, "by")
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise ArgumentError(
                f"rules is {self.rules!r}.",
                "at least one Deviation by the name of its rule.",
                "rules={'unusual': Deviation('views', Past(4, every='1 week'), ratio=2)}",
            )
        for name, rule in self.rules.items():
            if not isinstance(rule, Deviation):
                raise ColumnTypeError(
                    f"rules[{name!r}] is {rule!r}, a {type(rule).__name__}.", "a Deviation."
                )
            self.slots.require_distance(rule.past)

    def __call__(self, windows: DataFrame, *, until: datetime | None = None) -> DataFrame:
        """Return the windows that deviate from their past: the alarms."""
        return self.judged(windows, until=until).where(quoted("verdict") == ALARM).drop("verdict")

    def judged(self, windows: DataFrame, *, until: datetime | None = None) -> DataFrame:
        """Return each window under each rule, with a `verdict` besides.

        It is "alarm", "ordinary", "too little history", "no value" (for a window whose value is
        null or no finite number) or "no ratio" (for negative numbers).
        """
        self.require(windows)
        every = [each.judged(windows, until=until) for each in self.comparing()]
        return union(every)

    def comparing(self) -> list[Comparing]:
        """Return the comparison of each rule."""
        by = tuple(names(self.by))
        return [Comparing(name, rule, by, self.slots) for name, rule in self.rules.items()]

    @property
    def slots(self) -> Slots:
        """Where the windows lie."""
        return slots(self.size, self.offset, self.zone)

    def require(self, windows: DataFrame) -> None:
        """Refuse rows that are no such windows."""
        values = [rule.value for rule in self.rules.values()]
        require(windows, [WINDOW, *names(self.by)])
        require(windows, values, "a rule's value")
        if windows.isStreaming:
            raise ArgumentError(
                "the windows are a stream, which does not hold their past.",
                "a batch or a table; in a job the sink Alarms, which keeps both.",
            )
        for value in values:
            kind = windows.schema[value].dataType
            if not isinstance(kind, NumericType):
                raise ColumnTypeError(
                    f"value={value!r} is of type {kind.simpleString()}.", "a number."
                )
        window = windows.schema[WINDOW].dataType
        edges = window.fields if isinstance(window, StructType) else []
        found = {edge.name for edge in edges if isinstance(edge.dataType, TimestampType)}
        if not {"start", "end"} <= found:
            raise ColumnTypeError(
                f"window is of type {window.simpleString()}.",
                "a struct of the timestamps start and end, as tumbling makes it.",
            )
        if self.zone is not None:
            require_zone(windows, self.zone)


def deviations(
    windows: DataFrame,
    size: str | timedelta,
    *,
    rules: Mapping[str, Deviation],
    by: str | Sequence[str] = (),
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Find the tumbling windows whose values differ from those of their past.

    Each window is compared, by each rule, with windows of its own key: the n before it, or the same
    window of the last n weeks by a zone's clocks. A rule with `zero_from` also compares windows
    that have no row: those of which one of the windows looked at has a row.

    Distances are by `zone`, so that 10:00 meets 10:00 where clocks have changed. The cost grows
    with windows times `count`; the windows are joined with themselves.

    Args:
        windows: what `tumbling` of the same size, offset and, for a calendar's windows, zone makes:
            `window`, the keys and numbers; one row a window and key.
        size: the windows' length.
        rules: a `Deviation` by the name of each rule.
        by: the windows' key columns.
        offset: the windows' alignment.
        zone: the zone of distances, of dates and of a calendar's windows.
        until: windows that end after this instant are not compared, such as those that are open;
            by default all are, and those without a row up to the end of the last window.

    Returns:
        `rule`, `window`, the by columns, `value`, `baseline`, `deviation` (value less baseline),
        `ratio`, `robust_z`, `past` (the windows whose values the baseline is taken from, the newest
        first: structs of `start`, `value`, and `filled`, which is true for a 0 in place of a row),
        and `limits`, the rule as text. Where there is too little history there is no row.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. When it runs, an error for a
        window that is not of this size, or is there twice.

    >>> from tidegate.aggregates import count
    >>> from tidegate.patterns import Deviation, Past
    >>> from tidegate.windows import tumbling
    >>> hours = tumbling(clicks, "1 hour", by="page", aggs={"views": count()})
    >>> rules = {"week": Deviation("views", Past(4, every="1 week"), ratio=2, absolute=50)}
    >>> deviations(hours, "1 hour", by="page", rules=rules, zone="Europe/Berlin").columns[:5]
    ['rule', 'window', 'page', 'value', 'baseline']
    """
    found = Deviations(size, rules=rules, by=by, offset=offset, zone=zone)
    return found(windows, until=until)
