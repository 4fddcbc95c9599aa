"""Aggregates as text: `count`, `mean(ms)`, `quantile(ms, 0.99)`, read word by word and never run.

The grammar is that of a call, with a column in the first place:

    aggregate = name [ "(" [ argument { "," argument } ] ")" ]
    argument  = [ name "=" ] value
    value     = column | number | "[" value { "," value } "]"
    column    = a name, or any text between backticks

Which names there are, and what each takes, follows from the library's functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, NoReturn

from pydantic import AfterValidator

from ...aggregates import Aggregate
from ...errors import ConfigError
from ._aggregate_call import Argument, Call, Value, named
from ._aggregate_words import Word, refuse, words
from .values import VALUE, require_columns

_OF_SQL = {
    "approx_count_distinct": "distinct",
    "average": "mean",
    "avg": "mean",
    "max": "largest",
    "min": "smallest",
    "percentile": "quantile",
    "sum": "total",
}
"""What SQL calls some of them."""


@dataclass(frozen=True)
class ReadAggregate:
    """An aggregate that was read from a text, and the columns that the text names."""

    text: str
    aggregate: Aggregate
    columns: tuple[Word, ...]

    def require(self, fields: Iterable[str], key: str) -> None:
        """Refuse a column that is not among the fields, with the key that has the text.

        Raises ConfigError.
        """
        have = list(fields)
        for word in self.columns:
            if word.text not in have:
                near = get_close_matches(word.text, have, 1, 0.5)
                refuse(
                    self.text,
                    word,
                    "is no field of the input",
                    f"{', '.join(have)}.",
                    f"did you mean {near[0]}?" if near else "",
                    subject=key,
                )


def read(text: str) -> ReadAggregate:
    """Return the aggregate that a text says.

    Raises ConfigError, which points at the word that is wrong.

    >>> read("quantile(ms, 0.99)").columns[0].text
    'ms'
    >>> read("quantil(ms, 0.99)")
    Traceback (most recent call last):
    tidegate.errors.ConfigError: value is 'quantil(ms, 0.99)', where 'quantil' is no aggregate:
        quantil(ms, 0.99)
        ^^^^^^^
      allowed: count, first, largest, last, mean, smallest, total, bloom, distinct, quantile, theta,
        top.
      instead: quantile(...)
    """
    return _Reader(text).read()


def _checked(text: str) -> str:
    read(text)
    return text


def _some(given: dict[str, str]) -> dict[str, str]:
    if not given:
        raise ConfigError(f"{VALUE} is empty.", "an aggregate or more.", 'views = "count"')
    require_columns(list(given))
    return given


AggregateText = Annotated[str, AfterValidator(_checked)]
Aggregates = Annotated[dict[str, AggregateText], AfterValidator(_some)]
"""[aggregates]: the columns of the result, and what each is of the rows, as text."""


def aggregates_of(texts: Mapping[str, str], fields: Iterable[str]) -> dict[str, Aggregate]:
    """Return the aggregates of a section [aggregates], all of whose columns must be among fields.

    Raises ConfigError.
    """
    found = {name: read(text) for name, text in texts.items()}
    have = list(fields)
    for name, one in found.items():
        one.require(have, f"aggregates.{name}")
    return {name: one.aggregate for name, one in found.items()}


class _Reader:
    """Reads one text from its first word to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(words(text))
        self._next = 0

    def read(self) -> ReadAggregate:
        name = self._take()
        function = named().get(name.text) if name.kind == "name" else None
        if function is None:
            self._refuse_name(name)
        arguments = self._arguments(name.text) if self._word.text == "(" else []
        if self._word.kind != "end":
            refuse(self._text, self._word, "follows the aggregate", "nothing after it.")
        last = self._words[self._next - 1]
        made, columns = Call(self._text, name, function, arguments, last).made()
        return ReadAggregate(self._text, made, columns)

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self) -> Word:
        word = self._word
        self._next += word.kind != "end"
        return word

    def _refuse_name(self, word: Word) -> NoReturn:
        names = named()
        near = [_OF_SQL[word.text.lower()]] if word.text.lower() in _OF_SQL else []
        near = near or get_close_matches(word.text.lower(), names, 1, 0.5)
        hint = f"{near[0]}(...)" if near else ""
        refuse(self._text, word, "is no aggregate", f"{', '.join(names)}.", hint)

    def _arguments(self, name: str) -> list[Argument]:
        self._take()
        found: list[Argument] = []
        while self._word.text != ")":
            found.append(self._argument())
            if self._word.text == ",":
                self._take()
            elif self._word.text != ")":
                hint = "count" if name == "count" and self._word.text == "*" else ""
                refuse(self._text, self._word, "stands between two values", "',' or ')'.", hint)
        self._take()
        return found

    def _argument(self) -> Argument:
        begin = self._next
        name = None
        if self._word.kind == "name" and self._words[self._next + 1].text == "=":
            name = self._take().text
            self._take()
        value = self._value()
        return Argument(name, value, tuple(self._words[begin : self._next]))

    def _value(self) -> Value:
        word = self._take()
        if word.kind in ("name", "quoted"):
            return word.text
        if word.kind == "number":
            plain = word.text.replace("_", "")
            return int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
        if word.text != "[":
            hint = "count" if word.text == "*" else ""
            allowed = "a column, a number, or a list of them in [ ]."
            refuse(self._text, word, "is no value", allowed, hint)
        return self._list()

    def _list(self) -> list[Value]:
        found: list[Value] = []
        while self._word.text != "]":
            found.append(self._value())
            if self._word.text == ",":
                self._take()
            elif self._word.text != "]":
                refuse(self._text, self._word, "stands in a list", "',' or ']'.")
        self._take()
        return found
