"""Queries' texts compiled: Python reads them, and Spark's expressions make their terms."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from ...arrow_function import arrow_function
from ._program import ALL, HEAD, PREFIX, READY, TERM, WORDS, program
from ._reading import FaultError
from ._terms import HEADS, hashed, head, term_key, terms, terms_text
from .fields import SearchFields
from .parser import read

_STEP = {
    "op": pa.int8(),
    "field": pa.int32(),
    "raw": pa.string(),
    "least": pa.int64(),
    "most": pa.int64(),
    "low": pa.float64(),
    "high": pa.float64(),
}
_KEY = {"what": pa.int8(), "field": pa.int32(), "raw": pa.string()}
_READ = pa.struct(
    {
        "fault": pa.string(),
        "steps": pa.list_(pa.struct(_STEP)),
        "table": pa.int64(),
        "covers": pa.list_(pa.list_(pa.struct(_KEY))),
    }
)
_READ_DDL = (
    "struct<fault: string, "
    "steps: array<struct<op: tinyint, field: int, raw: string, least: bigint, most: bigint, "
    "low: double, high: double>>, table: bigint, "
    "covers: array<array<struct<what: tinyint, field: int, raw: string>>>>"
)
COMPILED = (
    "struct<mark: string, steps: array<struct<op: tinyint, field: int, needle: string, "
    "least: bigint, most: bigint, low: double, high: double>>, table: bigint, "
    "covers: array<array<bigint>>>"
)
"""What a query is compiled to."""
COMPILED_COLUMN = "compiled"


def was_read(text: Column, fields: SearchFields) -> Column:
    """Return what the parser made of a text: `fault` in one line, or steps and covers."""

    def parsed(texts: pa.Array) -> pa.Array:
        return pa.array([_parsed(each.as_py(), fields) for each in texts], _READ)

    parsed.__annotations__ = {"texts": pa.Array, "return": pa.Array}
    return arrow_function(parsed, _READ_DDL)(text)


def compiled(found: Column, fields: SearchFields) -> Column:
    """Return the program and the covers of a text that was read; null for one with a fault.

    The covers are hashed; those that are likely to be rare come first.
    """
    steps = F.transform(found["steps"], _with_needle)
    covers = F.array_sort(F.transform(found["covers"], _weighed))
    made = F.struct(
        F.lit(fields.mark).alias("mark"),
        steps.alias("steps"),
        found["table"].alias("table"),
        F.transform(covers, lambda one: one["cover"]).alias("covers"),
    )
    return F.when(found["steps"].isNotNull(), made).cast(COMPILED)


def _parsed(text: str | None, fields: SearchFields) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = program(read(text, fields), fields)
    except FaultError as fault:
        return {"fault": fault.line, "steps": None, "table": None, "covers": None}
    steps = [{name: step.get(name) for name in _STEP} for step in found.steps]
    covers = [[dict(zip(_KEY, key, strict=True)) for key in cover] for cover in found.covers]
    return {"fault": None, "steps": steps, "table": found.table, "covers": covers}


def _with_needle(step: Column) -> Column:
    """Return a step with the text that a document's terms must contain.

    A text that has no term for Spark, or a prefix that has two, is in no document.
    """
    found = terms_text(step["raw"])
    inner = F.trim(found)
    words = F.when((step["op"] == WORDS) & (inner != ""), found)
    prefix = (step["op"] == PREFIX) & (inner != "") & ~F.contains(inner, F.lit(" "))
    needle = words.when(prefix, F.concat(F.lit(" "), inner))
    names = ("least", "most", "low", "high")
    kept = [step[name].alias(name) for name in names]
    return F.struct(
        step["op"].alias("op"), step["field"].alias("field"), needle.alias("needle"), *kept
    )


def _weighed(cover: Column) -> Column:
    """Return a cover's keys, hashed, after what is less where they are likely to be rare."""
    found = F.array_distinct(F.transform(cover, _key))
    lengths = F.transform(found, lambda key: F.length(key))
    own = F.array_distinct(F.transform(found, hashed))
    return F.struct(F.size(own), -F.array_min(lengths), own.alias("cover"))


def _key(key: Column) -> Column:
    """Return a key as documents have it; of a text of several terms, that of the longest."""
    found = terms(key["raw"])
    sized = F.transform(found, lambda term: F.struct(F.length(term), term.alias("term")))
    longest = F.array_max(sized)["term"]
    short, long = HEADS
    one = F.element_at(found, 1)
    at_head = F.when(F.length(one) >= long, head(key["field"], one, long)).otherwise(
        head(key["field"], one, short)
    )
    return (
        F.when(key["what"] == READY, key["raw"])
        .when(key["what"] == TERM, term_key(key["field"], longest))
        .when(key["what"] == HEAD, at_head)
        .otherwise(F.lit(ALL))
    )
