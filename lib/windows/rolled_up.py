"""Roll-ups: partials of small windows merged into those of larger ones, minutes into hours, days
and months."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merged
from ..columns import interval, names, require
from ..errors import ArgumentError, ColumnTypeError
from ._calendar import calendar, fixed, require_zone
from ._grid import shift
from ._grouping import WINDOW

_LARGER = "__tidegate_larger"


def rolled_up(
    panes: DataFrame,
    size: str | timedelta,
    *,
    by: str | Sequence[str] = (),
    aggs: Mapping[str, Aggregate],
    offset: str | timedelta = "0 seconds",
    zone: str | None = None,
) -> DataFrame:
    """Merge the partials of each key whose windows lie in one larger window; the partials stay unfinished.

    `panes` is what a transform gives for `aggs=partials(aggs)`: a stored table, or a micro-batch
    inside a sink. Windows are those of `tumbling` with the same size, offset and zone, and keys
    that `by` leaves out are merged: minutes by page become hours by page, or hours of all pages.
    Merging what was rolled up once more, with late rows of a minute that is in already, gives the
    same as rolling up all at once. It holds no state; as a stream it is refused.

    Args:
        panes: `window`, key columns, and a partial for each of `aggs`.
        size: the larger windows' length; with a zone whole days, weeks, months, quarters or years.
        by: the key columns that stay.
        aggs: the aggregates that the partials are of.
        offset: shifts the alignment of the larger windows.
        zone: the zone whose calendar counts.

    Returns:
        `window`, the by columns, the partials; `tidegate.aggregates.finished` turns them into
        answers.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. When it runs, an error for a
            window that two larger ones share, such as an hour of a zone whose days begin at half
            past.

    >>> from tidegate.aggregates import count, finished, partials
    >>> from tidegate.windows import tumbling
    >>> aggs = {"views": count()}
    >>> minutes = tumbling(clicks, "1 minute", by="page", aggs=partials(aggs))
    >>> finished(rolled_up(minutes, "1 hour", aggs=aggs), aggs).columns
    ['window', 'views']
    """
    return Tumbling(size, offset, zone).roll_up(panes, by=by, aggs=aggs)


def _whole(inner: Column, larger: Column) -> Column:
    """Return the larger window, or raise where a small one reaches beyond it."""
    told = F.concat(
        F.lit("A window from "), inner["start"].cast("string"), F.lit(" to "), inner["end"].cast("string"),
        F.lit(" is to be rolled up into one that ends at "), larger["end"].cast("string"),
        F.lit(".\n  allowed: windows that lie in a larger one as a whole.\n  instead: a multiple "
              "of the small size."),
    )  # fmt: skip
    return F.when(inner["end"] <= larger["end"], larger).otherwise(
        F.raise_error(told).cast("struct<start:timestamp,end:timestamp>")
    )


def _require(panes: DataFrame, keys: Sequence[str], aggs: Mapping[str, Aggregate]) -> None:
    require(panes, [WINDOW], "panes")
    require(panes, keys)
    require(panes, aggs, "aggs")
    if panes.isStreaming:
        raise ArgumentError(
            "panes is a stream.", "a batch: a table, or a micro-batch.", "roll up inside a sink."
        )
    if not aggs:
        raise ArgumentError("aggs is empty.", "at least one aggregate by the name of its partial.")
    for name, agg in aggs.items():
        if not isinstance(agg, Aggregate):
            raise ColumnTypeError(
                f"aggs[{name!r}] is a {type(agg).__name__}.", "an Aggregate, whose partials merge."
            )
    kind = panes.schema[WINDOW].dataType.simpleString()
    if kind != "struct<start:timestamp,end:timestamp>":
        raise ColumnTypeError(
            f"window is of type {kind}.", "a struct of start and end, as windows give it."
        )
