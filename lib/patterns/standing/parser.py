"""The language of standing queries: a text becomes a value, and nothing of it is run.

query  = all { "OR" all }
all    = one { [ "AND" ] one }
one    = "NOT" one | "(" query ")" | [ field ":" ] match
match  = word | word "*" | '"' words '"' | "(" query ")" | value
       | ( ">=" | ">" | "<=" | "<" ) value
       | ( "[" | "{" ) ( value | "*" ) "TO" ( value | "*" ) ( "]" | "}" )
value  = number | date | date "T" time zone
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from ...errors import ArgumentError, TidegateError
from ._bounds import moment, number, ordered
from ._reading import FaultError, Token, tokens
from .fields import SearchFields
from .queries import And, Bound, Not, Or, Prefix, Query, Range, Words, has_term

LONGEST = 65_536
DEEPEST = 40
MOST = 1_000
_OPERATORS = set("&|!^~*?\\/+")
_SIDES = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}
_QUOTES = "a word of letters and digits; any other text in quotes"


def parse_query(text: str, fields: SearchFields) -> Query:
    """Return the query that a text says.

    Words that follow one another are all wanted; AND binds more than OR. A word with signs inside
    it, such as `e-mail`, is a phrase of its terms. A date alone is its midnight in UTC. Signs that
    are operators in other languages of this kind (+ - && || ! ~ ^ ?) are refused, and so are and,
    or, not in small letters, so that none passes for a word without notice.

    Raises:
        ArgumentError: with the text and a mark at the place; also for more than 65,536 characters,
            1,000 words, prefixes and ranges (one in each default field counts for itself) or 40
            levels.

    >>> fields = SearchFields(text=["title", "body"], fraction="price")
    >>> str(parse_query('title:"Stock  Market" (oil OR gas*) price:[10 TO 20}', fields))
    'title:"Stock  Market" AND (oil OR gas*) AND price:[10 TO 20}'
    >>> parse_query("oil AND prise:5", fields)
    Traceback (most recent call last):
    tidegate.errors.ArgumentError: the query is 'oil AND prise:5', where 'prise' is no field:
        oil AND prise:5
                ^^^^^
      allowed: title, body, price.
      instead: price
    """
    if not isinstance(text, str):
        raise ArgumentError(f"the query is {text!r}.", "text.", 'Words("oil") is str(...) as text.')
    try:
        return read(text, fields)
    except FaultError as fault:
        raise ArgumentError(fault.marked(text), fault.allowed, fault.hint) from None


def read(text: str, fields: SearchFields) -> Query:
    """Return the query that a text says; raise FaultError where it says none."""
    if len(text) > LONGEST:
        past = Token("word", text[LONGEST : LONGEST + 20], LONGEST, 20)
        raise FaultError(past, f"is past the limit of {LONGEST:,} characters")
    return _Reader(text, fields).read()


class _Reader:
    """Reads one text from its first piece to its last."""

    def __init__(self, text: str, fields: SearchFields) -> None:
        self._tokens = list(tokens(text))
        self._next = 0
        self._fields = fields
        self._depth = 0
        self._matches = 0

    def read(self) -> Query:
        if self._here.kind == "end":
            raise FaultError(self._here, "is all there is", "a word at least.")
        found = self._any(None)
        if self._here.kind != "end":
            raise FaultError(self._here, "cannot stand here", "AND, OR, NOT, a word, a field.")
        return found

    @property
    def _here(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._here
        self._next += token.kind != "end"
        return token

    def _says(self, word: str) -> bool:
        return self._here.kind in ("word", "sign") and self._here.text == word

    def _any(self, field: str | None) -> Query:
        parts = [self._all(field)]
        while self._says("OR"):
            self._take()
            parts.append(self._all(field))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, field: str | None) -> Query:
        parts = [self._one(field)]
        while not (self._here.kind == "end" or self._says("OR") or self._says(")")):
            if self._says("AND"):
                self._take()
            parts.append(self._one(field))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, field: str | None) -> Query:
        if self._says("NOT"):
            return self._deeper(lambda: Not(self._one(field)))
        if self._says("("):
            return self._deeper(lambda: self._group(field))
        following = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        if self._here.kind == "word" and following.text == ":" and following.kind == "sign":
            return self._fielded()
        return self._match(field)

    def _deeper(self, read: Callable[[], Query]) -> Query:
        token = self._take()
        self._depth += 1
        if self._depth > DEEPEST:
            raise FaultError(token, "is too deep", f"{DEEPEST} levels of ( ) and NOT.")
        found = read()
        self._depth -= 1
        return found

    def _group(self, field: str | None) -> Query:
        if self._says(")"):
            raise FaultError(self._here, "closes an empty ( )", "a word at least.")
        found = self._any(field)
        if not self._says(")"):
            raise FaultError(self._here, "stands where a ( is open", "')'.")
        self._take()
        return found

    def _fielded(self) -> Query:
        name = self._take()
        if self._fields.kind(name.text) is None:
            near = get_close_matches(name.text, self._fields.all, 1, 0.5)
            hint = near[0] if near else f'"{name.text}:..." where it is a text.'
            raise FaultError(name, "is no field", f"{', '.join(self._fields.all)}.", hint)
        self._take()
        if self._says("("):
            return self._deeper(lambda: self._group(name.text))
        return self._match(name.text)

    def _match(self, field: str | None) -> Query:
        token = self._here
        kind = "text" if field is None else self._fields.kind(field)
        defaults = self._fields.defaults
        if field is None and not defaults:
            raise FaultError(token, "has no field, and there is no default field", "field:value.")
        self._matches += len(defaults) if field is None else 1
        if self._matches > MOST:
            raise FaultError(token, "is one too many", f"{MOST:,} words, prefixes and ranges.")
        if kind == "text" or field is None:
            return self._text(field)
        return self._range(field, str(kind))

    def _text(self, field: str | None) -> Query:
        token = self._take()
        if token.kind == "quoted":
            if not has_term(token.text):
                raise FaultError(token, "has no term", "a letter or a digit at least.")
            return Words(token.text, field)
        if token.kind == "odd" and token.text == '"':
            raise FaultError(token, "opens quotes that nothing closes", 'a second ".')
        if token.kind == "sign" and token.text in ("[", "{", *_SIDES):
            raise FaultError(token, "begins a range of texts", "ranges of numbers and of times.")
        if token.kind not in ("word", "moment"):
            hint = "field:value" if token.text == "=" else ""
            raise FaultError(token, "is no word", f"{_QUOTES}.", hint)
        if token.text.upper() in ("AND", "OR", "NOT"):
            upper = token.text.upper()
            what = "has nothing to join" if token.text == upper else "is no operator"
            hint = f'{upper}, or "{token.text}" in quotes for the word.'
            raise FaultError(token, what, f"{_QUOTES}.", hint)
        return self._word(token, field)

    def _word(self, token: Token, field: str | None) -> Query:
        start = token.text.removesuffix("*")
        odd = _OPERATORS.intersection(start) or start.startswith("-") or token.kind == "moment"
        if start != token.text and start and not odd:
            try:
                return Prefix(start, field)
            except TidegateError:
                raise FaultError(
                    token, "is no prefix", "letters and digits, and then one *."
                ) from None
        if odd or not has_term(start):
            negated = start.startswith(("-", "!")) and has_term(start)
            hint = f"NOT {start[1:]}" if negated else f'"{token.text}"' * has_term(start)
            raise FaultError(token, "is no word", f"{_QUOTES}.", hint)
        return Words(start, field)

    def _range(self, field: str, kind: str) -> Query:
        first = self._take()
        if first.kind == "sign" and first.text in _SIDES:
            return Range(field, **{_SIDES[first.text]: self._value(self._take(), kind)})
        if first.kind != "sign" or first.text not in "[{":
            value = self._value(first, kind)
            return Range(field, at_least=value, at_most=value)
        lower = self._open_value(kind)
        if not self._says("TO"):
            raise FaultError(self._here, "stands in a range", "TO, as in [1 TO 2].")
        self._take()
        upper = self._open_value(kind)
        last = self._take()
        if last.kind != "sign" or last.text not in "]}":
            raise FaultError(
                last, "stands at the end of a range", "']' with the bound, '}' without."
            )
        if lower is None and upper is None:
            raise FaultError(first, "begins a range without bounds", "one bound at least.")
        bounds = {"at_least" if first.text == "[" else "above": lower}
        bounds["at_most" if last.text == "]" else "below"] = upper
        closed = first.text == "[" and last.text == "]"
        if lower is not None and upper is not None and not ordered(lower, upper, closed):
            raise FaultError(first, "begins a range that holds nothing", "the smaller bound first.")
        return Range(field, **bounds)

    def _open_value(self, kind: str) -> Bound | None:
        token = self._take()
        return None if token.kind == "word" and token.text == "*" else self._value(token, kind)

    def _value(self, token: Token, kind: str) -> Bound:
        found = moment(token) if kind == "time" else number(token)
        if found is None:
            allowed = "a number, such as -1.5."
            if kind == "time":
                allowed = "a date, or a time with its zone: 2026-01-31, 2026-01-31T10:00:00Z."
            what = f"is no {'time' if kind == 'time' else 'number'}"
            raise FaultError(token, what, allowed)
        return found
