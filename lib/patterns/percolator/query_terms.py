"""The syntax tree of standing queries; `str` of a node parses to an equal node."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime

from ...errors import ArgumentError, ColumnTypeError

RESERVED_WORDS = ("AND", "OR", "NOT")
FIELD_PATTERN = re.compile(r"[^\W\d]\w*")
_BARE_WORD = re.compile(r"[^\W_]+")
Bound = int | float | datetime


def has_term(text: str) -> bool:
    """Return whether a text has a letter or a digit."""
    return any(is_term_character(character) for character in text)


def is_term_character(character: str) -> bool:
    """Return whether a character is a letter, a mark on one, or a digit."""
    return unicodedata.category(character)[0] in "LMN"


@dataclass(frozen=True)
class Phrase:
    """One term, or several consecutive terms; without a field, in each default field.

    >>> str(Phrase("stock market", "title"))
    'title:"stock market"'
    """

    text: str
    field: str | None = None

    def __post_init__(self) -> None:
        _require_field(self.field)
        if not isinstance(self.text, str) or not has_term(self.text) or '"' in self.text:
            raise ArgumentError(
                f"invalid text: {self.text!r}", 'text with a letter or digit, and without "'
            )

    def __str__(self) -> str:
        is_reserved = self.text.upper() in RESERVED_WORDS
        is_bare = _BARE_WORD.fullmatch(self.text) and not is_reserved
        return _field_prefix(self.field) + (self.text if is_bare else f'"{self.text}"')


@dataclass(frozen=True)
class Prefix:
    """A term with a prefix.

    >>> str(Prefix("mark"))
    'mark*'
    """

    start: str
    field: str | None = None

    def __post_init__(self) -> None:
        _require_field(self.field)
        text = isinstance(self.start, str) and self.start
        if not text or not all(map(is_term_character, self.start)):
            raise ArgumentError(f"invalid start: {self.start!r}", "only letters and digits")

    def __str__(self) -> str:
        return f"{_field_prefix(self.field)}{self.start}*"


@dataclass(frozen=True)
class Range:
    """A number or a time within bounds; at least one bound is required.

    Times are datetimes with a time zone. A document with a null value does not match.

    >>> str(Range("price", at_least=10, below=20))
    'price:[10 TO 20}'
    """

    field: str
    _: KW_ONLY
    at_least: Bound | None = None
    above: Bound | None = None
    at_most: Bound | None = None
    below: Bound | None = None

    def __post_init__(self) -> None:
        if self.field is None:
            raise ArgumentError("invalid field: None", "a field name", 'Range("price", below=20)')
        _require_field(self.field)
        lower = [bound for bound in (self.at_least, self.above) if bound is not None]
        upper = [bound for bound in (self.at_most, self.below) if bound is not None]
        for bound in (*lower, *upper):
            _require_bound(bound)
        if max(len(lower), len(upper)) > 1 or not lower + upper:
            raise ArgumentError(
                f"invalid bounds of {self.field!r}: {len(lower)} lower and {len(upper)} upper",
                "at least one bound; at most one of at_least and above, and of at_most and below",
                f"Range({self.field!r}, at_least=1, below=5)",
            )
        kinds = {isinstance(bound, datetime) for bound in (*lower, *upper)}
        if len(kinds) > 1:
            raise ColumnTypeError(
                f"invalid bounds of {self.field!r}: {lower[0]!r}, {upper[0]!r}",
                "two numbers, or two times",
            )

    def __str__(self) -> str:
        lower = self.at_least if self.above is None else self.above
        upper = self.at_most if self.below is None else self.below
        name = _field_prefix(self.field)
        if upper is None:
            return f"{name}{'>=' if self.above is None else '>'}{_format_bound(lower)}"
        if lower is None:
            return f"{name}{'<=' if self.below is None else '<'}{_format_bound(upper)}"
        if _format_bound(self.at_least) == _format_bound(self.at_most) != "None":
            return f"{name}{_format_bound(lower)}"
        begin = "[" if self.above is None else "{"
        end = "]" if self.below is None else "}"
        return f"{name}{begin}{_format_bound(lower)} TO {_format_bound(upper)}{end}"


@dataclass(frozen=True)
class And:
    """The conjunction of two or more queries.

    >>> str(And((Phrase("oil"), Not(Phrase("olive")))))
    'oil AND NOT olive'
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _require_parts(self.parts))

    def __str__(self) -> str:
        return " AND ".join(map(_parenthesized, self.parts))


@dataclass(frozen=True)
class Or:
    """The disjunction of two or more queries.

    >>> str(Or((Phrase("oil"), Prefix("gas"))))
    'oil OR gas*'
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _require_parts(self.parts))

    def __str__(self) -> str:
        return " OR ".join(map(_parenthesized, self.parts))


@dataclass(frozen=True)
class Not:
    """The negation of a query.

    >>> str(Not(Phrase("rain")))
    'NOT rain'
    """

    part: Query

    def __post_init__(self) -> None:
        _require_query(self.part)

    def __str__(self) -> str:
        return f"NOT {_parenthesized(self.part)}"


Query = Phrase | Prefix | Range | And | Or | Not
"""A query, as `parse_query` returns it."""


def _require_parts(value: object) -> tuple[Query, ...]:
    if not isinstance(value, tuple | list) or len(value) < 2:
        hint = 'And((Phrase("oil"), Phrase("gas")))'
        raise ArgumentError(f"invalid parts: {value!r}", "two or more queries", hint)
    return tuple(map(_require_query, value))


def _require_query(value: object) -> Query:
    if not isinstance(value, Phrase | Prefix | Range | And | Or | Not):
        raise ColumnTypeError(
            f"invalid query: {value!r}", "Phrase, Prefix, Range, And, Or or Not", 'Phrase("oil")'
        )
    return value


def _require_field(name: object) -> None:
    if name is not None and (not isinstance(name, str) or not FIELD_PATTERN.fullmatch(name)):
        raise ArgumentError(
            f"invalid field: {name!r}",
            "a name of letters, digits and _ that does not begin with a digit",
        )


def _require_bound(bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | float | datetime):
        raise ColumnTypeError(
            f"invalid bound: {bound!r}", "a number, or a datetime with a time zone"
        )
    if isinstance(bound, float) and not math.isfinite(bound):
        raise ArgumentError(
            f"invalid bound: {bound!r}", "a finite number", "omit the bound for an open range"
        )
    if isinstance(bound, datetime) and bound.tzinfo is None:
        raise ArgumentError(f"invalid bound: {bound!r}", "a datetime with a time zone")


def _parenthesized(part: Query) -> str:
    return f"({part})" if isinstance(part, And | Or) else str(part)


def _field_prefix(field: str | None) -> str:
    return "" if field is None else f"{field}:"


def _format_bound(bound: Bound | None) -> str:
    if isinstance(bound, datetime):
        return bound.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return repr(bound)
