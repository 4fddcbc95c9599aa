"""What a sequence reads of each event, computed by Spark before the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ..columns import names, quoted, require, require_event_time, require_free, type_of
from ..errors import ArgumentError, ColumnTypeError
from ._automaton import Asked
from ._matching import Reading
from .measures import Comparison, Measure
from .pattern import Pattern

OWN = ("started", "ended", "decided", "outcome")
MOST_FLAGS = 62
_PLAIN = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)
_LONG = LongType()
_LISTED = ("total", "mean", "smallest", "largest", "values")


@dataclass(frozen=True)
class Columns:
    """Checked arguments of a search for sequences."""

    events: DataFrame
    pattern: Pattern
    by: tuple[str, ...]
    order: tuple[str, ...]
    time: str
    measures: dict[str, Measure]
    asked: Asked

    def read(self, *, skips: bool) -> DataFrame:
        """Return what the search reads: keys, time, order, tie, flags, and values.

        skips: whether events of which no condition holds can be left out.
        """
        read = {f"key:{at}": quoted(name) for at, name in enumerate(self.by)}
        read["time"] = F.unix_micros(quoted(self.time))
        read |= {f"order:{at}": quoted(name) for at, name in enumerate(self.order)}
        flags = [self._flag(conditions) for conditions in self.asked.flags]
        values = self._compared() | {
            f"value:{at}": _value(each.value) for at, each in enumerate(self.valued)
        }
        bits = [F.when(flag, F.lit(1 << at)).otherwise(F.lit(0)) for at, flag in enumerate(flags)]
        read["flags"] = reduce(lambda one, more: one.bitwiseOR(more), bits).cast("bigint")
        # Events that are alike in all that is read may change places.
        read["tie"] = F.xxhash64(read["flags"], *values.values())
        wanted = quoted(self.time).isNotNull()
        if skips:
            wanted &= reduce(or_, flags)
        return self.events.where(wanted).select(
            *[column.alias(name) for name, column in (read | values).items()]
        )

    @property
    def valued(self) -> list[Measure]:
        """The measures that read a value, in their order."""
        return [each for each in self.measures.values() if each.kind != "count"]

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the search reads for each measure."""
        places = {name: at for at, name in enumerate(self._valued_names)}
        return tuple(
            Reading(
                self.pattern.place(each.step),
                "list" if each.kind in _LISTED else each.kind,  # type: ignore[arg-type]
                places.get(name),
            )
            for name, each in self.measures.items()
        )

    @property
    def _valued_names(self) -> list[str]:
        return [name for name, each in self.measures.items() if each.kind != "count"]

    def found(self, read: DataFrame) -> StructType:
        """Return the columns of what the search finds."""
        keys = [read.schema[f"key:{at}"] for at in range(len(self.by))]
        fields = [StructField(f.name, f.dataType) for f in keys]
        fields += [StructField(name, _LONG) for name in ("started", "ended", "decided")]
        fields.append(StructField("matched", BooleanType()))
        for at, reading in enumerate(self.readings):
            found: DataType = _LONG
            if reading.value is not None:
                found = read.schema[f"value:{reading.value}"].dataType
            if reading.kind == "list":
                found = ArrayType(found)
            fields.append(StructField(f"measure:{at}", found))
        return StructType(fields)

    def answers(self, found: DataFrame, *, timeouts: bool) -> DataFrame:
        """Return the result's columns."""
        columns = [quoted(f"key:{at}").alias(name) for at, name in enumerate(self.by)]
        columns += [F.timestamp_micros(name).alias(name) for name in OWN[:3]]
        if timeouts:
            outcome = F.when(quoted("matched"), F.lit("match")).otherwise(F.lit("timeout"))
            columns.append(outcome.alias("outcome"))
        for at, (name, measure) in enumerate(self.measures.items()):
            columns.append(_finished(measure, found, f"measure:{at}").alias(name))
        return found.select(*columns)

    def _flag(self, conditions: Sequence[str | Column]) -> Column:
        return F.coalesce(reduce(and_, map(_expression, conditions), F.lit(True)), F.lit(False))

    def _compared(self) -> dict[str, Column]:
        pairs = {}
        for at, each in enumerate(self.asked.pairs):
            left, right = _value(each.value), _value(each.earlier.value)
            common = _common(self.events, each)
            pairs[f"left:{at}"] = left.cast(common)
            pairs[f"right:{at}"] = right.cast(common)
        return pairs


def columns(
    events: DataFrame,
    pattern: Pattern,
    asked: Asked,
    *,
    by: str | Sequence[str],
    measures: Mapping[str, Measure],
    time: str,
    order: str | Sequence[str],
) -> Columns:
    """Check what a search was given, before any stream starts."""
    require_event_time(events, time)
    keys = names(by)
    placed = names(order, "order")
    require(events, keys)
    require(events, placed, "order")
    for what, given in (("by", keys), ("order", placed)):
        for name in given:
            _require_plain(events.schema[name].dataType, f"{what} names {name!r}, which")
    require_free(OWN, keys, "by")
    require_free([*OWN, *keys], measures, "measures")
    if len(asked.flags) > MOST_FLAGS:
        raise ArgumentError(
            f"the sequence has {len(asked.flags)} steps and not_.", f"at most {MOST_FLAGS}."
        )
    _require_conditions(events, pattern)
    for each in asked.pairs:
        _common(events, each)
    _require_measures(events, pattern, measures)
    return Columns(events, pattern, tuple(keys), tuple(placed), time, dict(measures), asked)


def _require_conditions(events: DataFrame, pattern: Pattern) -> None:
    places = [(f"step {step.name!r}", step.conditions) for step in pattern.steps]
    places += [
        (f"not_ number {at + 1} after step {pattern.steps[before - 1].name!r}", guard.conditions)
        for before, guards in enumerate(pattern.absent)
        for at, guard in enumerate(guards)
    ]
    for what, conditions in places:
        for each in conditions:
            if isinstance(each, Comparison):
                continue
            found = type_of(events, _expression(each), f"{what}: {_shown(each)}")
            if not isinstance(found, BooleanType):
                raise ColumnTypeError(
                    f"{what}: {_shown(each)} is of type {found.simpleString()}.",
                    "a condition, which is true or false.",
                    "step('paid', \"event = 'paid'\")",
                )


def _require_measures(events: DataFrame, pattern: Pattern, measures: Mapping[str, Measure]) -> None:
    known = [step.name for step in pattern.steps]
    for name, each in measures.items():
        if not isinstance(each, Measure):
            raise ColumnTypeError(
                f"measures[{name!r}] is {each!r}, a {type(each).__name__}.",
                "a measure of a step's events.",
                f"measures={{{name!r}: of({known[0]!r}).first('page')}}",
            )
        if each.step is not None and each.step not in known:
            raise ArgumentError(
                f"measures[{name!r}] is of the step {each.step!r}.",
                f"a step of the sequence: {', '.join(known)}.",
            )
        if each.value is None:
            continue
        found = type_of(events, _value(each.value), f"measures[{name!r}]")
        if isinstance(found, MapType | VariantType):
            raise ColumnTypeError(
                f"measures[{name!r}] is of type {found.simpleString()}.",
                "any type but maps and variants.",
                "F.map_entries or F.to_json of it.",
            )
        if each.kind in ("total", "mean") and not isinstance(found, NumericType):
            raise ColumnTypeError(
                f"measures[{name!r}] is the {each.kind} of type {found.simpleString()}.",
                "a number.",
            )


def _common(events: DataFrame, each: Comparison) -> DataType:
    """Return the type in which two values are compared."""
    what = f"compare({_shown(each.value)}, {each.comparator!r}, {_shown(each.earlier.value)})"
    both = F.array(_value(each.value), _value(each.earlier.value))
    found = type_of(events, both, what).elementType  # type: ignore[attr-defined]
    _require_plain(found, f"{what} compares what", floats=True)
    return found  # type: ignore[no-any-return]


def _require_plain(found: DataType, what: str, *, floats: bool = False) -> None:
    plain = isinstance(found, _PLAIN) or (floats and isinstance(found, FractionalType))
    if not plain and not (isinstance(found, StringType) and found == StringType()):
        raise ColumnTypeError(
            f"{what} is of type {found.simpleString()}.",
            "whole numbers, decimals, text, times, booleans, bytes"
            + (", doubles." if floats else "."),
            "cast it with withColumn before the transform.",
        )


def _expression(given: str | Column) -> Column:
    return F.expr(given) if isinstance(given, str) else given


def _value(given: str | Column | None) -> Column:
    """Return a column's or an expression's value."""
    return F.expr(given) if isinstance(given, str) else given  # type: ignore[return-value]


def _shown(given: str | Column | None) -> str:
    return repr(given) if isinstance(given, str) else f"{given}"


def _finished(measure: Measure, found: DataFrame, name: str) -> Column:
    values = quoted(name)
    if measure.kind == "smallest":
        return F.array_min(values)
    if measure.kind == "largest":
        return F.array_max(values)
    if measure.kind not in ("total", "mean"):
        return values
    known = F.filter(values, lambda value: value.isNotNull())
    element = found.schema[name].dataType.elementType  # type: ignore[attr-defined]
    summed = "double" if measure.kind == "mean" else _summed(element)
    total = F.aggregate(
        known,
        F.lit(0).cast(summed),
        lambda one, more: (one + more.cast(summed)).cast(summed),
    )
    answer = total / F.size(known) if measure.kind == "mean" else total
    return F.when(F.size(known) > 0, answer)


def _summed(found: DataType) -> str | DataType:
    if isinstance(found, DecimalType):
        return DecimalType(min(38, found.precision + 10), found.scale)
    return "double" if isinstance(found, FractionalType) else "bigint"
