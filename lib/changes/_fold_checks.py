"""Checks of a fold: of its values when it is declared, of its expressions beside the events."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    TimestampType,
    VariantType,
)

from ..columns import escaped, first_line, quoted, require, type_of
from ..errors import ArgumentError, ColumnError, ColumnTypeError

if TYPE_CHECKING:
    from .commands import Commands
    from .fold import Fold

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")
_CLOCKS = re.compile(
    r"(?<![.\w`])(current_(?:date|time|timestamp|timezone|user|catalog|database|schema)|now|curdate"
    r"|localtimestamp|localtime|session_user|user)\b(?!\s*\.)|\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
_SPECIAL = re.compile(
    r"\b(?:date|timestamp\w*)\s*['\"]\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE
)
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_VALUES: dict[type[DataType], tuple[type, ...]] = {
    BooleanType: (bool,),
    DecimalType: (int, Decimal),
    DoubleType: (int, float),
    FloatType: (int, float),
    StringType: (str,),
    DateType: (date,),
    TimestampType: (datetime,),
    ArrayType: (list, tuple),
}


Rules: TypeAlias = "Fold | Commands"
"""What takes rows of several types, in the order of the log."""


def require_text(what: str, text: object) -> None:
    """Refuse all but expressions as text, and those that ask a clock or who runs the job."""
    if not isinstance(text, str) or not text.strip():
        raise ColumnTypeError(
            f"{what} is {text!r}.", "an expression of Spark's SQL, as text.", '"state.n + 1"'
        )
    clock = _SPECIAL.search(text) or _CLOCKS.search(_QUOTED.sub("''", text))
    if clock is not None:
        raise ArgumentError(
            f"{what} is {text!r}: {clock[0]} gives another value at another time.",
            "expressions that give one value for one state and event.",
            "event.event_time, or another column of the event.",
        )


def require_value(name: str, value: Any, kind: DataType) -> None:
    """Refuse a first value that the type does not hold as it is."""
    if value is None:
        return
    if not _is_of(value, kind) or not _is_held(value, kind):
        raise ArgumentError(
            f"initial[{name!r}] is {value!r} of type {kind.simpleString()}.",
            "a value that the type holds as it is (a time with its zone), or None.",
        )
    if isinstance(kind, ArrayType):
        for each in value:
            require_value(name, each, kind.elementType)


def _is_of(value: Any, kind: DataType) -> bool:
    """Return whether a value is of a class that Python has for the type."""
    wanted = (int,) if isinstance(kind, IntegralType) else _VALUES.get(type(kind), ())
    # To Python a bool is an int, and a datetime is a date.
    if isinstance(value, bool):
        return bool in wanted
    if isinstance(kind, DateType) and isinstance(value, datetime):
        return False
    return isinstance(value, wanted)


def _is_held(value: Any, kind: DataType) -> bool:
    """Return whether a value of the right class is within the type's bounds."""
    if isinstance(kind, TimestampType):
        return value.tzinfo is not None
    if isinstance(kind, DecimalType):
        return _in_decimal(Decimal(value), kind)
    if isinstance(kind, IntegralType):
        beyond: int = 2 ** (_BITS[kind.simpleString()] - 1)
        return bool(-beyond <= value < beyond)
    return True


def _in_decimal(value: Decimal, kind: DecimalType) -> bool:
    if not value.is_finite():
        return False
    scaled = value.scaleb(kind.scale)
    return scaled == scaled.to_integral_value() and abs(scaled) < 10**kind.precision


def require_events(events: DataFrame, fold: Fold) -> None:
    """Refuse events whose columns the fold cannot take."""
    probe = _probe(events, fold)
    for kind, sets in fold.on.items():
        for name, text in sets.items():
            wanted = fold.state[name].dataType
            _require_expression(probe, f"on[{kind!r}][{name!r}]: {text!r}", text, wanted)


def require_commands(commands: DataFrame, rules: Commands) -> None:
    """Refuse commands whose columns the rules cannot take, and events that the fold cannot."""
    probe = _probe(commands, rules)
    given = rules.event_columns
    for kind, command in rules.on.items():
        for name, text in command.values.items():
            what = f"on[{kind!r}].values[{name!r}]: {text!r}"
            _require_expression(probe, what, text, given[name].dataType)
        for reason, text in command.refuse.items():
            what = f"on[{kind!r}].refuse[{reason!r}]: {text!r}"
            _require_expression(probe, what, text, BooleanType())
    fold = rules.fold
    place = zip(fold.place, ("string", "int", "bigint"), strict=True)
    kinds = [(fold.kind, "string"), (fold.time, "timestamp"), *place]
    kinds += [(field.name, field.dataType.simpleString()) for field in given]
    columns = [F.lit(None).cast(kind).alias(name) for name, kind in kinds]
    require_events(commands.select(*map(quoted, rules.key), *columns), fold)


def _probe(rows: DataFrame, rules: Rules) -> DataFrame:
    """Return a frame in which an expression of the rules stands; refuse rows that do not fit."""
    require(rows, [*rules.key, rules.kind, rules.time, *rules.place], "the fold")
    if rows.sparkSession.conf.get("spark.sql.ansi.enabled") != "true":
        raise ArgumentError(
            "spark.sql.ansi.enabled is off, so that a sum which does not fit becomes null.",
            "a session that has it on, as Spark has by itself.",
        )
    topic, partition, offset = rules.place
    wanted = {
        rules.kind: "string",
        rules.time: "timestamp",
        topic: "string",
        partition: "int",
        offset: "bigint",
    }
    for name, kind in wanted.items():
        found = rows.schema[name].dataType.simpleString()
        if found != kind:
            raise ColumnTypeError(f"{name} is of type {found}.", f"{kind}.")
    for name in [*rules.key, *needed(rows, rules)]:
        _require_ordered(name, rows.schema[name].dataType)
    return rows.select(
        F.lit(None).cast(rules.state).alias("state"),
        F.struct(*map(quoted, rows.columns)).alias(rules.word),
    )


def _require_expression(probe: DataFrame, what: str, text: str, wanted: DataType) -> None:
    value = F.expr(f"(\n{text}\n)")
    try:
        # By itself first: in brackets alone, a text could close them and open others.
        type_of(probe, F.expr(text), what)
        found = type_of(probe, value, what)
    except ColumnError as fault:
        have = {each: ", ".join(probe.select(f"{each}.*").columns) for each in probe.columns}
        told = "; ".join(f"{word}.<name> of {columns}" for word, columns in have.items())
        raise ColumnError(fault.given, f"{told}.") from fault
    try:
        probe.agg(F.count(value))
    except AnalysisException as fault:
        raise ArgumentError(
            f"{what} does not give one value for one state and event: {first_line(fault)}",
            "expressions without random numbers, aggregates, windows and subqueries.",
        ) from fault
    if not _fits(found, wanted):
        raise ColumnTypeError(
            f"{what} is of type {found.simpleString()}, and the state has {wanted.simpleString()}.",
            "the type that initial declares, or one that it holds as it is.",
            f"CAST({text} AS {wanted.simpleString()})",
        )


def _fits(found: DataType, wanted: DataType) -> bool:
    """Return whether the declared type holds all values, or else raises an error for one.

    A sum of decimals has a digit more than its parts: those that do not fit are an error then.
    """
    if isinstance(found, NullType) or found.simpleString() == wanted.simpleString():
        return True
    if isinstance(found, IntegralType):
        digits = _DIGITS[found.simpleString()]
        if isinstance(wanted, DecimalType):
            return wanted.precision - wanted.scale >= digits
        return isinstance(wanted, IntegralType) and _DIGITS[wanted.simpleString()] >= digits
    if isinstance(found, DecimalType) and isinstance(wanted, DecimalType):
        return found.scale <= wanted.scale
    return isinstance(found, FloatType) and isinstance(wanted, DoubleType)


def needed(rows: DataFrame, rules: Rules) -> list[str]:
    """List the columns that the expressions may read, and rather one too many."""
    texts = " ".join(rules.texts)
    word = rf"(?<![.\w]){rules.word}\b"
    whole = rf"{word}(?!\s*\.)|{word}\s*\.\s*\*|`{rules.word}`"
    if re.search(whole, texts, re.IGNORECASE):
        return list(rows.columns)
    return [name for name in rows.columns if escaped(name)[1:-1].lower() in texts.lower()]


def _require_ordered(name: str, kind: DataType) -> None:
    if isinstance(kind, MapType | VariantType):
        raise ColumnTypeError(
            f"{name} is of type {kind.simpleString()}, which has no order.",
            "all types but maps and variants.",
            "F.map_entries or F.to_json of it, before the fold.",
        )


def is_strange(fold: Rules) -> Column:
    """Return whether an event is of a type that the fold does not know, or has no key or place."""
    known = F.coalesce(quoted(fold.kind).isin(*fold.on), F.lit(False))
    return reduce(or_, [quoted(name).isNull() for name in (*fold.key, *fold.place)], ~known)
