"""Mergeable aggregates, such as counts and sums, whose partial results can be merged later.

An aggregate has three steps: it reduces rows to a partial aggregate (a partial), merges partials,
and computes the result of a partial. Hopping windows, allowed lateness, roll-ups and the sink
`Upsert` use these steps.

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
from pyspark.sql.types import DataType, DecimalType, LongType, StructField, StructType

from .columns import (
    JSON_IN_UTC,
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
OVERFLOW = "tidegate:overflow"
"""The column with the names of the results of a row that do not fit their types; null for none."""
_ALL = "__tidegate_all"
_AGGREGATE_FUNCTIONS: dict[Operation, ColumnBuilder] = {"sum": F.sum, "min": F.min, "max": F.max}


@dataclass(frozen=True)
class Reduction:
    """One field of a partial: the sum, minimum or maximum of a value over the rows.

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
    variants: the aggregates to use in its place for some types of values, by the name of the types.
    overflow: from a partial, whether the result does not fit its type and is null; None if every
        result fits.
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
    variants: Mapping[str, Aggregate] = field(default_factory=dict, compare=False, repr=False)
    overflow: ColumnBuilder | None = field(default=None, kw_only=True, compare=False, repr=False)
    plan_name: str = field(default="", kw_only=True, compare=False, repr=False)
    plan_arguments: Mapping[str, object] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for value, _ in self.inputs:
            require_column_or_name(value)

    def for_values(self, data_type: DataType) -> Aggregate:
        """Return the aggregate for input values of a type: itself, or one of its variants."""
        return self.variants.get(_exact_type(data_type), self)

    def for_partials(self, data_type: DataType) -> Aggregate:
        """Return the aggregate whose partials have a type: itself, or one of its variants."""
        fields = data_type.fields if isinstance(data_type, StructType) else []
        types = {_exact_type(each.dataType) for each in fields}
        for type_name, variant in self.variants.items():
            names = [name for name, _ in variant.reductions]
            is_same_partial = names == [name for name, _ in self.reductions]
            if names == [each.name for each in fields] and (
                not is_same_partial or type_name in types
            ):
                return variant
        return self

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
    """Define an aggregate by one or more reductions of rows: sums, minimums or maximums.

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

    Integers add up to a bigint and decimals to a wider decimal of at most 38 digits, exactly. A sum
    that does not fit this type is null, and a job names its window and key; the sum of a column
    that is cast to decimal(38, 0) fits.
    Doubles add up with rounding that depends on the order of rows.

    The partial of a bigint column is a struct of two halves, so that the order of rows does not
    decide whether a sum fits. The partial of a decimal column with more than 28 digits is a struct
    of the sum and the number of values.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": sum("ms")}).select("ms").first()
    Row(ms=36)
    """
    inputs: list[InputColumn] = [(value, "number")]
    variants = {"bigint": _bigint_sum(value, inputs), "decimal": _wide_sum(value, inputs)}
    plain = reduce_with(Reduction(lambda time: as_column(value), "sum"), inputs=inputs)
    return _named(replace(plain, variants=variants), "sum", value=value, exact=True)


def avg(value: str | Column) -> Aggregate:
    """Return the arithmetic mean of the non-null values; null if all values are null.

    The mean of decimals is a decimal, of other numbers a double. The mean of integers is right also
    where their sum exceeds a bigint; the mean of decimals is null where their sum has more than 38
    digits. Partials are structs, as for `sum`.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs={"ms": avg("ms")}).select("ms").first()
    Row(ms=4.0)
    """
    inputs: list[InputColumn] = [(value, "number")]
    values = Reduction(lambda time: _one_or_zero(value), "sum")
    exact = reduce_with(
        {**_halves(value), "count": values},
        finish=lambda p: F.try_divide(_joined_halves(p).cast("double"), p["count"]),
        inputs=inputs,
    )
    wide = replace(_wide_sum(value, inputs), finish=lambda p: F.try_divide(p["total"], p["count"]))
    mean = replace(wide, overflow=None, variants={"bigint": exact, "decimal": wide})
    return _named(mean, "avg", value=value, exact=True)


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


_HALF_BITS = 32
_MAX_NAMED_GROUPS = 10
_MAX_SUM_DIGITS = 38
_SUM_DIGITS = 10
"""The digits that Spark's sum of decimals has more than its values."""


def _exact_type(data_type: DataType) -> str:
    """Return the name of the types whose sum can overflow; empty for others.

    The sum of smaller integers fits a bigint: it would take 2^32 rows to overflow.
    """
    if isinstance(data_type, LongType):
        return "bigint"
    if isinstance(data_type, DecimalType) and data_type.precision + _SUM_DIGITS > _MAX_SUM_DIGITS:
        return "decimal"
    return ""


def _halves(value: str | Column) -> dict[str, Reduction]:
    """Return the sums of the high and of the low bits of a bigint; both fit for 2^31 rows."""
    low_bits = (1 << _HALF_BITS) - 1
    return {
        "high": Reduction(lambda time: F.shiftright(as_column(value), _HALF_BITS), "sum"),
        "low": Reduction(lambda time: as_column(value).bitwiseAND(F.lit(low_bits)), "sum"),
    }


def _joined_halves(partial: Column) -> Column:
    """Return the sum of bigints as a decimal."""
    high = partial["high"].cast("decimal(20, 0)") * F.lit(1 << _HALF_BITS).cast("decimal(11, 0)")
    return high + partial["low"].cast("decimal(20, 0)")


def _bigint_sum(value: str | Column, inputs: Sequence[InputColumn]) -> Aggregate:
    def finish(partial: Column) -> Column:
        return _joined_halves(partial).try_cast("bigint")

    total = reduce_with(_halves(value), finish=finish, inputs=inputs)
    return replace(total, overflow=lambda p: _joined_halves(p).isNotNull() & finish(p).isNull())


def _wide_sum(value: str | Column, inputs: Sequence[InputColumn]) -> Aggregate:
    """Return a sum that is null if it or the sum of a part has too many digits."""

    def partial(time: Column) -> Column:
        return _state_struct(
            {"total": F.try_sum(as_column(value)), "count": F.sum(_one_or_zero(value))}
        )

    def merge(partials: Column) -> Column:
        total, count = partials["total"], partials["count"]
        has_overflow = F.coalesce(F.bool_or(total.isNull() & (count > 0)), F.lit(False))
        merged = F.when(~has_overflow, F.try_sum(total))
        return _state_struct({"total": merged, "count": F.sum(count)})

    reductions = {
        "total": Reduction(lambda time: as_column(value), "sum"),
        "count": Reduction(lambda time: _one_or_zero(value), "sum"),
    }
    total_and_count = reduce_with(reductions, finish=lambda p: p["total"], inputs=inputs)
    return replace(
        total_and_count,
        partial=partial,
        merge=merge,
        overflow=lambda p: p["total"].isNull() & (p["count"] > 0),
    )


def _named(agg: Aggregate, name: str, **arguments: object) -> Aggregate:
    return replace(agg, plan_name=name, plan_arguments=arguments)


def _value_by_time(value: str | Column, operation: Operation) -> Aggregate:
    timed = Reduction(
        lambda time: F.struct(time.alias("time"), as_column(value).alias("value")), operation
    )
    return reduce_with(timed, finish=lambda p: p["value"], inputs=[(value, "ordered")])


def partials(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
    """Return the aggregates without their final step, so that their results can be merged later.

    Partials can be stored and merged later, with `merge_partials` or `roll_up`.

    >>> from tidegate.windows import tumbling
    >>> tumbling(clicks, "1 minute", aggs=partials({"ms": avg("ms")})).select("ms").first()
    Row(ms=Row(total=36, count=9))
    """
    _require_mergeable(aggs)
    return {name: _named(_without_finish(agg), "partials", of=agg) for name, agg in aggs.items()}


def _without_finish(agg: Aggregate) -> Aggregate:
    variants = {name: _without_finish(variant) for name, variant in agg.variants.items()}
    return replace(agg, finish=_identity, variants=variants, overflow=None)


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
    """Return an expression for each aggregate that merges the partials in its column of a frame.

    The result has the type of the column, so that partials can be merged repeatedly. (The sum of
    decimals in Spark has ten more digits than its operands.)

    >>> from tidegate.windows import tumbling
    >>> minutes = tumbling(clicks, "1 minute", aggs=partials({"views": count()}))
    >>> minutes.agg(*merge_columns(minutes, {"views": count()}).values()).first()[0]
    9
    """
    return {
        name: _cast_to(agg.merge(quoted_column(name)), frame.schema[name].dataType)
        for name, agg in for_partials(frame, aggs).items()
    }


def for_partials(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
    """Return the aggregates in the variants that match the partials in the columns of a frame.

    >>> from tidegate.windows import tumbling
    >>> aggs = {"ms": sum(F.col("ms").cast("bigint"))}
    >>> minutes = tumbling(clicks, "1 minute", aggs=partials(aggs))
    >>> [name for name, _ in for_partials(minutes, aggs)["ms"].reductions]
    ['high', 'low']
    """
    return {name: agg.for_partials(frame.schema[name].dataType) for name, agg in aggs.items()}


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
    """Compute the results of the columns of partials; other columns are unchanged.

    >>> aggs = {"ms": avg("ms")}
    >>> from tidegate.windows import tumbling
    >>> finish(tumbling(clicks, "1 minute", aggs=partials(aggs)), aggs).select("ms").first()
    Row(ms=4.0)
    """
    _require_mergeable(aggs)
    require_columns(frame, aggs, "aggs")
    columns = {name: quoted_column(name) for name in frame.columns}
    typed = for_partials(frame, aggs)
    results = {name: agg.finish(columns[name]).alias(name) for name, agg in typed.items()}
    return frame.select(*{**columns, **results}.values())


@dataclass(frozen=True)
class Overflows:
    """The result rows of a batch with a result that does not fit its type.

    count: the number of rows. groups: the first of them, as text with the results and the key.
    """

    count: int = 0
    groups: Sequence[str] = ()

    def __str__(self) -> str:
        further = self.count - len(self.groups)
        return "; ".join([*self.groups, *([f"{further:,} more"] if further else [])])


def overflow_names(partials: Mapping[str, tuple[Aggregate, Column]]) -> Column | None:
    """Return an expression for the names of the results of a row that do not fit their types.

    Return None if all results always fit.

    partials: the aggregate of each result, and the column of its partial.
    """
    flags = {
        name: agg.overflow(partial)
        for name, (agg, partial) in partials.items()
        if agg.overflow is not None
    }
    if not flags:
        return None
    names = [F.when(flag, F.lit(name)) for name, flag in flags.items()]
    return F.nullif(F.concat_ws(", ", *names), F.lit(""))


def find_overflows(rows: DataFrame, keys: Sequence[str]) -> Overflows:
    """Return the rows with a result that does not fit its type, identified by their keys."""
    overflowed = rows.where(quoted_column(OVERFLOW).isNotNull())
    count = overflowed.count()
    if not count:
        return Overflows()
    key = F.to_json(F.struct(*map(quoted_column, keys)), JSON_IN_UTC)
    text = F.concat(quoted_column(OVERFLOW), F.lit(" of "), key).alias(OVERFLOW)
    first = overflowed.select(text).orderBy(quoted_column(OVERFLOW)).limit(_MAX_NAMED_GROUPS)
    return Overflows(count, [row[0] for row in first.collect()])
