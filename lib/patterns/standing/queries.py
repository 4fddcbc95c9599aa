"""Standing queries as Python values; the text of each reads back as an equal value."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime

from ...errors import ArgumentError, ColumnTypeError

RESERVED = ("AND", "OR", "NOT")
FIELD = re.compile(r"[^\W\d]\w*")
_BARE = re.compile(r"[^\W_]+")
Bound = int | float | datetime


def has_term(text: str) -> bool:
    """Return whether a text has a letter or a digit."""
    return any(is_of_a_term(sign) for sign in text)


def is_of_a_term(sign: str) -> bool:
    """Return whether a character is a letter, a mark on one, or a digit."""
    return unicodedata.category(sign)[0] in "LMN"


@dataclass(frozen=True)
class Words:
    """The terms of `text`, one directly after another; one term, or a phrase.

    Without a field they are looked for in each default field.

    >>> str(Words("stock market", "title"))
    'title:"stock market"'
    """

    text: str
    field: str | None = None

    def __post_init__(self) -> None:
        _require_field(self.field)
        if not isinstance(self.text, str) or not has_term(self.text) or '"' in self.text:
            raise ArgumentError(
                f"text is {self.text!r}.", 'text with a letter or a digit, and without ".'
            )

    def __str__(self) -> str:
        reserved = self.text.upper() in RESERVED
        plain = _BARE.fullmatch(self.text) and not reserved
        return _of(self.field) + (self.text if plain else f'"{self.text}"')


@dataclass(frozen=True)
class Prefix:
    """A term that begins with `start`.

    >>> str(Prefix("mark"))
    'mark*'
    """

    start: str
    field: str | None = None

    def __post_init__(self) -> None:
        _require_field(self.field)
        text = isinstance(self.start, str) and self.start
        if not text or not all(map(is_of_a_term, self.start)):
            raise ArgumentError(f"start is {self.start!r}.", "letters and digits alone.")

    def __str__(self) -> str:
        return f"{_of(self.field)}{self.start}*"


@dataclass(frozen=True)
class Range:
    """A number or a time within bounds, of which one at least is given.

    Times are datetimes with a zone. A document without a value is in no range.

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
            raise ArgumentError("a range has no field.", "the field's name.")
        _require_field(self.field)
        lower = [bound for bound in (self.at_least, self.above) if bound is not None]
        upper = [bound for bound in (self.at_most, self.below) if bound is not None]
        for bound in (*lower, *upper):
            _require_bound(bound)
        if max(len(lower), len(upper)) > 1 or not lower + upper:
            raise ArgumentError(
                f"the range of {self.field!r} has {len(lower)} lower and {len(upper)} upper "
                "bounds.",
                "one of at_least and above, one of at_most and below, or one of all.",
            )
        kinds = {isinstance(bound, datetime) for bound in (*lower, *upper)}
        if len(kinds) > 1:
            raise ColumnTypeError(
                f"the range of {self.field!r} is from {lower[0]!r} to {upper[0]!r}.",
                "two numbers, or two times.",
            )

    def __str__(self) -> str:
        lower = self.at_least if self.above is None else self.above
        upper = self.at_most if self.below is None else self.below
        name = _of(self.field)
        if upper is None and lower is not None:
            return f"{name}{'>=' if self.above is None else '>'}{_told(lower)}"
        if lower is None and upper is not None:
            return f"{name}{'<=' if self.below is None else '<'}{_told(upper)}"
        if self.at_least is not None and _told(self.at_least) == _told(self.at_most):
            return f"{name}{_told(self.at_least)}"
        begin = "[" if self.above is None else "{"
        end = "]" if self.below is None else "}"
        return f"{name}{begin}{_told(lower)} TO {_told(upper)}{end}"


@dataclass(frozen=True)
class And:
    """All of the parts, of which there are two or more.

    >>> str(And((Words("oil"), Not(Words("olive")))))
    'oil AND NOT olive'
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.parts))

    def __str__(self) -> str:
        return " AND ".join(map(_within, self.parts))


@dataclass(frozen=True)
class Or:
    """One of the parts at least, of which there are two or more.

    >>> str(Or((Words("oil"), Prefix("gas"))))
    'oil OR gas*'
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.parts))

    def __str__(self) -> str:
        return " OR ".join(map(_within, self.parts))


@dataclass(frozen=True)
class Not:
    """All documents but those of the part.

    >>> str(Not(Words("rain")))
    'NOT rain'
    """

    part: Query

    def __post_init__(self) -> None:
        _require_query(self.part)

    def __str__(self) -> str:
        return f"NOT {_within(self.part)}"


Query = Words | Prefix | Range | And | Or | Not
"""What `parse_query` returns."""


def _parts(given: object) -> tuple[Query, ...]:
    if not isinstance(given, tuple | list) or len(given) < 2:
        raise ArgumentError(f"parts is {given!r}.", "two queries or more.")
    return tuple(map(_require_query, given))


def _require_query(given: object) -> Query:
    if not isinstance(given, Words | Prefix | Range | And | Or | Not):
        raise ColumnTypeError(
            f"a part is {given!r}, a {type(given).__name__}.",
            "Words, Prefix, Range, And, Or, Not.",
            'Words("oil")',
        )
    return given


def _require_field(name: object) -> None:
    if name is not None and (not isinstance(name, str) or not FIELD.fullmatch(name)):
        raise ArgumentError(
            f"field is {name!r}.", "a name of letters, digits and _ that begins with no digit."
        )


def _require_bound(bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | float | datetime):
        raise ColumnTypeError(f"a bound is {bound!r}.", "a number, or a datetime with a zone.")
    if isinstance(bound, float) and not math.isfinite(bound):
        raise ArgumentError(f"a bound is {bound!r}.", "a finite number; leave out the bound.")
    if isinstance(bound, datetime) and bound.tzinfo is None:
        raise ArgumentError(f"a bound is {bound!r}.", "a datetime with a zone.")


def _within(part: Query) -> str:
    return f"({part})" if isinstance(part, And | Or) else str(part)


def _of(field: str | None) -> str:
    return "" if field is None else f"{field}:"


def _told(bound: Bound | None) -> str:
    if isinstance(bound, datetime):
        return bound.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return repr(bound)
