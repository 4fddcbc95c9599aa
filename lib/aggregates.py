"""Aggregates as monoids: rows become partials, partials merge, a partial is finished to an answer.

From these three column builders follow, each without a second implementation: hopping windows by
merging panes, corrections of a closed window, upserts that add up, roll-ups, and a stream that
agrees with its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from .columns import column, first_line, names, quoted, require
from .errors import ColumnTypeError

Kind = Literal["any", "number", "ordered"]
Build = Callable[[Column], Column]
Input = tuple[str | Column, Kind]
Operation = Literal["sum", "min", "max"]
UNNAMED = ""
"""The name of a reduction that has none, since the partial is its value alone."""
_ALL = "__tidegate_all"
_AGGREGATE: dict[Operation, Callable[[Column], Column]] = {"sum": F.sum, "min": F.min, "max": F.max}


@dataclass(frozen=True)
class Reduction:
    """One field of a partial that is the sum, the least or the greatest of a value of each row.

    `lift` gives the row's value from its event time; `operation` joins two such values.
    """

    lift: Build
    operation: Operation

    def over(self, values: Column) -> Column:
        """Return the aggregate expression that joins values."""
        return _AGGREGATE[self.operation](values)


@dataclass(frozen=True)
class Aggregate:
    """A summary of rows that can be taken in parts and merged, in any order and grouping.

    partial: from the event-time column, the aggregate expression over rows that gives the partial.
    merge: from a column of partials, the aggregate expression that gives their common partial.
    finish: from a partial, the answer.
    inputs: the columns that it reads, and what they must be; checked when a transform is called.
    reductions: what the partial is made of, each by its name; empty for a sketch.
    is_struct: whether the partial is a struct of these; otherwise it is the value of the only one.
    """

    partial: Build
    merge: Build
    finish: Build
    inputs: tuple[Input, ...] = ()
    reductions: tuple[tuple[str, Reduction], ...] = ()
    is_struct: bool = True

    def __post_init__(self) -> None:
        for value, _ in self.inputs:
            if not isinstance(value, str | Column):
                raise ColumnTypeError(
                    f"value is {value!r}, a {type(value).__name__}.",
                    "a column, or its name.",
                    'total("ms")',
                )

    def made_of(self, values: Mapping[str, Column]) -> Column:
        """Return the partial that has these values of its reductions."""
        return _struct(values) if self.is_struct else values[UNNAMED]


def _itself(partial: Column) -> Column:
    return partial


def reduced(
    reductions: Reduction | Mapping[str, Reduction],
    *,
    finish: Build = _itself,
    inputs: Sequence[Input] = (),
) -> Aggregate:
    """Return the aggregate whose partial is one reduction, or a struct of several by name."""
    if isinstance(reductions, Reduction):
        return _reduced_to_one(reductions, finish, tuple(inputs))
    parts = dict(reductions)
    return Aggregate(
        partial=lambda time: _struct({n: part.over(part.lift(time)) for n, part in parts.items()}),
        merge=lambda partials: _struct({n: part.over(partials[n]) for n, part in parts.items()}),
        finish=finish,
        inputs=tuple(inputs),
        reductions=tuple(parts.items()),
    )


def _reduced_to_one(part: Reduction, finish: Build, inputs: tuple[Input, ...]) -> Aggregate:
    reductions = ((UNNAMED, part),)
    return Aggregate(
        lambda time: part.over(part.lift(time)), part.over, finish, inputs, reductions, False
    )


def _struct(values: Mapping[str, Column]) -> Column:
    return F.struct(*[value.alias(name) for name, value in values.items()])


def _ones(value: str | Column | None) -> Column:
    one = F.lit(1).cast("bigint")
    if value is None:
        return one
    zero = F.lit(0).cast("bigint")
    return F.when(column(value).isNotNull(), one).otherwise(zero)


def count(value: str | Column | None = None) -> Aggregate:
    """Count the rows, or the rows in which `value` is not null. A whole number."""
    return reduced(
        Reduction(lambda time: _ones(value), "sum"),
        inputs=[] if value is None else [(value, "any")],
    )


def total(value: str | Column) -> Aggregate:
    """Sum up the values that are not null; null when there is none.

    Whole numbers add up to a bigint and decimals to a wider decimal, exactly; doubles up to
    rounding, which depends on the order of the rows. A sum beyond its type is an error, as Spark's
    ANSI mode has it.
    """
    return reduced(Reduction(lambda time: column(value), "sum"), inputs=[(value, "number")])


def mean(value: str | Column) -> Aggregate:
    """Take the arithmetic mean of the values that are not null; null when there is none.

    A double, or a decimal of decimals.
    """
    parts = {
        "total": Reduction(lambda time: column(value), "sum"),
        "count": Reduction(lambda time: _ones(value), "sum"),
    }
    return reduced(
        parts, finish=lambda p: F.try_divide(p["total"], p["count"]), inputs=[(value, "number")]
    )


def smallest(value: str | Column) -> Aggregate:
    """Take the least value that is not null; NaN is above all numbers."""
    return reduced(Reduction(lambda time: column(value), "min"), inputs=[(value, "ordered")])


def largest(value: str | Column) -> Aggregate:
    """Take the greatest value that is not null; NaN is above all numbers."""
    return reduced(Reduction(lambda time: column(value), "max"), inputs=[(value, "ordered")])


def first(value: str | Column) -> Aggregate:
    """Take the value of the earliest event, null or not.

    Of events at the same instant it is the least value, null first.
    """
    return _by_time(value, "min")


def last(value: str | Column) -> Aggregate:
    """Take the value of the latest event, null or not.

    Of events at the same instant it is the greatest value, null first.
    """
    return _by_time(value, "max")


def _by_time(value: str | Column, operation: Operation) -> Aggregate:
    timed = Reduction(
        lambda time: F.struct(time.alias("time"), column(value).alias("value")), operation
    )
    return reduced(timed, finish=lambda p: p["value"], inputs=[(value, "ordered")])


def partials(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
    """Return the same aggregates, left unfinished: a transform then returns partials.

    Partials can be stored, and merged later.
    """
    return {name: replace(agg, finish=_itself) for name, agg in aggs.items()}


def merges(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> dict[str, Column]:
    """Return for each aggregate the expression that merges a frame's column of partials.

    What it gives is of the type of the column, so that partials can be merged any number of times:
    Spark gives the sum of decimals ten digits more than the summands have, of which one merge
    after the other would make a type of its own.
    """
    return {
        name: _of_type(agg.merge(quoted(name)), frame.schema[name].dataType)
        for name, agg in aggs.items()
    }


def _of_type(merged: Column, kind: DataType) -> Column:
    if isinstance(kind, DecimalType):
        return merged.cast(kind)
    if isinstance(kind, StructType) and any(isinstance(f.dataType, DecimalType) for f in kind):
        # A field that is never null cannot be cast to, though it was one in the partials.
        return merged.cast(StructType([StructField(f.name, f.dataType) for f in kind]))
    return merged


def merged(frame: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate]) -> DataFrame:
    """Merge rows of partials that agree in the `by` columns.

    Columns: by, then one partial for each aggregate. Without `by` all rows become one; of no rows
    none is made.
    """
    require(frame, [*names(by), *aggs], "by and aggs")
    keys = [quoted(name) for name in names(by)]
    merging = [merge.alias(name) for name, merge in merges(frame, aggs).items()]
    # By a constant: in an aggregation of the whole each task gives a row, and sketches of tasks
    # without rows can fail.
    grouped = frame.groupBy(*(keys or [F.lit(0).alias(_ALL)]))
    try:
        return grouped.agg(*merging).select(*keys, *map(quoted, aggs))
    except AnalysisException as fault:
        raise ColumnTypeError(
            f"aggs cannot be merged out of the columns {', '.join(aggs)}: {first_line(fault)}",
            "columns that hold partials of these aggregates.",
            "partials(aggs) in the transform that made the columns.",
        ) from fault


def finished(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> DataFrame:
    """Turn the columns of partials into answers, under the same names.

    Other columns stay as they are.
    """
    require(frame, aggs, "aggs")
    return frame.select(
        *[
            aggs[name].finish(quoted(name)).alias(name) if name in aggs else quoted(name)
            for name in frame.columns
        ]
    )
