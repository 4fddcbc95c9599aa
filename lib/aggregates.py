"""Mergeable aggregates: rows become partials, partials merge, and a partial becomes a result.

Hopping windows, allowed lateness, upserts that add up and roll-ups all use these three steps.

>>> from tidegate import aggregates as agg
>>> from tidegate.windows import tumbling
>>> tumbling(clicks, "1 minute", aggs={"views": agg.count(), "ms": agg.avg("ms")}).columns
['window', 'views', 'ms']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from .columns import (
    as_column,
    first_line,
    quoted_column,
    require_column_names,
    require_column_or_name,
    require_columns,
)
from .errors import ColumnTypeError
from .transform import plan_name

ValueKind = Literal["any", "number", "ordered"]
ColumnBuilder = Callable[[Column], Column]
InputColumn = tuple[str | Column, ValueKind]
Operation = Literal["sum", "min", "max"]
UNNAMED = ""
"""The name of the only reduction of a partial that is not a struct."""
_ALL = "__tidegate_all"
_AGGREGATE_FUNCTIONS: dict[Operation, ColumnBuilder] = {"sum": F.sum, "min": F.min, "max": F.max}


@dataclass(frozen=True)
class Reduction:
    """One field of a partial: the sum, minimum or maximum of a value of each row.

    `lift` returns the value of a row from its event-time column; `operation` combines two values.
    `reduce_with` makes an aggregate of reductions; see its example.
    """

    lift: ColumnBuilder
    operation: Operation

    def aggregate(self, values: Column) -> Column:
        """Return the aggregate expression that combines values."""
        return _AGGREGATE_FUNCTIONS[self.operation](values)


@dataclass(frozen=True)
class Aggregate:
    """An aggregate whose partials merge in any order and grouping.

    partial: from the event-time column, the aggregate expression that computes the partial of rows.
    merge: from a column of partials, the aggregate expression that merges them.
    finish: from a partial, the result.
    inputs: the input columns and their required kinds, validated when a transform is called.
    reductions: the fields of the partial by name; empty for a sketch.
    is_struct: whether the partial is a struct of its reductions; otherwise it is the only value.
    plan_name, plan_arguments: how the fingerprint of a job names the aggregate. Without a name, it
        has the names of the functions.

    >>> count().is_struct, [name for name, _ in avg("ms").reductions]
    (False, ['total', 'count'])
    """

    partial: ColumnBuilder
    merge: ColumnBuilder
    finish: ColumnBuilder
    inputs: tuple[InputColumn, ...] = ()
    reductions: tuple[tuple[str, Reduction], ...] = ()
    is_struct: bool = True
    plan_name: str = field(default="", kw_only=True, compare=False, repr=False)
    plan_arguments: Mapping[str, object] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for value, _ in self.inputs:
            require_column_or_name(value)

    def partial_of_values(self, values: Mapping[str, Column]) -> Column:
        """Return the partial that consists of these values of its reductions."""
        return _state_struct(values) if self.is_struct else values[UNNAMED]


@plan_name("identity")
def _identity(partial: Column) -> Column:
    return partial


def reduce_with(
    reductions: Reduction | Mapping[str, Reduction],
    *,
    finish: ColumnBuilder = _identity,
    inputs: Sequence[InputColumn] = (),
) -> Aggregate:
    """Return an aggregate whose partial is one reduction, or a struct of named reductions.

    >>> from tidegate.windows import tumbling
    >>> longest = reduce_with(Reduction(lambda time: F.length("page"), "max"))
    >>> tumbling(clicks, "1 minute", aggs={"longest": longest}).select("longest").first()
    Row(longest=2)
    """
    if isinstance(reductions, Reduction):
        only = reductions
        return Aggregate(
            partial=lambda time: only.aggregate(only.lift(time)),
            merge=only.aggregate,
            finish=finish,
            inputs=tuple(inputs),
            reductions=((UNNAMED, only),),
            is_struct=False,
        )
    parts_by_name = dict(reductions)
    return Aggregate(
        partial=lambda time: _state_struct(
            {n: part.aggregate(part.lift(time)) for n, part in parts_by_name.items()}
        ),
        merge=lambda partials: _state_struct(
            {n: part.aggregate(partials[n]) for n, part in parts_by_name.items()}
        ),
        finish=finish,
        inputs=tuple(inputs),
        reductions=tuple(parts_by_name.items()),
    )


def _state_struct(values: Mapping[str, Column]) -> Column:
    return F.struct(*[value.alias(name) for name, value in values.items()])


def _one_or_zero(value: str | Column | None) -> Column:
    one, zero = F.lit(1).cast("bigint"), F.lit(0).cast("bigint")
    return one if value is None else F.when(as_column(value).isNotNull(), one).otherwise(zero)


def count(value: str | Column | None = None) -> Aggregate:
    """Return the number of rows, or of rows in which `value` is not null, as a bigint.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"views": count()}).select("views").first()
    Row(views=9)
    """
    ones = Reduction(lambda time: _one_or_zero(value), "sum")
    inputs: list[InputColumn] = [] if value is None else [(value, "any")]
    return _named(reduce_with(ones, inputs=inputs), "count", value=value)


def sum(value: str | Column) -> Aggregate:
    """Return the sum of the non-null values; null if all values are null.

    Integers add up to a bigint and decimals to a wider decimal, exactly. Doubles add up with
    rounding that depends on the order of rows. Overflow is an error, as in Spark's ANSI mode.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": sum("ms")}).select("ms").first()
    Row(ms=36)
    """
    return _reduce_values("sum", value, "number")


def avg(value: str | Column) -> Aggregate:
    """Return the arithmetic mean of the non-null values; null if all values are null.

    The mean of decimals is a decimal, of other numbers a double.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": avg("ms")}).select("ms").first()
    Row(ms=4.0)
    """
    parts = {
        "total": Reduction(lambda time: as_column(value), "sum"),
        "count": Reduction(lambda time: _one_or_zero(value), "sum"),
    }
    mean = reduce_with(
        parts, finish=lambda p: F.try_divide(p["total"], p["count"]), inputs=[(value, "number")]
    )
    return _named(mean, "avg", value=value)


def min(value: str | Column) -> Aggregate:
    """Return the smallest non-null value; NaN is larger than any number.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": min("ms")}).select("ms").first()
    Row(ms=0)
    """
    return _reduce_values("min", value, "ordered")


def max(value: str | Column) -> Aggregate:
    """Return the largest non-null value; NaN is larger than any number.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": max("ms")}).select("ms").first()
    Row(ms=8)
    """
    return _reduce_values("max", value, "ordered")


def first(value: str | Column) -> Aggregate:
    """Return the value of the earliest event, which can be null.

    Among events with the same time, the smallest value, nulls first.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"page": first("page")}).select("page").first()
    Row(page='/0')
    """
    return _named(_value_by_time(value, "min"), "first", value=value)


def last(value: str | Column) -> Aggregate:
    """Return the value of the latest event, which can be null.

    Among events with the same time, the largest value, nulls first.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"page": last("page")}).select("page").first()
    Row(page='/2')
    """
    return _named(_value_by_time(value, "max"), "last", value=value)


def _reduce_values(operation: Operation, value: str | Column, kind: ValueKind) -> Aggregate:
    values = Reduction(lambda time: as_column(value), operation)
    return _named(reduce_with(values, inputs=[(value, kind)]), operation, value=value)


def _named(agg: Aggregate, name: str, **arguments: object) -> Aggregate:
    return replace(agg, plan_name=name, plan_arguments=arguments)


def _value_by_time(value: str | Column, operation: Operation) -> Aggregate:
    timed = Reduction(
        lambda time: F.struct(time.alias("time"), as_column(value).alias("value")), operation
    )
    return reduce_with(timed, finish=lambda p: p["value"], inputs=[(value, "ordered")])


def partials(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
    """Return the same aggregates without `finish`, so that a transform returns partials.

    Partials can be stored and merged later, with `merge_partials` or `roll_up`.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs=partials({"ms": avg("ms")})).select("ms").first()
    Row(ms=Row(total=36, count=9))
    """
    _require_mergeable(aggs)
    return {
        name: _named(replace(agg, finish=_identity), "partials", of=agg)
        for name, agg in aggs.items()
    }


def _require_mergeable(aggs: object) -> None:
    """Raise ColumnTypeError unless these are aggregates of this module by result column."""
    if not isinstance(aggs, Mapping) or not aggs:
        raise ColumnTypeError(
            f"invalid aggs: {aggs!r}",
            "a mapping with at least one aggregate, by result column",
            "aggs={'n': count()}",
        )
    for name, agg in aggs.items():
        if not isinstance(agg, Aggregate):
            raise ColumnTypeError(
                f"invalid aggs: {name!r} is {agg!r} ({type(agg).__name__})",
                "an Aggregate such as count(), because others do not merge",
                f"aggs={{{name!r}: count()}}",
            )


def merge_columns(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> dict[str, Column]:
    """Return for each aggregate the expression that merges a frame's column of partials.

    The result has the type of the column, so that partials can be merged repeatedly. (The sum of
    decimals in Spark has ten more digits than its operands.)

    >>> from tidegate.windows import tumbling
    >>> minutes = tumbling(clicks, "1 minute", aggs=partials({"views": count()}))
    >>> minutes.agg(*merge_columns(minutes, {"views": count()}).values()).first()[0]
    9
    """
    return {
        name: _cast_to(agg.merge(quoted_column(name)), frame.schema[name].dataType)
        for name, agg in aggs.items()
    }


def _cast_to(value: Column, data_type: DataType) -> Column:
    if isinstance(data_type, DecimalType):
        return value.cast(data_type)
    if isinstance(data_type, StructType) and any(
        isinstance(f.dataType, DecimalType) for f in data_type
    ):
        # Spark cannot cast to a struct with non-nullable fields.
        return value.cast(StructType([StructField(f.name, f.dataType) for f in data_type]))
    return value


def merge_partials(
    frame: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate]
) -> DataFrame:
    """Merge the rows of partials that have equal `by` columns; without `by`, all rows.

    Returns the by columns and one column of partials for each aggregate. An empty frame returns no
    row.

    Raises ColumnError, ColumnTypeError.

    >>> aggs = {"views": count()}
    >>> from tidegate.windows import tumbling
    >>> by_page = tumbling(clicks, "1 minute", by="page", aggs=partials(aggs))
    >>> merge_partials(by_page, "window", aggs).select("views").first()
    Row(views=9)
    """
    _require_mergeable(aggs)
    require_columns(frame, [*require_column_names(by), *aggs], "by and aggs")
    keys = [quoted_column(name) for name in require_column_names(by)]
    merged_columns = [merge.alias(name) for name, merge in merge_columns(frame, aggs).items()]
    # A global aggregation would return a row for each empty task, and merging an empty sketch can
    # fail, so rows are grouped by a constant.
    grouped = frame.groupBy(*(keys or [F.lit(0).alias(_ALL)]))
    try:
        return grouped.agg(*merged_columns).select(*keys, *map(quoted_column, aggs))
    except AnalysisException as fault:
        raise ColumnTypeError(
            f"invalid aggs: cannot merge {', '.join(aggs)}: {first_line(fault)}",
            "columns with partials of these aggregates",
            "aggs=partials(aggs) in the transform that computes the columns",
        ) from fault


def finish(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> DataFrame:
    """Replace the columns of partials by their results; other columns are unchanged.

    >>> aggs = {"ms": avg("ms")}
    >>> from tidegate.windows import tumbling
    >>> finish(tumbling(clicks, "1 minute", aggs=partials(aggs)), aggs).select("ms").first()
    Row(ms=4.0)
    """
    _require_mergeable(aggs)
    require_columns(frame, aggs, "aggs")
    columns = {name: quoted_column(name) for name in frame.columns}
    results = {name: agg.finish(columns[name]).alias(name) for name, agg in aggs.items()}
    return frame.select(*{**columns, **results}.values())
