"""Roll-ups: partials of small windows merged into those of larger ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merged
from ..calendars import Calendar
from ..columns import names, require
from ..errors import ArgumentError, ColumnTypeError
from ._grid import Grid
from .merging import WINDOW

_LARGER = "__tidegate_larger"


def roll_up(
    panes: DataFrame,
    larger: Grid | Calendar,
    by: str | Sequence[str],
    aggs: Mapping[str, Aggregate],
) -> DataFrame:
    """Merge the partials of each key whose windows lie in one window of the larger grid."""
    keys = names(by)
    _require(panes, keys, aggs)
    inner = F.col(WINDOW)
    placed = panes.withColumn(_LARGER, larger.window(inner["start"]))
    return merged(placed.withColumn(WINDOW, _whole(inner, F.col(_LARGER))), [WINDOW, *keys], aggs)


def _whole(inner: Column, larger: Column) -> Column:
    """Return the larger window, or raise where a small one reaches beyond it."""
    told = F.concat(
        F.lit("A window from "),
        inner["start"].cast("string"),
        F.lit(" to "),
        inner["end"].cast("string"),
        F.lit(" is to be rolled up into one that ends at "),
        larger["end"].cast("string"),
        F.lit(".\n  allowed: windows that lie in a larger one as a whole."),
        F.lit("\n  instead: a multiple of the small size."),
    )
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
