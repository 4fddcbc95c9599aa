"""A value read as one JSON object by Spark's parser, and what that parser alone would let pass."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from .._fitting import widened
from ._options import CORRUPT, OPTIONS, PLAIN


def read_as(text: Column, schema: StructType) -> Column:
    """Return the text as a struct of the fields in their widened types, and of what is corrupt."""
    fields = [StructField(field.name, widened(field.dataType)) for field in schema]
    shape = StructType([*fields, StructField(CORRUPT, StringType())])
    return F.from_json(text, shape, OPTIONS)


def faulty(value: Column) -> Column:
    """Return whether a value is one that the parser alone would let pass; null for no value."""
    text = value.cast("string")
    # The only closing brace of nearly every flat object is its last byte, and bytes are quick to
    # look through.
    but_last = F.substring(value, F.lit(1), F.octet_length(value) - 1).cast("string")
    ends_at_once = text.endswith("}") & ~but_last.contains("}")
    return ~F.is_valid_utf8(text) | (~ends_at_once & ~is_single(text))


def is_single(text: Column) -> Column:
    """Return whether the text is one well-formed object and nothing else.

    Such a text can stand alone in a list, and the list ends after it.
    """
    shape = "objects ARRAY<STRUCT<none: STRING>>, ended BOOLEAN"
    found = F.from_json(
        F.concat(F.lit('{"objects":['), text, F.lit('],"ended":true}')), shape, PLAIN
    )
    alone = F.struct(F.array(F.struct(F.lit(None).cast("string"))), F.lit(True)).cast(
        f"STRUCT<{shape}>"
    )
    return found.eqNullSafe(alone)


def required(schema: StructType, record: Column, path: str = "") -> list[tuple[str, Column]]:
    """List the fields that may not be null.

    Beside each stands what is null when the field is missing from a struct that is there.
    """
    found: list[tuple[str, Column]] = []
    for field in schema.fields:
        value = record.getField(field.name)
        if not field.nullable:
            found.append((f"{path}{field.name}", value))
        if isinstance(field.dataType, StructType):
            for name, inner in required(field.dataType, value, f"{path}{field.name}."):
                found.append((name, F.when(value.isNull(), F.lit(True)).otherwise(_present(inner))))
    return found


def _present(value: Column) -> Column:
    return F.when(value.isNotNull(), F.lit(True)).cast(BooleanType())
