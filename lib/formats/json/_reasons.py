"""Why a value is a dead letter."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from .._fitting import unfit
from ._objects import is_single, read_as, required
from ._options import CORRUPT, PLAIN
from ._texts import has_times, lone_surrogate, odd_times, times_as_text

_DEEPEST = 998


def reason(value: Column, parsed: Column, schema: StructType) -> Column:
    """Return why a value is none of this schema, by the rules of `json_format`.

    parsed: what `read_as` makes of its text.
    """
    text = value.cast("string")
    read = parsed.getField(CORRUPT).isNull()
    wrong = [F.when(_wrong_type(text, field), field.name) for field in schema.fields]
    missing = [F.when(field.isNull(), name) for name, field in required(schema, parsed)]
    none_is_wrong = ~reduce(or_, [_wrong_type(text, field) for field in schema.fields])
    return (
        F.when(value.isNull(), "null value")
        .when(parsed.isNull(), "empty value")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(read & ~is_single(text) & ~_may_be_deep(text), "text after the JSON object")
        .when(read & ~is_single(text), "malformed JSON")
        .when(read & lone_surrogate(text, schema, PLAIN), "lone surrogate")
        .when(
            read & none_is_wrong,
            F.concat(F.lit("missing field: "), F.concat_ws(", ", *missing)),
        )
        .when(is_single(text), F.concat(F.lit("wrong type: "), F.concat_ws(", ", *wrong)))
        .when(~F.ltrim(text).startswith("{"), "not a JSON object")
        .otherwise("malformed JSON")
    )


def _wrong_type(text: Column, field: StructField) -> Column:
    schema = StructType([field])
    alone = read_as(text, schema)
    wrong = alone.getField(CORRUPT).isNotNull() | unfit(alone, schema)
    if not has_times(schema):
        return wrong
    return wrong | odd_times(alone, times_as_text(text, schema, PLAIN), schema)


def _may_be_deep(text: Column) -> Column:
    """Return whether a text opens as many braces as cannot be within one another."""
    return F.length(text) - F.length(F.translate(text, "{[", "")) > _DEEPEST
