"""A JSON object that stands as a text in a field of another one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from .._fitting import narrowed, unfit, widened
from ._options import PLAIN
from ._texts import has_times, odd_times, times_as_text


def fields(text: Column, schema: StructType) -> dict[str, Column]:
    """Return the fields of an object that stands in a text; a field of another type is null."""
    shape = StructType([StructField(each.name, widened(each.dataType)) for each in schema])
    read = F.from_json(text, shape, PLAIN)
    times = times_as_text(text, schema, PLAIN) if has_times(schema) else F.lit(None)
    found = {}
    for field in schema:
        value = read.getField(field.name)
        wrong = unfit(value, field.dataType)
        if has_times(field.dataType):
            wrong = wrong | odd_times(value, times.getField(field.name), field.dataType)
        found[field.name] = F.when(~wrong, narrowed(value, field.dataType))
    return found
