"""What a sequence reads of each event, computed by Spark before the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    FractionalType,
    LongType,
    StructField,
    StructType,
)

from ..columns import quoted
from ._expressions import common, expression, value
from ._search.automaton import Asked
from ._search.matching import Reading
from .measures import Measure
from .pattern import Pattern

OWN = ("started", "ended", "decided", "outcome")
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
        flags = [self._flag(conditions) for conditions in self.asked.flags]
        values = self._compared()
        for at, each in enumerate(self.valued):
            values[f"value:{at}"] = value(self.events, each.value)
        read = {f"key:{at}": quoted(name) for at, name in enumerate(self.by)}
        read["time"] = F.unix_micros(quoted(self.time))
        read |= {f"order:{at}": quoted(name) for at, name in enumerate(self.order)}
        read["flags"] = _as_bits(flags)
        # Events that are alike in all that is read may change places.
        read["tie"] = F.xxhash64(read["flags"], *values.values())
        read |= values

        wanted = quoted(self.time).isNotNull()
        if skips:
            wanted &= reduce(or_, flags)
        return self.events.where(wanted).select(
            *[column.alias(name) for name, column in read.items()]
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
        return F.coalesce(reduce(and_, map(expression, conditions), F.lit(True)), F.lit(False))

    def _compared(self) -> dict[str, Column]:
        pairs = {}
        for at, each in enumerate(self.asked.pairs):
            left = value(self.events, each.value)
            right = value(self.events, each.earlier.value)
            both = common(self.events, each)
            pairs[f"left:{at}"] = left.cast(both)
            pairs[f"right:{at}"] = right.cast(both)
        return pairs


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


def _as_bits(flags: Sequence[Column]) -> Column:
    """Return flags as the bits of one whole number, the first of them as the lowest bit."""
    bits = [F.when(flag, F.lit(1 << at)).otherwise(F.lit(0)) for at, flag in enumerate(flags)]
    return reduce(lambda one, more: one.bitwiseOR(more), bits).cast("bigint")
