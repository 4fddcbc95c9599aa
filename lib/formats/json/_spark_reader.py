"""JSON objects read by Spark's parser, and checks for the invalid values that it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

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

from .._casts import does_not_fit, map_inner_types, narrow_value, nested_types, wider_type

CORRUPT_COLUMN = "__tidegate_corrupt"
PARSER_OPTIONS = {
    "mode": "PERMISSIVE",
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    "timeZone": "UTC",
}
"""Options for a text that is known to be an object.

With explicit options, the optimizer does not prune the schema to the fields in use, so that a
malformed value stays malformed.
"""
CORRUPT_AWARE_OPTIONS = {**PARSER_OPTIONS, "columnNameOfCorruptRecord": CORRUPT_COLUMN}
"""Options that add a column which is not null for a malformed text."""

_MAX_DEPTH = 998
_TIME_TYPES = (DateType, TimestampType, TimestampNTZType)
_DATE_PATTERN = r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}"
_ODD_PATTERNS: dict[type[DataType], str] = {
    DateType: rf'"(?!{_DATE_PATTERN}")',
    TimestampNTZType: rf'"(?!{_DATE_PATTERN})',
    # The parser overflows on numbers of 13 digits and more.
    TimestampType: rf'"(?!{_DATE_PATTERN})|-?\d{{13}}',
}
"""The beginnings of JSON times that need a check, by type."""

_PLAIN_NAME_PATTERN = re.compile(r"[ !#-.0-\[\]-~]+")
"""Names in which an escaped text can only hide ASCII characters."""

_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_SURROGATE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


# Spark's parser dates a time without a date to the day on which it runs, and replaces half a
# surrogate pair by a question mark. The checks below search each text for candidates with a
# regular expression, and parse only the candidates a second time.


def has_lone_surrogate(text: Column, schema: StructType) -> Column:
    r"""Return whether a field of the schema holds half a surrogate pair, such as "\ud800"."""
    # Remove escaped backslashes, so that each remaining \u is an escape; then remove valid pairs.
    halves = F.regexp_replace(F.regexp_replace(text, r"\\\\", "_"), _SURROGATE_PAIR, "_")
    others = F.regexp_replace(halves, _HALF_SURROGATE, "x")
    # A half outside the fields of the schema makes no difference to the parsed record.
    with_halves = F.to_json(F.from_json(halves, schema, PARSER_OPTIONS))
    without = F.to_json(F.from_json(others, schema, PARSER_OPTIONS))
    possible = text.contains("\\ud") | text.contains("\\uD")
    return possible & halves.rlike(_HALF_SURROGATE) & ~with_halves.eqNullSafe(without)


def times_as_text(text: Column, schema: StructType) -> Column:
    """Return the times of the schema as text, in the structure of the record.

    Null if all times of the record begin with a date.
    """
    times = F.from_json(text, _time_text_type(schema), PARSER_OPTIONS)
    return F.when(_may_have_odd_time(text, schema), times)


def has_times(data_type: DataType) -> bool:
    """Return whether a type contains dates or timestamps, at any depth."""
    return any(isinstance(inner, _TIME_TYPES) for inner in nested_types(data_type))


def has_odd_time(value: Column, text: Column, data_type: DataType) -> Column:
    """Return whether a value contains a time whose text does not begin with a date.

    False for nulls, for missing text and for numbers of seconds.
    """
    if not has_times(data_type):
        return F.lit(False)
    if isinstance(data_type, StructType):
        time_fields = [field for field in data_type if has_times(field.dataType)]
        checks = [
            has_odd_time(value.getField(field.name), text.getField(field.name), field.dataType)
            for field in time_fields
        ]
        return reduce(or_, checks)
    if isinstance(data_type, ArrayType):
        is_odd = _has_odd_element(value, text, data_type.elementType)
    elif isinstance(data_type, MapType):
        is_odd = _has_odd_element(F.map_values(value), F.map_values(text), data_type.valueType)
    else:
        end = "$" if isinstance(data_type, DateType) else ""
        is_odd = value.isNotNull() & ~text.rlike(f"^{_DATE_PATTERN}{end}")
        if isinstance(data_type, TimestampType):
            seconds = F.timestamp_seconds(text.try_cast("bigint"))
            is_odd = is_odd & ~(text.rlike(r"^-?\d{1,12}$") & (value == seconds))
    return F.coalesce(is_odd, F.lit(False))


def _has_odd_element(values: Column, texts: Column, data_type: DataType) -> Column:
    odd = F.zip_with(values, texts, lambda value, text: has_odd_time(value, text, data_type))
    return F.exists(odd, lambda is_odd: is_odd)


def _time_text_type(data_type: DataType) -> Any:
    """Return the fields of a type that contain times, with their times typed as text."""
    if isinstance(data_type, StructType):
        data_type = StructType([field for field in data_type if has_times(field.dataType)])
    is_time = isinstance(data_type, _TIME_TYPES)
    return StringType() if is_time else map_inner_types(data_type, _time_text_type)


def _may_have_odd_time(text: Column, schema: StructType) -> Column:
    """Return whether a text may contain a time that does not begin with a date.

    Searches for the names of the times as written. A text with escapes that could spell a name
    differently counts as a candidate.
    """
    patterns = [r"\\u00[2-7]"]
    for name, data_type in _named_times(schema):
        if name is None:
            return F.lit(True)
        if not _PLAIN_NAME_PATTERN.fullmatch(name):
            patterns[0] = r"\\"
        name_pattern = _quoted_pattern(json.dumps(name, ensure_ascii=False))
        patterns.append(rf"{name_pattern}\s*:\s*(?:{_ODD_PATTERNS[type(data_type)]})")
    return text.rlike("|".join(patterns))


def _named_times(
    data_type: DataType, name: str | None = None
) -> Iterator[tuple[str | None, DataType]]:
    """Yield each time type with the name of its field, which is None in an array or map."""
    if isinstance(data_type, StructType):
        for field in data_type:
            yield from _named_times(field.dataType, field.name)
    elif isinstance(data_type, ArrayType):
        yield from _named_times(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _named_times(data_type.valueType)
    elif isinstance(data_type, _TIME_TYPES):
        yield name, data_type


def _quoted_pattern(text: str) -> str:
    r"""Return the text as a literal for Java's regular expressions, which know \Q and \E."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def inner_object_fields(text: Column, schema: StructType) -> dict[str, Column]:
    """Return the fields of a JSON object in a text field; a field of another type is null."""
    parsed = F.from_json(text, wider_type(schema), PARSER_OPTIONS)
    times = times_as_text(text, schema) if has_times(schema) else F.lit(None)
    columns = {}
    for field in schema:
        value = parsed.getField(field.name)
        is_odd = has_odd_time(value, times.getField(field.name), field.dataType)
        is_valid = ~(does_not_fit(value, field.dataType) | is_odd)
        columns[field.name] = F.when(is_valid, narrow_value(value, field.dataType))
    return columns


def parse_object(text: Column, schema: StructType) -> Column:
    """Return a struct of the fields in their widened types and of CORRUPT_COLUMN."""
    fields = [*wider_type(schema), StructField(CORRUPT_COLUMN, StringType())]
    return F.from_json(text, StructType(fields), CORRUPT_AWARE_OPTIONS)


def is_wrongly_accepted(value: Column) -> Column:
    """Return whether the parser accepts a value that is not one JSON object; null for a null."""
    text = value.cast("string")
    # Nearly every flat object has its only closing brace at the end, and a search in bytes is fast.
    all_but_last = F.substring(value, F.lit(1), F.octet_length(value) - 1).cast("string")
    ends_at_first_brace = text.endswith("}") & ~all_but_last.contains("}")
    return ~F.is_valid_utf8(text) | (~ends_at_first_brace & ~is_single_object(text))


def is_single_object(text: Column) -> Column:
    """Return whether the text is exactly one well-formed object.

    The text is parsed as the only element of an array, followed by another field.
    """
    shape = "objects ARRAY<STRUCT<none: STRING>>, ended BOOLEAN"
    wrapped = F.concat(F.lit('{"objects":['), text, F.lit('],"ended":true}'))
    expected = F.struct(F.array(F.struct(F.lit(None).cast("string"))), F.lit(True))
    parsed = F.from_json(wrapped, shape, PARSER_OPTIONS)
    return parsed.eqNullSafe(expected.cast(f"STRUCT<{shape}>"))


def required_fields(schema: StructType, record: Column, path: str = "") -> list[tuple[str, Column]]:
    """Return the NOT NULL fields by path, with a column that is null where the field is missing.

    A field of a missing struct is not missing.
    """
    required_values: list[tuple[str, Column]] = []
    for field in schema.fields:
        value = record.getField(field.name)
        if not field.nullable:
            required_values.append((f"{path}{field.name}", value))
        if isinstance(field.dataType, StructType):
            for name, inner in required_fields(field.dataType, value, f"{path}{field.name}."):
                is_present = F.when(value.isNull() | inner.isNotNull(), F.lit(True))
                required_values.append((name, is_present))
    return required_values


def dead_letter_reason(value: Column, parsed: Column, schema: StructType) -> Column:
    """Return why a value is not a record of this schema, by the rules of `json_format`.

    parsed: the text of the value, as `parse_object` reads it.
    """
    text = value.cast("string")
    is_parsed = parsed.getField(CORRUPT_COLUMN).isNull()
    has_trailing_text = is_parsed & ~is_single_object(text)
    wrong_types = {field.name: _has_wrong_type(text, field) for field in schema.fields}
    missing_names = [F.when(each.isNull(), name) for name, each in required_fields(schema, parsed)]
    wrong_names = _wrong_names(text, schema)
    return (
        F.when(value.isNull(), "null value")
        .when(parsed.isNull(), "empty value")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(has_trailing_text & ~_may_be_deep(text), "text after the JSON object")
        .when(has_trailing_text, "malformed JSON")
        .when(is_parsed & has_lone_surrogate(text, schema), "lone surrogate")
        .when(
            is_parsed & ~reduce(or_, wrong_types.values()),
            _join_names("missing field: ", missing_names),
        )
        .when(is_single_object(text), _join_names("wrong type: ", wrong_names))
        .when(~F.ltrim(text).startswith("{"), "not a JSON object")
        .otherwise("malformed JSON")
    )


def _join_names(prefix: str, names: list[Column]) -> Column:
    """Return the prefix with the names that are not null."""
    return F.concat(F.lit(prefix), F.concat_ws(", ", *names))


def _has_wrong_type(text: Column, field: StructField) -> Column:
    schema = StructType([field])
    parsed = parse_object(text, schema)
    wrong = parsed.getField(CORRUPT_COLUMN).isNotNull() | does_not_fit(parsed, schema)
    if not has_times(schema):
        return wrong
    return wrong | has_odd_time(parsed, times_as_text(text, schema), schema)


def _wrong_names(text: Column, schema: StructType, outer: tuple[str, ...] = ()) -> list[Column]:
    """Return the path of each field with a wrong type, else null.

    outer: the names of the structs that contain the fields.
    """
    names = []
    for field in schema.fields:
        path = (*outer, field.name)
        if isinstance(field.dataType, StructType):
            # Any value other than an object is wrong, even if none of its fields are read.
            no_field = StructField("", StringType())
            is_wrong = _has_wrong_type(text, _inside(no_field, path))
            inner_names = _wrong_names(text, field.dataType, path)
            names += [F.when(~is_wrong, name) for name in inner_names]
        else:
            is_wrong = _has_wrong_type(text, _inside(field, outer))
        names.append(F.when(is_wrong, ".".join(path)))
    return names


def _inside(field: StructField, outer: tuple[str, ...]) -> StructField:
    """Return a field inside structs with these names, as a field of the record."""
    for name in reversed(outer):
        field = StructField(name, StructType([field]))
    return field


def _may_be_deep(text: Column) -> Column:
    """Return whether the text has enough opening brackets to exceed the nesting limit."""
    return F.length(text) - F.length(F.translate(text, "{[", "")) > _MAX_DEPTH
