"""A query as a program over a document, and the keys that a document of it must have.

Pure Python: what is left to Spark's expressions is how texts become terms (`_terms`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from ...durations import since_1970
from .fields import SearchFields
from .queries import And, Bound, Not, Or, Prefix, Query, Range, Words, has_term

WORDS, PREFIX, WHOLE, FRACTION, AND, OR, NOT = range(7)
"""What a step of a program does: a test that pushes its answer, or an operator on those before."""

TERM, HEAD, READY = range(3)
"""What a key is made of: a term of a text, the head of one, or nothing more."""

ALL = "*"
"""The key of every document: of the fallback list."""

WHOLE_LEVELS = range(16)
FRACTION_LEVELS = range(-4, 14)
"""Numbers lie in buckets of 16 ** level."""

_LONG = 2**63
_EXACT = 2**53

Step = dict[str, Any]
Cover = list[tuple[int, int, str]]
"""Keys (what, field, text), of which each document of the query has one at least."""


TESTS = 6
"""So many tests have 64 combinations of answers: a bit of a BIGINT for each."""


@dataclass(frozen=True)
class Program:
    """What decides whether a document is one of a query's, and the query's covers.

    steps: the tests alone, of up to six; else tests and operators in postfix order.
    table: of up to six tests, the truth table: bit n is the outcome where the bits of n are the
        answers of the tests, the first test's the lowest.
    covers: one is chosen to be indexed by.
    """

    steps: list[Step]
    table: int | None
    covers: list[Cover]


def program(query: Query, fields: SearchFields) -> Program:
    """Compile a query that was read for these fields."""
    spread = _spread(query, fields)
    steps: list[Step] = []
    _add(spread, fields, steps)
    covers = _covers(spread, fields) or [[(READY, 0, ALL)]]
    tests = [step for step in steps if step["op"] not in (AND, OR, NOT)]
    if len(tests) > TESTS:
        return Program(steps, None, covers)
    return Program(tests, _table(steps), covers)


def _table(steps: list[Step]) -> int:
    """Return the truth table: the program run once for all combinations of answers."""
    every = range(2**TESTS)
    answers = (sum(1 << n for n in every if n >> test & 1) for test in range(TESTS))
    stack: list[int] = []
    for step in steps:
        if step["op"] == NOT:
            stack.append(~stack.pop())
        elif step["op"] in (AND, OR):
            last = stack.pop()
            stack.append(stack.pop() & last if step["op"] == AND else stack.pop() | last)
        else:
            stack.append(next(answers))
    found = stack.pop() % 2**64
    return found - 2**64 if found >= _LONG else found


def _spread(query: Query, fields: SearchFields) -> Query:
    """Put the default fields in place of none."""
    if isinstance(query, And | Or):
        return type(query)(tuple(_spread(part, fields) for part in query.parts))
    if isinstance(query, Not):
        return Not(_spread(query.part, fields))
    if isinstance(query, Range) or query.field is not None:
        return query
    own = query.text if isinstance(query, Words) else query.start
    each = tuple(type(query)(own, name) for name in fields.defaults)
    return each[0] if len(each) == 1 else Or(each)


def _add(query: Query, fields: SearchFields, steps: list[Step]) -> None:
    if isinstance(query, Not):
        _add(query.part, fields, steps)
        steps.append({"op": NOT})
    elif isinstance(query, And | Or):
        _add(query.parts[0], fields, steps)
        for part in query.parts[1:]:
            _add(part, fields, steps)
            steps.append({"op": AND if isinstance(query, And) else OR})
    else:
        steps.append(_test(query, fields))


def _test(query: Words | Prefix | Range, fields: SearchFields) -> Step:
    if isinstance(query, Words):
        return {"op": WORDS, "field": fields.text.index(str(query.field)), "raw": query.text}
    if isinstance(query, Prefix):
        return {"op": PREFIX, "field": fields.text.index(str(query.field)), "raw": query.start}
    if query.field in fields.fraction:
        low, high = _fractions(query)
        return {
            "op": FRACTION,
            "field": fields.fraction.index(query.field),
            "low": low,
            "high": high,
        }
    least, most = _wholes(query)
    place = [*fields.whole, *fields.time].index(query.field)
    return {"op": WHOLE, "field": place, "least": least, "most": most}


def _wholes(query: Range) -> tuple[int, int]:
    """Return the bounds, both inclusive, as BIGINT has them; a range beyond is empty: (1, 0)."""
    least = -_LONG
    most = _LONG - 1
    if query.at_least is not None:
        least = max(least, math.ceil(_number(query.at_least)))
    if query.above is not None:
        least = max(least, math.floor(_number(query.above)) + 1)
    if query.at_most is not None:
        most = min(most, math.floor(_number(query.at_most)))
    if query.below is not None:
        most = min(most, math.ceil(_number(query.below)) - 1)
    return (least, most) if least <= most else (1, 0)


def _fractions(query: Range) -> tuple[float, float]:
    """Return the bounds, both inclusive."""
    low = -math.inf
    high = math.inf
    if query.at_least is not None:
        low = float(_number(query.at_least))
    if query.above is not None:
        low = math.nextafter(float(_number(query.above)), math.inf)
    if query.at_most is not None:
        high = float(_number(query.at_most))
    if query.below is not None:
        high = math.nextafter(float(_number(query.below)), -math.inf)
    return low, high


def _number(bound: Bound) -> int | float:
    """Return a bound as a number; a time is in microseconds since 1970."""
    if isinstance(bound, datetime):
        return since_1970(bound)
    return bound


def _covers(query: Query, fields: SearchFields, negated: bool = False) -> list[Cover]:
    """List the covers of a query, or of its negation; none where nothing is required."""
    if isinstance(query, Not):
        return _covers(query.part, fields, not negated)
    if isinstance(query, And | Or):
        parts = [_covers(part, fields, negated) for part in query.parts]
        if isinstance(query, And) is not negated:
            return [cover for each in parts for cover in each]
        if not all(parts):
            return []
        # A document has any one of the parts, so a key of each; the best that a look at the text
        # alone can tell.
        best = [min(each, key=_weight) for each in parts]
        return [list(dict.fromkeys(chain.from_iterable(best)))]
    return [] if negated else _keys(query, fields)


def _weight(cover: Cover) -> tuple[bool, int, int]:
    """Return what is less for keys that are likely to be rare: few of them, and long ones."""
    of_texts = [len(text) for what, _, text in cover if what != READY]
    return len(of_texts) < len(cover), len(cover), -min(of_texts, default=0)


def _keys(query: Words | Prefix | Range, fields: SearchFields) -> list[Cover]:
    if isinstance(query, Words):
        place = fields.text.index(str(query.field))
        return [[(TERM, place, word)] for word in query.text.split() if has_term(word)]
    if isinstance(query, Prefix):
        place = fields.text.index(str(query.field))
        return [[(HEAD, place, query.start)]] if len(query.start) > 1 else []
    step = _test(query, fields)
    if step["op"] == WHOLE:
        return _buckets(step["field"], step["least"], step["most"])
    return _fraction_buckets(step["field"], step["low"], step["high"])


def _buckets(field: int, least: int, most: int) -> list[Cover]:
    """Return the one or two buckets of whole numbers that hold a range, of the level that fits."""
    level = next((level for level in WHOLE_LEVELS if 16**level > most - least), None)
    if level is None or least > most:
        return []
    found = sorted({least >> 4 * level, most >> 4 * level})
    return [[(READY, 0, f"w{field} {level} {bucket}") for bucket in found]]


def _fraction_buckets(field: int, low: float, high: float) -> list[Cover]:
    width = high - low
    level = next((level for level in FRACTION_LEVELS if 16.0**level >= width), None)
    if level is None or not low <= high:
        return []
    first = math.floor(low / 16.0**level)
    last = math.floor(high / 16.0**level)
    if max(abs(first), abs(last)) >= _EXACT:
        return []
    # The width is rounded, so that a range of that width may reach into a third bucket.
    found = range(first, last + 1)
    return [[(READY, 0, f"f{field} {level} {bucket}") for bucket in found]]
