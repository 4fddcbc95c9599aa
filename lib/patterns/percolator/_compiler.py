"""Compilation of query texts to programs, and to the keys that a matching document must have.

Python parses a text; Spark expressions tokenize its terms (`_tokenizer`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from ...arrow_kernels import arrow_udf
from ...durations import epoch_micros
from ._tokenizer import (
    DOUBLE_LEVELS,
    HEAD_LENGTHS,
    INTEGER_LEVELS,
    MATCH_ALL_KEY,
    hash_key,
    head_key,
    split_terms,
    term_key,
    terms_text,
)
from .parser import QuerySyntaxError, parse
from .query_terms import And, Bound, Not, Or, Phrase, Prefix, Query, Range, has_term
from .search_fields import SearchFields

PHRASE, PREFIX, INTEGER, DOUBLE, AND, OR, NOT = range(7)
"""Operations of a step: a test that pushes its result, or an operator on previous results."""

TERM, PREFIX_HEAD, LITERAL = range(3)
"""Kinds of keys: a term, the first characters of a term, or a literal key."""

_INT64_LIMIT = 2**63
_EXACT_DOUBLE_LIMIT = 2**53

ProgramStep = dict[str, Any]
Cover = list[tuple[int, int, str]]
"""Keys (kind, field, text); each matching document has at least one of them."""

MAX_TABLE_TESTS = 6
"""Six tests have 64 combinations of results, one for each bit of a BIGINT."""

_STEP_FIELDS = {
    "op": pa.int8(),
    "field": pa.int32(),
    "raw": pa.string(),
    "least": pa.int64(),
    "most": pa.int64(),
    "low": pa.float64(),
    "high": pa.float64(),
}
_KEY_FIELDS = {"kind": pa.int8(), "field": pa.int32(), "raw": pa.string()}
_PARSED_TYPE = pa.struct(
    {
        "fault": pa.string(),
        "steps": pa.list_(pa.struct(_STEP_FIELDS)),
        "table": pa.int64(),
        "covers": pa.list_(pa.list_(pa.struct(_KEY_FIELDS))),
    }
)
COMPILED_DDL = (
    "struct<mark: string, steps: array<struct<op: tinyint, field: int, needle: string, "
    "least: bigint, most: bigint, low: double, high: double>>, table: bigint, "
    "covers: array<array<bigint>>>"
)
"""The type of a compiled query."""
COMPILED_COLUMN = "compiled"


def parse_text(text: Column, fields: SearchFields) -> Column:
    """Return the result of the parser: `fault` as one line, or steps and covers."""

    def parse_batch(texts: pa.Array) -> pa.Array:
        return pa.array([_parse_one(text, fields) for text in texts.to_pylist()], _PARSED_TYPE)

    parse_batch.__annotations__ = {"texts": pa.Array, "return": pa.Array}
    return arrow_udf(parse_batch, from_arrow_type(_PARSED_TYPE, prefer_timestamp_ntz=True))(text)


def compile_parsed(parsed: Column, fields: SearchFields) -> Column:
    """Return the compiled query of a parsed text; null for a text with a fault.

    Covers are hashed and ordered by estimated selectivity, the most selective first.
    """
    steps = F.transform(parsed["steps"], _with_needle)
    covers = F.array_sort(F.transform(parsed["covers"], _rank_cover))
    result = F.struct(
        F.lit(fields.fingerprint).alias("mark"),
        steps.alias("steps"),
        parsed["table"].alias("table"),
        F.transform(covers, lambda entry: entry["cover"]).alias("covers"),
    )
    return F.when(parsed["steps"].isNotNull(), result).cast(COMPILED_DDL)


def _parse_one(text: str | None, fields: SearchFields) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        program = compile_program(parse(text, fields), fields)
    except QuerySyntaxError as fault:
        return {"fault": fault.message, "steps": None, "table": None, "covers": None}
    steps = [{name: step.get(name) for name in _STEP_FIELDS} for step in program.steps]
    covers = [[dict(zip(_KEY_FIELDS, key, strict=True)) for key in keys] for keys in program.covers]
    return {"fault": None, "steps": steps, "table": program.table, "covers": covers}


def _with_needle(step: Column) -> Column:
    """Return a step with the text that the terms of a document must contain.

    The text is null, which matches no document, for a phrase without terms or a prefix with two.
    """
    padded_terms = terms_text(step["raw"])
    inner = F.trim(padded_terms)
    words = F.when((step["op"] == PHRASE) & (inner != ""), padded_terms)
    prefix = (step["op"] == PREFIX) & (inner != "") & ~F.contains(inner, F.lit(" "))
    needle = words.when(prefix, F.concat(F.lit(" "), inner)).alias("needle")
    bounds = [step[name].alias(name) for name in ("least", "most", "low", "high")]
    return F.struct(step["op"].alias("op"), step["field"].alias("field"), needle, *bounds)


def _rank_cover(cover: Column) -> Column:
    """Return the hashed keys of a cover, after fields that sort selective covers first."""
    lookup_keys = F.array_distinct(F.transform(cover, _lookup_key))
    lengths = F.transform(lookup_keys, lambda key: F.length(key))
    hashed_keys = F.array_distinct(F.transform(lookup_keys, hash_key))
    return F.struct(F.size(hashed_keys), -F.array_min(lengths), hashed_keys.alias("cover"))


def _lookup_key(key: Column) -> Column:
    """Return a key in the form of document keys; for several terms, that of the longest term."""
    key_terms = split_terms(terms_text(key["raw"]))
    with_lengths = F.transform(key_terms, lambda term: F.struct(F.length(term), term.alias("term")))
    longest = F.array_max(with_lengths)["term"]
    first_term = F.element_at(key_terms, 1)
    short, long = (head_key(key["field"], first_term, length) for length in HEAD_LENGTHS)
    at_head = F.when(F.length(first_term) >= HEAD_LENGTHS[1], long).otherwise(short)
    return (
        F.when(key["kind"] == LITERAL, key["raw"])
        .when(key["kind"] == TERM, term_key(key["field"], longest))
        .when(key["kind"] == PREFIX_HEAD, at_head)
        .otherwise(F.lit(MATCH_ALL_KEY))
    )


@dataclass(frozen=True)
class Program:
    """A compiled query.

    steps: for up to six tests, the tests; otherwise tests and operators in postfix order.
    table: for up to six tests, the truth table: bit n is the result for the test results in the
        bits of n, with the first test as the lowest bit. Otherwise None.
    covers: the covers, one of which the index uses.
    """

    steps: list[ProgramStep]
    table: int | None
    covers: list[Cover]


def compile_program(query: Query, fields: SearchFields) -> Program:
    expanded = _with_default_fields(query, fields)
    steps: list[ProgramStep] = []
    _append_steps(expanded, fields, steps)
    covers = _required_covers(expanded, fields) or [[(LITERAL, 0, MATCH_ALL_KEY)]]
    tests = [step for step in steps if step["op"] not in (AND, OR, NOT)]
    if len(tests) > MAX_TABLE_TESTS:
        return Program(steps, None, covers)
    return Program(tests, _truth_table(steps), covers)


def _truth_table(steps: list[ProgramStep]) -> int:
    """Return the truth table: the program evaluated for all combinations of test results."""
    combinations = range(2**MAX_TABLE_TESTS)
    tests = range(MAX_TABLE_TESTS)
    answers = (sum(1 << n for n in combinations if n >> test & 1) for test in tests)
    stack: list[int] = []
    for step in steps:
        if step["op"] == NOT:
            stack.append(~stack.pop())
        elif step["op"] in (AND, OR):
            last = stack.pop()
            stack.append(stack.pop() & last if step["op"] == AND else stack.pop() | last)
        else:
            stack.append(next(answers))
    outcome = stack.pop() % 2**64
    return outcome - 2**64 if outcome >= _INT64_LIMIT else outcome


def _with_default_fields(query: Query, fields: SearchFields) -> Query:
    """Replace a missing field with the default fields."""
    if isinstance(query, And | Or):
        return type(query)(tuple(_with_default_fields(part, fields) for part in query.parts))
    if isinstance(query, Not):
        return Not(_with_default_fields(query.part, fields))
    if isinstance(query, Range) or query.field is not None:
        return query
    text = query.text if isinstance(query, Phrase) else query.start
    alternatives = tuple(type(query)(text, name) for name in fields.defaults)
    return alternatives[0] if len(alternatives) == 1 else Or(alternatives)


def _append_steps(query: Query, fields: SearchFields, steps: list[ProgramStep]) -> None:
    if isinstance(query, Not):
        _append_steps(query.part, fields, steps)
        steps.append({"op": NOT})
    elif isinstance(query, And | Or):
        _append_steps(query.parts[0], fields, steps)
        for part in query.parts[1:]:
            _append_steps(part, fields, steps)
            steps.append({"op": AND if isinstance(query, And) else OR})
    else:
        steps.append(_test_step(query, fields))


def _test_step(query: Phrase | Prefix | Range, fields: SearchFields) -> ProgramStep:
    if isinstance(query, Phrase | Prefix):
        op, raw = (PHRASE, query.text) if isinstance(query, Phrase) else (PREFIX, query.start)
        return {"op": op, "field": fields.text.index(str(query.field)), "raw": raw}
    if query.field in fields.double:
        low, high = _double_bounds(query)
        return {"op": DOUBLE, "field": fields.double.index(query.field), "low": low, "high": high}
    least, most = _integer_bounds(query)
    field_index = [*fields.integer, *fields.time].index(query.field)
    return {"op": INTEGER, "field": field_index, "least": least, "most": most}


def _integer_bounds(query: Range) -> tuple[int, int]:
    """Return the inclusive bounds within BIGINT; (1, 0) for an empty range."""
    minimum, maximum = -_INT64_LIMIT, _INT64_LIMIT - 1
    if query.at_least is not None:
        minimum = max(minimum, math.ceil(_as_number(query.at_least)))
    if query.above is not None:
        minimum = max(minimum, math.floor(_as_number(query.above)) + 1)
    if query.at_most is not None:
        maximum = min(maximum, math.floor(_as_number(query.at_most)))
    if query.below is not None:
        maximum = min(maximum, math.ceil(_as_number(query.below)) - 1)
    return (minimum, maximum) if minimum <= maximum else (1, 0)


def _double_bounds(query: Range) -> tuple[float, float]:
    low, high = -math.inf, math.inf
    if query.at_least is not None:
        low = float(_as_number(query.at_least))
    if query.above is not None:
        low = math.nextafter(float(_as_number(query.above)), math.inf)
    if query.at_most is not None:
        high = float(_as_number(query.at_most))
    if query.below is not None:
        high = math.nextafter(float(_as_number(query.below)), -math.inf)
    return low, high


def _as_number(bound: Bound) -> int | float:
    """Return a bound as a number; a time as microseconds since 1970."""
    return epoch_micros(bound) if isinstance(bound, datetime) else bound


def _required_covers(query: Query, fields: SearchFields, negated: bool = False) -> list[Cover]:
    """Return the covers of a query or its negation; empty if no key is required."""
    if isinstance(query, Not):
        return _required_covers(query.part, fields, not negated)
    if isinstance(query, And | Or):
        parts = [_required_covers(part, fields, negated) for part in query.parts]
        if isinstance(query, And) is not negated:
            return [cover for part_covers in parts for cover in part_covers]
        if not all(parts):
            return []
        # The cover of a disjunction has the keys of one cover of each part.
        best = [min(part_covers, key=_selectivity) for part_covers in parts]
        return [list(dict.fromkeys(chain.from_iterable(best)))]
    return [] if negated else _leaf_covers(query, fields)


def _selectivity(cover: Cover) -> tuple[bool, int, int]:
    """Return a sort key that is lower for covers that are likely rare: few and long keys."""
    text_lengths = [len(text) for key_kind, _, text in cover if key_kind != LITERAL]
    return len(text_lengths) < len(cover), len(cover), -min(text_lengths, default=0)


def _leaf_covers(query: Phrase | Prefix | Range, fields: SearchFields) -> list[Cover]:
    step = _test_step(query, fields)
    if isinstance(query, Phrase):
        return [[(TERM, step["field"], word)] for word in query.text.split() if has_term(word)]
    if isinstance(query, Prefix):
        return [[(PREFIX_HEAD, step["field"], query.start)]] if len(query.start) > 1 else []
    if step["op"] == INTEGER:
        return _integer_buckets(step["field"], step["least"], step["most"])
    return _double_buckets(step["field"], step["low"], step["high"])


def _integer_buckets(field: int, minimum: int, maximum: int) -> list[Cover]:
    """Return the cover of one or two integer buckets that contain a range."""
    level = next((level for level in INTEGER_LEVELS if 16**level > maximum - minimum), None)
    if level is None or minimum > maximum:
        return []
    bucket_numbers = sorted({minimum >> 4 * level, maximum >> 4 * level})
    return [[(LITERAL, 0, f"w{field} {level} {bucket}") for bucket in bucket_numbers]]


def _double_buckets(field: int, low: float, high: float) -> list[Cover]:
    width = high - low
    level = next((level for level in DOUBLE_LEVELS if 16.0**level >= width), None)
    if level is None or not low <= high:
        return []
    first = math.floor(low / 16.0**level)
    last = math.floor(high / 16.0**level)
    if max(abs(first), abs(last)) >= _EXACT_DOUBLE_LIMIT:
        return []
    # The width is rounded, so that the range may overlap a third bucket.
    bucket_numbers = range(first, last + 1)
    return [[(LITERAL, 0, f"f{field} {level} {bucket}") for bucket in bucket_numbers]]
