"""The comparison of windows with their past by one rule, as Spark's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...columns import quoted, same_key
from ...durations import microseconds
from ._evidence import evidence, finite
from ._slots import Slots
from .deviation import Deviation

OWN = (
    "rule",
    "value",
    "baseline",
    "deviation",
    "ratio",
    "robust_z",
    "past",
    "limits",
    "verdict",
)
"""What a comparison says of a window, beside the window and its keys."""
BEGIN = "__tidegate_begin"

_AT = "__tidegate_at"
_NUMBER = "__tidegate_number"
_VALUE = "__tidegate_value"
_ROW = "__tidegate_row"
_SEEN = "__tidegate_seen"
_LAST = "__tidegate_last"
_PAST = "ARRAY<STRUCT<start: TIMESTAMP, value: DOUBLE, filled: BOOLEAN>>"


@dataclass(frozen=True)
class Comparing:
    """Windows of `slots` compared by the rule of this name with those of their own key."""

    name: str
    rule: Deviation
    by: tuple[str, ...]
    slots: Slots

    def judged(
        self, windows: DataFrame, only: DataFrame | None = None, *, until: datetime | None = None
    ) -> DataFrame:
        """Return the windows with what the rule says of each.

        only: the windows that are compared: the keys, and where they begin; by default all.
        """
        facts = self._facts(windows)
        begun = self._all(facts) if only is None else only
        wanted = self._ended(begun, facts, until)
        seen = self._seen(self._looked_at(wanted), facts)
        return self._verdicts(seen)

    def reached(self, windows: DataFrame) -> DataFrame:
        """Return the windows whose verdict these may change: themselves, and those after them.

        Columns: the keys, and where the window begins. Windows that no row is of are among them.
        """
        past = self.rule.past
        begins = windows if BEGIN in windows.columns else self._begun(windows)
        numbers = F.explode(F.sequence(F.lit(0), F.lit(past.count))).alias(_NUMBER)
        every = begins.select(*self._keys(), BEGIN, numbers)
        after = F.explode(self.slots.after(quoted(BEGIN), quoted(_NUMBER), past)).alias(BEGIN)
        return every.select(*self._keys(), after).distinct()

    def looked_at(self, wanted: DataFrame) -> DataFrame:
        """Return when the first and the last window begin that these windows are compared with.

        Columns: `number`, so many distances before; `first` and `last`.
        """
        return (
            self._looked_at(wanted)
            .groupBy(quoted(_NUMBER).alias("number"))
            .agg(F.min(_AT).alias("first"), F.max(_AT).alias("last"))
        )

    def _all(self, facts: DataFrame) -> DataFrame:
        """Return the windows that can be compared: with `zero_from` some that have no row."""
        if self.rule.past.zero_from is not None:
            return self.reached(facts)
        return facts.select(*self._keys(), BEGIN).distinct()

    def _keys(self) -> list[Column]:
        return [quoted(name) for name in self.by]

    def _begun(self, windows: DataFrame) -> DataFrame:
        return windows.select(*self._keys(), quoted("window")["start"].alias(BEGIN))

    def _facts(self, windows: DataFrame) -> DataFrame:
        """Return of each window its keys, where it begins, and its value."""
        window = quoted("window")
        told = F.lit("a window is not of the size that is compared: ")
        foreign = F.raise_error(F.concat(told, window.cast("string"))).cast("timestamp")
        begin = F.when(self.slots.is_one(window), window["start"]).otherwise(foreign)
        value = finite(quoted(self.rule.value))
        if self.rule.per is not None:
            length = F.unix_micros(window["end"]) - F.unix_micros(window["start"])
            value = value * F.lit(microseconds(self.rule.per, "per")) / length
        return windows.select(
            *self._keys(), begin.alias(BEGIN), value.alias(_VALUE), F.lit(True).alias(_ROW)
        )

    def _ended(self, begun: DataFrame, facts: DataFrame, until: datetime | None) -> DataFrame:
        """Return the windows that have ended, and do not begin on a date that is left out."""
        begin = quoted(BEGIN)
        kept = begun.where(~self._skipped(begin))
        end = self.slots.window(begin)["end"]
        if until is not None:
            return kept.where(end <= F.lit(until))
        last = facts.agg(F.max(BEGIN).alias(_LAST))
        return kept.crossJoin(F.broadcast(last)).where(begin <= quoted(_LAST)).drop(_LAST)

    def _looked_at(self, wanted: DataFrame) -> DataFrame:
        """Return for each window the windows that it is compared with, and itself as number 0."""
        past = self.rule.past
        numbers = F.explode(F.sequence(F.lit(0), F.lit(past.count))).alias(_NUMBER)
        before = self.slots.before(quoted(BEGIN), quoted(_NUMBER), past).alias(_AT)
        every = wanted.select(*self._keys(), BEGIN, numbers).select("*", before)
        is_left_out = (quoted(_NUMBER) > 0) & self._skipped(quoted(_AT))
        return every.where(quoted(_AT).isNotNull() & ~is_left_out)

    def _skipped(self, begin: Column) -> Column:
        skip = self.rule.past.skip
        return self.slots.date(begin).isin(list(skip)) if skip else F.lit(False)

    def _seen(self, looked: DataFrame, facts: DataFrame) -> DataFrame:
        """Return for each window an array of what there is of it and of its past."""
        at = F.col(f"old.{_AT}")
        same = at == F.col(f"new.{BEGIN}")
        if self.by:
            same = same & same_key(self.by)
        joined = looked.alias("old").join(facts.alias("new"), same, "left")
        filled = F.lit(False)
        if self.rule.past.zero_from is not None:
            filled = F.col(_ROW).isNull() & (at >= F.lit(self.rule.past.zero_from))
        value = F.when(filled, F.lit(0.0)).otherwise(F.col(_VALUE))
        there = F.col(_ROW).isNotNull() | filled
        one = F.struct(
            F.col(_NUMBER).alias("number"),
            at.alias("start"),
            value.alias("value"),
            filled.alias("filled"),
        )
        keys = [F.col(f"old.{quoted_name}").alias(name) for name, quoted_name in self._escaped()]
        begin = F.col(f"old.{BEGIN}").alias(BEGIN)
        return (
            joined.where(there)
            .select(*keys, begin, one.alias(_SEEN))
            .groupBy(*self._keys(), BEGIN)
            .agg(F.sort_array(F.collect_list(_SEEN)).alias(_SEEN))
        )

    def _escaped(self) -> list[tuple[str, str]]:
        return [(name, "`" + name.replace("`", "``") + "`") for name in self.by]

    def _verdicts(self, seen: DataFrame) -> DataFrame:
        """Return what the rule says of each window that there is, by what was seen of its past."""
        every = quoted(_SEEN)
        # In the order of their numbers, so that the window itself, number 0, comes first if it is
        # there.
        first = F.get(every, F.lit(0))
        refuse = F.raise_error(F.lit("a window of a key is there twice: one row is allowed"))
        there = F.when(_is_twice(every), refuse.cast("boolean")).otherwise(first["number"] == 0)
        known = F.filter(every, lambda each: (each["number"] > 0) & each["value"].isNotNull())
        past = F.transform(
            known, lambda each: F.struct(each["start"], each["value"], each["filled"])
        )
        found = seen.where(there).select(
            F.lit(self.name).alias("rule"),
            self.slots.window(quoted(BEGIN)).alias("window"),
            *self._keys(),
            first["value"].alias(_VALUE),
            past.cast(_PAST).alias("past"),
        )
        values = F.transform(quoted("past"), lambda each: each["value"])
        said = evidence(self.rule, quoted(_VALUE), values)
        return found.select(
            "rule",
            "window",
            *self._keys(),
            *[said[name].alias(name) for name in OWN[1:6]],
            "past",
            F.lit(self.rule.told()).alias("limits"),
            said["verdict"].alias("verdict"),
        )


def _is_twice(every: Column) -> Column:
    """Return whether a window of a key is there twice among what was seen."""
    numbers = F.transform(every, lambda each: each["number"])
    return F.size(F.array_distinct(numbers)) < F.size(numbers)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    return reduce(DataFrame.unionByName, frames)
