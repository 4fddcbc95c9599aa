"""What a term is, and the keys that a document is found by: Spark's expressions, said once."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...columns import quoted
from ._program import ALL, FRACTION_LEVELS, WHOLE_LEVELS
from .fields import SearchFields

HEADS = (2, 4)
"""A prefix is looked up by so many of its first characters, by the more where it has them."""

_PARTS_TERMS = r"[^\p{L}\p{M}\p{N}]+"
_SIGMA = "\u03c3"
_FINAL_SIGMA = "\u03c2"


def terms_text(text: Column) -> Column:
    """Return a text as its terms, each between two spaces; two spaces for none."""
    lowered = F.translate(F.lower(text), _FINAL_SIGMA, _SIGMA)
    parted = F.trim(F.regexp_replace(lowered, _PARTS_TERMS, " "))
    return F.concat(F.lit(" "), F.coalesce(parted, F.lit("")), F.lit(" "))


def terms(text: Column) -> Column:
    """Return the terms of a text, in order."""
    return parts(terms_text(text))


def parts(text: Column) -> Column:
    """Return the terms of what `terms_text` returned."""
    return F.filter(F.split(text, " "), lambda term: term != "")


def term_key(field: Column, term: Column) -> Column:
    """Return the key of a term of a field."""
    return F.concat(field.cast("string"), F.lit(" "), term)


def head(field: Column, term: Column, length: int) -> Column:
    """Return the key of all terms of a field with the same head."""
    return F.concat(field.cast("string"), F.lit("^"), F.substring(term, 1, length))


def hashed(key: Column) -> Column:
    """Return a key as a number, which is faster to look up.

    Two keys of one number make a query be tested where it need not be; no answer depends on that,
    since a query that a document meets is tested whole.
    """
    return F.xxhash64(key)


def texts(fields: SearchFields) -> Column:
    """Return the terms of each field of text of a document, as `terms_text` has them."""
    return F.array(*[terms_text(quoted(name)) for name in fields.text]).cast("array<string>")


def wholes(fields: SearchFields) -> Column:
    """Return a document's whole numbers, and its times in microseconds since 1970."""
    numbers = [quoted(name).cast("bigint") for name in fields.whole]
    times = [F.unix_micros(quoted(name)) for name in fields.time]
    return F.array(*numbers, *times).cast("array<bigint>")


def fractions(fields: SearchFields) -> Column:
    """Return a document's doubles; what is no number is null."""
    known = [F.when(~F.isnan(quoted(name)), quoted(name)) for name in fields.fraction]
    return F.array(*known).cast("array<double>")


def keys(fields: SearchFields, of_texts: Column, of_wholes: Column, of_fractions: Column) -> Column:
    """Return all keys of a document, each once."""
    found = [F.array(F.lit(ALL))]
    for place in range(len(fields.text)):
        found += _of_text(F.lit(place), parts(of_texts[place]))
    for place in range(len(fields.whole) + len(fields.time)):
        value = of_wholes[place]
        told = [(level, F.shiftright(value, 4 * level)) for level in WHOLE_LEVELS]
        found.append(_bucketed(f"w{place}", told))
    for place in range(len(fields.fraction)):
        value = of_fractions[place]
        told = [(level, F.floor(value / 16.0**level)) for level in FRACTION_LEVELS]
        found.append(_bucketed(f"f{place}", told))
    return reduce(lambda one, more: F.concat(one, more), found)


def _of_text(place: Column, found: Column) -> list[Column]:
    distinct = F.array_distinct(found)
    short, long = HEADS

    def heads(least: int) -> Column:
        of_length = F.filter(distinct, lambda term: F.length(term) >= least)
        return F.array_distinct(F.transform(of_length, lambda term: head(place, term, least)))

    own = F.transform(distinct, lambda term: term_key(place, term))
    return [own, heads(short), heads(long)]


def _bucketed(name: str, found: list[tuple[int, Column]]) -> Column:
    told = [F.concat(F.lit(f"{name} {level} "), bucket.cast("string")) for level, bucket in found]
    return F.filter(F.array(*told), lambda key: key.isNotNull())
