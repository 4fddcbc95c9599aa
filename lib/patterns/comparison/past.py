"""The past that a window is compared with: the windows before it, or the same hour of weeks ago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, timedelta

from ...columns import require_whole
from ...errors import ArgumentError, ColumnTypeError

_MOST = 1_000


@dataclass(frozen=True)
class Past:
    """The windows that a window is compared with: `count` of them, at a distance of `every`.

    `Past(6)` is the six windows just before; `Past(4, every="1 week")` the same window of each of
    the last four weeks. With a zone, distances are by its clocks: 10:00 is compared with 10:00,
    also where the clocks have changed in between. A window that the clocks skipped a week before is
    left out; where they showed it twice, the first one counts.

    A window without a row is left out, unless `zero_from` says from when on a window without a row
    had no events: it counts as 0 then, and a window without a row is compared itself. That is for
    counts and totals, which fall to nothing when a source falls silent.

    Args:
        count: how many windows of the past are looked at, 1 to 1,000.
        every: the distance between them; by default a window's own length.
        skip: dates, such as holidays: windows that begin on one of them, by the zone's clocks, are
            left out, and are not compared themselves.
        zero_from: an instant, with its zone.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    count: int
    _: KW_ONLY
    every: str | timedelta | None = None
    skip: Sequence[date] = ()
    zero_from: datetime | None = None

    def __post_init__(self) -> None:
        require_whole(self.count, "count", 1, _MOST)
        for each in self.skip:
            if not isinstance(each, date) or isinstance(each, datetime):
                raise ColumnTypeError(
                    f"skip holds {each!r}, a {type(each).__name__}.",
                    "dates.",
                    "skip=[date(2026, 12, 25)]",
                )
        object.__setattr__(self, "skip", tuple(sorted(set(self.skip))))
        zero_from = self.zero_from
        if zero_from is None:
            return
        if not isinstance(zero_from, datetime):
            raise ColumnTypeError(
                f"zero_from is {zero_from!r}, a {type(zero_from).__name__}.", "a datetime, or None."
            )
        if zero_from.tzinfo is None:
            raise ArgumentError(
                f"zero_from is {zero_from!r}, which has no zone.",
                "an instant.",
                "datetime(2026, 1, 1, tzinfo=UTC)",
            )

    def told(self) -> str:
        """Return the past as text."""
        between = "" if self.every is None else f" every {self.every}"
        return f"{self.count} windows{between}"
