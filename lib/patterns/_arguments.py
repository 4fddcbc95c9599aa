"""Checks of a search for sequences against the events, when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, MapType, NumericType, VariantType

from ..columns import names, require, require_event_time, require_free, type_of
from ..errors import ArgumentError, ColumnTypeError
from ._columns import OWN, Columns
from ._expressions import common, expression, require_plain, shown, value
from ._search.automaton import Asked
from .measures import Comparison, Measure
from .pattern import Pattern

MOST_FLAGS = 62


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
            require_plain(events.schema[name].dataType, f"{what} names {name!r}, which")
    require_free(OWN, keys, "by")
    require_free([*OWN, *keys], measures, "measures")
    if len(asked.flags) > MOST_FLAGS:
        raise ArgumentError(
            f"the sequence has {len(asked.flags)} steps and not_.", f"at most {MOST_FLAGS}."
        )
    _require_conditions(events, pattern)
    for each in asked.pairs:
        common(events, each)
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
            found = type_of(events, expression(each), f"{what}: {shown(each)}")
            if not isinstance(found, BooleanType):
                raise ColumnTypeError(
                    f"{what}: {shown(each)} is of type {found.simpleString()}.",
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
        found = type_of(events, value(events, each.value), f"measures[{name!r}]")
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
