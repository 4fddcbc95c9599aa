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
    followed = read & ~is_single(text)
    none_is_wrong = ~reduce(or_, [_wrong_type(text, field) for field in schema.fields])
    missing = [F.when(field.isNull(), name) for name, field in required(schema, parsed)]
    wrong = [F.when(_wrong_type(text, field), field.name) for field in schema.fields]
    return (
        F.when(value.isNull(), "null value")
        .when(parsed.isNull(), "empty value")
        .when(~F.is_valid_utf8(text), "invalid UTF-8")
        .when(followed & ~_may_be_deep(text), "text after the JSON object")
        .when(followed, "malformed JSON")
        .when(read & lone_surrogate(text, schema, PLAIN), "lone surrogate")
        .when(read & none_is_wrong, _listed("missing field: ", missing))
        .when(is_single(text), _listed("wrong type: ", wrong))
        .when(~F.ltrim(text).startswith("{"), "not a JSON object")
        .otherwise("malformed JSON")
    )


def _listed(begin: str, names: list[Column]) -> Column:
    """Return a reason that ends with the names that are not null."""
    return F.concat(F.lit(begin), F.concat_ws(", ", *names))


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
