"""The parser of the query language.

query  = all { "OR" all }
all    = one { [ "AND" ] one }
one    = "NOT" one | "(" query ")" | [ field ":" ] match
match  = word | word "*" | '"' words '"' | "(" query ")" | value
       | ( ">=" | ">" | "<=" | "<" ) value
       | ( "[" | "{" ) ( value | "*" ) "TO" ( value | "*" ) ( "]" | "}" )
value  = number | date | date "T" time zone
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from ...errors import ArgumentError, TidegateError
from .query_terms import RESERVED_WORDS, And, Bound, Not, Or, Phrase, Prefix, Query, Range, has_term
from .search_fields import SearchFields

_TIME_PATTERN = r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d))?"
_TOKEN = re.compile(
    rf'\s*(?:"(?P<quoted>[^"]*)"|(?P<time>{_TIME_PATTERN})(?=[\s()\[\]{{}}"]|$)'
    r'|(?P<sign>>=|<=|[()\[\]{}:<>])|(?P<word>[^\s()\[\]{}":<>=]+))'
)
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")

MAX_LENGTH = 65_536
MAX_DEPTH = 40
MAX_CLAUSES = 1_000
_OPERATORS = set("&|!^~*?\\/+")
_BOUND_FIELDS = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}
_WORD_HINT = "a word of letters and digits, or other text in quotes"


@dataclass(frozen=True)
class Token:
    """A token and its position in the text; the last token has the kind "end"."""

    kind: str
    text: str
    position: int
    length: int

    @property
    def display_text(self) -> str:
        """The token as text for an error message."""
        return "the end" if self.kind == "end" else repr(self.text)


class QuerySyntaxError(Exception):
    """A syntax error in a query text, at a token."""

    def __init__(self, token: Token, problem: str, allowed: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.token = token
        self.problem = problem
        self.allowed = allowed
        self.hint = hint

    @property
    def message(self) -> str:
        """The error as one line, with the position counted from 1."""
        location = f"invalid query at character {self.token.position + 1}"
        expected = f"; expected: {self.allowed}" if self.allowed else ""
        hint = f"; try: {self.hint}" if self.hint else ""
        return f"{location}: {self.token.display_text} {self.problem}{expected}{hint}"

    def with_marker(self, text: str) -> str:
        """Return the error with the text of the query, and a marker below the token."""
        line = re.sub(r"\s", " ", text)
        marker = " " * self.token.position + "^" * max(1, self.token.length)
        error = f"invalid query: {self.token.display_text} {self.problem}"
        return f"{error}\n    {line}\n    {marker}"


def tokenize(text: str) -> Iterator[Token]:
    """Return the tokens of a text."""
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            yield Token("invalid", text[start], start, 1)
            return
        kind = str(match.lastgroup)
        quotes = 1 if kind == "quoted" else 0
        start = match.start(kind) - quotes
        length = len(match[kind]) + 2 * quotes
        yield Token(kind, match[kind], start, length)
        position = match.end()
    yield Token("end", "", len(text), 1)


def parse_number(token: Token) -> Bound | None:
    """Return the number of a token; None for another token."""
    if token.kind != "word" or not _NUMBER.fullmatch(token.text) or not token.text.isascii():
        return None
    if re.fullmatch(r"[-+]?\d{1,30}", token.text):
        return int(token.text)
    value = float(token.text)
    return value if math.isfinite(value) else None


def parse_time(token: Token) -> Bound | None:
    """Return the time of a token; None for another token."""
    if token.kind != "time":
        return None
    try:
        value = datetime.fromisoformat(token.text)
    except ValueError:
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def parse_query(text: str, fields: SearchFields) -> Query:
    """Parse the text of a standing query; raise an error with its position if it is invalid.

    Adjacent clauses are combined with AND, which binds more tightly than OR. A word with
    punctuation, such as `e-mail`, is a phrase of its terms. A date without a time is midnight in
    UTC. Operators of similar languages (+ - && || ! ~ ^ ?) and lower-case and, or, not raise an
    error, so that they are never searched as words by mistake; quote them to search for them.

    Args:
        text: the query.
        fields: the fields of the documents.

    Raises:
        ArgumentError: for a syntax error, with a marker at its position; for more than 65,536
            characters, 40 levels of nesting, or 1,000 words, prefixes and ranges (a word without a
            field counts once for each default field).

    >>> fields = SearchFields(text=["title", "body"], double="price")
    >>> str(parse_query('title:"Stock  Market" (oil OR gas*) price:[10 TO 20}', fields))
    'title:"Stock  Market" AND (oil OR gas*) AND price:[10 TO 20}'
    >>> parse_query("oil AND prise:5", fields)
    Traceback (most recent call last):
    tidegate.errors.ArgumentError: invalid query: 'prise' is not a field
        oil AND prise:5
                ^^^^^
      expected: title, body, price
      try: price
    """
    if not isinstance(text, str):
        raise ArgumentError(f"invalid query: {text!r}", "text", 'str(Phrase("oil"))')
    try:
        return parse(text, fields)
    except QuerySyntaxError as fault:
        raise ArgumentError(fault.with_marker(text), fault.allowed, fault.hint) from None


def parse(text: str, fields: SearchFields) -> Query:
    """Parse a query; raise QuerySyntaxError for an invalid text."""
    if len(text) > MAX_LENGTH:
        token = Token("word", text[MAX_LENGTH : MAX_LENGTH + 20], MAX_LENGTH, 20)
        raise QuerySyntaxError(token, f"exceeds the limit of {MAX_LENGTH:,} characters")
    return _QueryParser(text, fields).parse()


class _QueryParser:
    """A recursive descent parser of one text."""

    def __init__(self, text: str, fields: SearchFields) -> None:
        self._tokens = list(tokenize(text))
        self._position = 0
        self._fields = fields
        self._nesting_depth = 0
        self._clause_count = 0

    def parse(self) -> Query:
        if self._current.kind == "end":
            raise self._error("is at the start", "at least one word")
        query = self._or(None)
        if self._current.kind != "end":
            raise self._error("is unexpected", "AND, OR, NOT, a word or a field")
        return query

    def _error(self, problem: str, allowed: str) -> QuerySyntaxError:
        return QuerySyntaxError(self._current, problem, allowed)

    @property
    def _current(self) -> Token:
        return self._tokens[self._position]

    def _next_token(self) -> Token:
        token = self._current
        self._position += token.kind != "end"
        return token

    def _peek_is(self, word: str) -> bool:
        return self._current.kind in ("word", "sign") and self._current.text == word

    def _or(self, field: str | None) -> Query:
        parts = [self._and(field)]
        while self._peek_is("OR"):
            self._next_token()
            parts.append(self._and(field))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self, field: str | None) -> Query:
        parts = [self._primary(field)]
        while not (self._current.kind == "end" or self._peek_is("OR") or self._peek_is(")")):
            if self._peek_is("AND"):
                self._next_token()
            parts.append(self._primary(field))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _primary(self, field: str | None) -> Query:
        if self._peek_is("NOT"):
            return self._nested(lambda: Not(self._primary(field)))
        if self._peek_is("("):
            return self._nested(lambda: self._group(field))
        following = self._tokens[min(self._position + 1, len(self._tokens) - 1)]
        if self._current.kind == "word" and following.text == ":" and following.kind == "sign":
            return self._field_clause()
        return self._clause(field)

    def _nested(self, parse_inner: Callable[[], Query]) -> Query:
        token = self._next_token()
        self._nesting_depth += 1
        if self._nesting_depth > MAX_DEPTH:
            allowed = f"at most {MAX_DEPTH} levels of ( ) and NOT"
            raise QuerySyntaxError(token, "is nested too deeply", allowed)
        query = parse_inner()
        self._nesting_depth -= 1
        return query

    def _group(self, field: str | None) -> Query:
        if self._peek_is(")"):
            raise self._error("closes an empty ( )", "at least one word")
        query = self._or(field)
        if not self._peek_is(")"):
            raise self._error("follows an unclosed (", "')'")
        self._next_token()
        return query

    def _field_clause(self) -> Query:
        name = self._next_token()
        if self._fields.field_type(name.text) is None:
            close_matches = get_close_matches(name.text, self._fields.all, 1, 0.5)
            hint = close_matches[0] if close_matches else f'"{name.text}:..." to search for text'
            raise QuerySyntaxError(name, "is not a field", ", ".join(self._fields.all), hint)
        self._next_token()
        if self._peek_is("("):
            return self._nested(lambda: self._group(name.text))
        return self._clause(name.text)

    def _clause(self, field: str | None) -> Query:
        defaults = self._fields.defaults
        if field is None and not defaults:
            raise self._error("has no field, and no default field exists", "field:value")
        self._clause_count += len(defaults) if field is None else 1
        if self._clause_count > MAX_CLAUSES:
            allowed = f"at most {MAX_CLAUSES:,} words, prefixes and ranges"
            raise self._error("exceeds the limit of clauses", allowed)
        if field is None or self._fields.field_type(field) == "text":
            return self._text(field)
        return self._range(field)

    def _text(self, field: str | None) -> Query:
        token = self._next_token()
        if token.kind == "quoted":
            if not has_term(token.text):
                raise QuerySyntaxError(token, "has no term", "at least one letter or digit")
            return Phrase(token.text, field)
        if token.kind == "invalid" and token.text == '"':
            raise QuerySyntaxError(token, "is an unclosed quote", 'a closing "')
        if token.kind == "sign" and token.text in ("[", "{", *_BOUND_FIELDS):
            allowed = "ranges of numbers and times only"
            raise QuerySyntaxError(token, "begins a range of text", allowed)
        if token.kind not in ("word", "time"):
            hint = "field:value" if token.text == "=" else ""
            raise QuerySyntaxError(token, "is not a word", _WORD_HINT, hint)
        if token.text.upper() in RESERVED_WORDS:
            upper = token.text.upper()
            problem = "has no operand" if token.text == upper else "is not an operator"
            hint = f'{upper}, or "{token.text}" in quotes for the word'
            raise QuerySyntaxError(token, problem, _WORD_HINT, hint)
        return self._word(token, field)

    def _word(self, token: Token, field: str | None) -> Query:
        start = token.text.removesuffix("*")
        is_invalid = _OPERATORS.intersection(start) or start.startswith("-") or token.kind == "time"
        if start != token.text and start and not is_invalid:
            try:
                return Prefix(start, field)
            except TidegateError:
                allowed = "letters and digits, followed by one *"
                raise QuerySyntaxError(token, "is not a prefix", allowed) from None
        if is_invalid or not has_term(start):
            negated = start.startswith(("-", "!")) and has_term(start)
            hint = f"NOT {start[1:]}" if negated else f'"{token.text}"' * has_term(start)
            raise QuerySyntaxError(token, "is not a word", _WORD_HINT, hint)
        return Phrase(start, field)

    def _range(self, field: str) -> Query:
        first = self._next_token()
        if first.kind == "sign" and first.text in _BOUND_FIELDS:
            bound = self._value(self._next_token(), field)
            return Range(field, **{_BOUND_FIELDS[first.text]: bound})
        if first.kind != "sign" or first.text not in "[{":
            value = self._value(first, field)
            return Range(field, at_least=value, at_most=value)
        lower = self._open_value(field)
        if not self._peek_is("TO"):
            raise self._error("is not TO between the bounds of a range", "TO, as in [1 TO 2]")
        self._next_token()
        upper = self._open_value(field)
        last = self._next_token()
        if last.kind != "sign" or last.text not in "]}":
            allowed = "']' (inclusive) or '}' (exclusive)"
            raise QuerySyntaxError(last, "does not close a range", allowed)
        if lower is None and upper is None:
            raise QuerySyntaxError(first, "begins a range without bounds", "at least one bound")
        bounds = {"at_least" if first.text == "[" else "above": lower}
        bounds["at_most" if last.text == "]" else "below"] = upper
        if lower is not None and upper is not None:
            is_closed = first.text == "[" and last.text == "]"
            is_empty = lower > upper if is_closed else lower >= upper  # type: ignore[operator]
            if is_empty:
                allowed = "a lower bound below the upper bound"
                raise QuerySyntaxError(first, "begins an empty range", allowed)
        return Range(field, **bounds)

    def _open_value(self, field: str) -> Bound | None:
        token = self._next_token()
        is_open = token.kind == "word" and token.text == "*"
        return None if is_open else self._value(token, field)

    def _value(self, token: Token, field: str) -> Bound:
        is_time = self._fields.field_type(field) == "time"
        value = parse_time(token) if is_time else parse_number(token)
        if value is None and is_time:
            allowed = "a date or a time with a time zone: 2026-01-31, 2026-01-31T10:00:00Z"
            raise QuerySyntaxError(token, "is not a time", allowed)
        if value is None:
            raise QuerySyntaxError(token, "is not a number", "a number, such as -1.5")
        return value
