"""The tokenizer, and the values and keys of documents, as Spark expressions."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...columns import quoted_column
from .search_fields import SearchFields

TEXTS = "__tidegate_texts"
INTEGERS = "__tidegate_integers"
DOUBLES = "__tidegate_doubles"
KEYS = "__tidegate_keys"

MATCH_ALL_KEY = "*"
"""The key of every document, for queries without a required key."""

INTEGER_LEVELS = range(16)
DOUBLE_LEVELS = range(-4, 14)
"""Numbers are in buckets of width 16 ** level."""

HEAD_LENGTHS = (2, 4)
"""The lengths of prefix keys; the longer is used if the prefix is long enough."""

_TERM_SEPARATORS = r"[^\p{L}\p{M}\p{N}]+"
_SIGMA = "\u03c3"
_FINAL_SIGMA = "\u03c2"


def terms_text(text: Column) -> Column:
    """Return the terms of a text, each between two spaces; two spaces without terms."""
    lowered = F.translate(F.lower(text), _FINAL_SIGMA, _SIGMA)
    separated = F.trim(F.regexp_replace(lowered, _TERM_SEPARATORS, " "))
    return F.concat(F.lit(" "), F.coalesce(separated, F.lit("")), F.lit(" "))


def split_terms(padded_terms: Column) -> Column:
    """Return the terms of a result of `terms_text`, in order."""
    return F.filter(F.split(padded_terms, " "), lambda term: term != "")


def term_key(field: Column, term: Column) -> Column:
    return F.concat(field.cast("string"), F.lit(" "), term)


def head_key(field: Column, term: Column, length: int) -> Column:
    """Return the key of all terms of a field with the same first characters."""
    return F.concat(field.cast("string"), F.lit("^"), F.substring(term, 1, length))


def hash_key(key: Column) -> Column:
    """Return the hash of a key, which is faster to join on.

    A collision only causes an unnecessary test: every candidate pair is tested completely.
    """
    return F.xxhash64(key)


def with_document_keys(documents: DataFrame, fields: SearchFields) -> DataFrame:
    """Add the values that queries test, and the hashed keys of each document.

    Times are integers, in microseconds since 1970; NaN is null.
    """
    integers = [quoted_column(name).cast("bigint") for name in fields.integer]
    integers += [F.unix_micros(quoted_column(name)) for name in fields.time]
    doubles = [F.when(~F.isnan(quoted_column(name)), quoted_column(name)) for name in fields.double]
    texts = [terms_text(quoted_column(name)) for name in fields.text]
    with_values = documents.withColumns(
        {
            TEXTS: F.array(*texts).cast("array<string>"),
            INTEGERS: F.array(*integers).cast("array<bigint>"),
            DOUBLES: F.array(*doubles).cast("array<double>"),
        }
    )
    key_arrays = [F.array(F.lit(MATCH_ALL_KEY))]
    for field_index in range(len(texts)):
        terms = split_terms(quoted_column(TEXTS)[field_index])
        key_arrays += _text_keys(F.lit(field_index), terms)
    for field_index in range(len(integers)):
        value = quoted_column(INTEGERS)[field_index]
        buckets = [(level, F.shiftright(value, 4 * level)) for level in INTEGER_LEVELS]
        key_arrays.append(_bucket_keys(f"w{field_index}", buckets))
    for field_index in range(len(doubles)):
        value = quoted_column(DOUBLES)[field_index]
        buckets = [(level, F.floor(value / 16.0**level)) for level in DOUBLE_LEVELS]
        key_arrays.append(_bucket_keys(f"f{field_index}", buckets))
    all_keys = reduce(lambda left, right: F.concat(left, right), key_arrays)
    return with_values.withColumn(KEYS, F.array_distinct(F.transform(all_keys, hash_key)))


def _text_keys(field_index: Column, terms: Column) -> list[Column]:
    distinct = F.array_distinct(terms)
    short, long = HEAD_LENGTHS

    def head_keys(min_length: int) -> Column:
        long_enough = F.filter(distinct, lambda term: F.length(term) >= min_length)
        heads = F.transform(long_enough, lambda term: head_key(field_index, term, min_length))
        return F.array_distinct(heads)

    term_keys = F.transform(distinct, lambda term: term_key(field_index, term))
    return [term_keys, head_keys(short), head_keys(long)]


def _bucket_keys(name: str, buckets: list[tuple[int, Column]]) -> Column:
    keys = [F.concat(F.lit(f"{name} {level} "), bucket.cast("string")) for level, bucket in buckets]
    return F.array_compact(F.array(*keys))
