"""The percolator in plain Python, and random documents and queries."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tidegate.patterns import And, Not, Or, Phrase, Prefix, Query, Range, SearchFields

FIELDS = SearchFields(
    text=["title", "body", "tag"],
    integer="views",
    double="price",
    time="at",
    default=["title", "body"],
)
SCHEMA = "doc int, title string, body string, tag string, views bigint, price double, at timestamp"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

_VOCABULARY = [
    *"aeiou",
    *["oil", "Oil", "OILS", "gas", "gasoline", "stock", "stocks", "e-mail", "e", "mail", "2026"],
    *[
        "Straße",
        "STRASSE",
        "ΟΔΟΣ",
        "οδοσ",
        "İstanbul",
        "été",
        "e\u0301te\u0301",
        "कि",
        "日本",
        "\U0001d4b3x",
    ],
]
_NUMBERS = [None, -(2**63), 2**63 - 1, 2**53 + 1, -17, -16, -1, 0, 1, 5, 16, 255, 256, 10**6]
_PRICES = [None, float("nan"), float("inf"), -1e300, -0.0, 0.0, 0.1, 1.5, 16.0, 1e-5, 1e17, 99.99]
_SEPARATORS = [" ", " ", " ", ", ", " - ", "\n", "/"]


def terms(text: str | None) -> list[str]:
    """Return the terms of a text."""
    lowered = (text or "").lower().replace("\u03c2", "\u03c3")
    separated = [char if unicodedata.category(char)[0] in "LMN" else " " for char in lowered]
    return "".join(separated).split()


def fits(query: Query, document: Mapping[str, object]) -> bool:
    """Return whether a document matches a query."""
    match query:
        case And(parts):
            return all(fits(part, document) for part in parts)
        case Or(parts):
            return any(fits(part, document) for part in parts)
        case Not(part):
            return not fits(part, document)
        case Range():
            return _in_range(query, document[query.field])
        case Phrase(field=None) | Prefix(field=None):
            text = query.text if isinstance(query, Phrase) else query.start
            return any(fits(type(query)(text, name), document) for name in FIELDS.defaults)
        case Prefix(start, field):
            of_document = terms(document[field])  # type: ignore[arg-type, index]
            return any(term.startswith(terms(start)[0]) for term in of_document)
        case Phrase(text, field):
            of_query = terms(text)
            of_document = terms(document[field])  # type: ignore[arg-type, index]
            return any(
                of_document[start : start + len(of_query)] == of_query
                for start in range(len(of_document))
            )


def _in_range(query: Range, value: object) -> bool:
    if value is None or value != value:
        return False
    bounds = [
        query.at_least is None or value >= query.at_least,  # type: ignore[operator]
        query.above is None or value > query.above,  # type: ignore[operator]
        query.at_most is None or value <= query.at_most,  # type: ignore[operator]
        query.below is None or value < query.below,  # type: ignore[operator]
    ]
    return all(bounds)


def document(random: Random, number: int) -> tuple[object, ...]:
    """Draw a document."""
    at = None if random.random() < 0.1 else moment(random)
    texts = [_text(random, most) for most in (4, 12, 1)]
    return (number, *texts, random.choice(_NUMBERS), random.choice(_PRICES), at)


def query(random: Random, depth: int = 3) -> Query:
    """Draw a query."""
    chance = random.random()
    if depth and chance < 0.55:
        parts = tuple(query(random, depth - 1) for _ in range(random.choice([2, 2, 3])))
        return And(parts) if chance < 0.35 else Or(parts)
    if depth and chance < 0.7:
        return Not(query(random, depth - 1))
    field = random.choice([None, None, "title", "body", "tag"])
    if chance > 0.9:
        return _range(random)
    word = random.choice(_VOCABULARY)
    if chance > 0.8 and word.replace("-", "") == word:
        return Prefix(word[: random.choice([1, 2, 3, 4, 5])], field)
    return Phrase(word if random.random() < 0.7 else f"{word} {random.choice(_VOCABULARY)}", field)


def moment(random: Random) -> datetime:
    """Draw a time."""
    return START + timedelta(seconds=random.randrange(100), microseconds=random.choice([0, 1]))


def _range(random: Random) -> Range:
    name = random.choice(["views", "price", "at"])
    drawn: dict[str, list[Any]] = {
        "views": [*_NUMBERS[1:], 0.5, -16.5, 1e30],
        "price": [*_PRICES[3:], 1, 2],
        "at": [moment(random), moment(random)],
    }
    lower, upper = sorted(random.choice(drawn[name]) for _ in range(2))
    bounds = {}
    if random.random() < 0.8:
        bounds[random.choice(["at_least", "above"])] = lower
    if not bounds or random.random() < 0.8:
        bounds[random.choice(["at_most", "below"])] = upper
    if len(bounds) == 2 and lower == upper:
        bounds = {"at_least": lower, "at_most": upper}
    return Range(name, **bounds)


def _text(random: Random, most: int) -> str | None:
    if random.random() < 0.05:
        return None
    words = [random.choice(_VOCABULARY) for _ in range(random.randrange(most + 1))]
    return "".join(word + random.choice(_SEPARATORS) for word in words)
