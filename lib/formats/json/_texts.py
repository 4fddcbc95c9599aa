"""What a JSON text says and its values no longer show: times without a date, lone surrogates.

Spark's parser takes a time without a date for one of the day on which it runs, and writes half a
surrogate pair as a question mark. A text in which such a thing may be is read a second time; all
others are only searched for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TIMES = (DateType, TimestampType, TimestampNTZType)
_DATE = r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}"
_ODD = {
    DateType: rf'"(?!{_DATE}")',
    TimestampNTZType: rf'"(?!{_DATE})',
    # The parser loses the upper bits of a number of so many seconds.
    TimestampType: rf'"(?!{_DATE})|-?\d{{13}}',
}
"""How the JSON of a time begins that is to be looked at."""

_PLAIN_NAME = re.compile(r"[ !#-.0-\[\]-~]+")
"""Names that only an escape of ASCII's own signs can hide."""

_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


def lone_surrogate(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    r"""Return whether half a surrogate pair, such as "\ud800", is in one of the schema's fields."""
    # Escaped backslashes go first, so that each \u that is left is an escape; then whole pairs.
    halves = F.regexp_replace(F.regexp_replace(text, r"\\\\", "_"), _PAIR, "_")
    others = F.regexp_replace(halves, _HALF, "x")
    # What is in no field of the schema reads the same with a half and without it.
    with_halves = F.to_json(F.from_json(halves, schema, options))
    without = F.to_json(F.from_json(others, schema, options))
    possible = text.contains("\\ud") | text.contains("\\uD")
    return possible & halves.rlike(_HALF) & ~with_halves.eqNullSafe(without)


def times_as_text(
    text: Column, schema: StructType, options: Mapping[str, str], *, always: bool = False
) -> Column:
    """Return the schema's times as text, in structs as they are in the record.

    Null for a record whose times all begin with a date, unless they are asked for `always`.
    """
    read = F.from_json(text, _as_texts(schema), options)
    return read if always else F.when(_may_be_odd(text, schema), read)


def has_times(kind: DataType) -> bool:
    """Return whether a type holds dates or timestamps, at whatever depth."""
    if isinstance(kind, StructType):
        return any(has_times(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return has_times(kind.elementType)
    if isinstance(kind, MapType):
        return has_times(kind.valueType)
    return isinstance(kind, _TIMES)


def odd_times(value: Column, text: Column, kind: DataType) -> Column:
    """Return whether a value holds a time whose text does not begin with a date.

    False for a null, and where there is no text. Numbers of seconds are times as well.
    """
    return F.coalesce(reduce(or_, _odd(value, text, kind), F.lit(False)), F.lit(False))


def _odd(value: Column, text: Column, kind: DataType) -> Iterator[Column]:
    if isinstance(kind, DateType):
        yield value.isNotNull() & ~text.rlike(rf"^{_DATE}$")
    elif isinstance(kind, TimestampType):
        seconds = F.timestamp_seconds(text.try_cast("bigint"))
        counted = text.rlike(r"^-?\d{1,12}$") & (value == seconds)
        yield value.isNotNull() & ~(text.rlike(rf"^{_DATE}") | counted)
    elif isinstance(kind, TimestampNTZType):
        yield value.isNotNull() & ~text.rlike(rf"^{_DATE}")
    elif isinstance(kind, StructType):
        for field in filter(lambda each: has_times(each.dataType), kind):
            name = field.name
            found = odd_times(value.getField(name), text.getField(name), field.dataType)
            yield F.coalesce(found, F.lit(False))
    elif has_times(kind) and isinstance(kind, ArrayType):
        yield _odd_within(value, text, kind.elementType)
    elif has_times(kind) and isinstance(kind, MapType):
        yield _odd_within(F.map_values(value), F.map_values(text), kind.valueType)


def _odd_within(values: Column, texts: Column, kind: DataType) -> Column:
    odd = F.zip_with(values, texts, lambda value, text: odd_times(value, text, kind))
    return F.coalesce(F.exists(odd, lambda found: found), F.lit(False))


def _as_texts(kind: StructType) -> StructType:
    """Return the fields that hold times, with text in their places."""
    timed = [field for field in kind if has_times(field.dataType)]
    return StructType([StructField(each.name, _as_text(each.dataType)) for each in timed])


def _as_text(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return _as_texts(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_as_text(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _as_text(kind.valueType))
    return StringType()


def _may_be_odd(text: Column, schema: StructType) -> Column:
    """Return whether a text may hold a time that does not begin with a date.

    The names of times are looked for as they stand. A text with escapes by which one could be
    written differently may hold one too.
    """
    named = list(_named(schema))
    if any(name is None for name, _ in named):
        return F.lit(True)
    found = []
    names = {name for name, _ in named if name is not None}
    for kind, odd in _ODD.items():
        mine = sorted({name for name, each in named if name is not None and each == kind()})
        if mine:
            written = "|".join(_literally(json.dumps(name, ensure_ascii=False)) for name in mine)
            found.append(rf"(?:{written})\s*:\s*(?:{odd})")
    hidden = r"\\u00[2-7]" if all(map(_PLAIN_NAME.fullmatch, names)) else r"\\"
    return text.rlike("|".join([*found, hidden]))


def _named(kind: DataType, name: str | None = None) -> Iterator[tuple[str | None, DataType]]:
    """Return each time in a type with its field's name; None for one in an array or a map."""
    if isinstance(kind, StructType):
        for field in kind:
            yield from _named(field.dataType, field.name)
    elif isinstance(kind, ArrayType):
        yield from _named(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _named(kind.valueType)
    elif isinstance(kind, _TIMES):
        yield name, kind


def _literally(text: str) -> str:
    r"""Return text for one of Java's regular expressions, which knows \Q and \E."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"
