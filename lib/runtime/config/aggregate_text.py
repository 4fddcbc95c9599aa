"""Aggregates as text: `count`, `mean(ms)`, `quantile(ms, 0.99)`, read word by word and never run.

The grammar is that of a call, with a column in the first place:

    aggregate = name [ "(" [ argument { "," argument } ] ")" ]
    argument  = [ name "=" ] value
    value     = column | number | "[" value { "," value } "]"
    column    = a name, or any text between backticks

Which names there are, and what each takes, follows from the functions of `tidegate.aggregates` and
`tidegate.sketches`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, NoReturn, TypeAlias

from pydantic import AfterValidator

from ... import aggregates, sketches
from ...aggregates import Aggregate
from ...errors import ConfigError, TidegateError
from .values import VALUE, require_columns

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`"
    r"|(?P<number>[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)|(?P<sign>[()\[\],=]))"
)
_ODD = re.compile(r"\w+|\S")
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

Value: TypeAlias = "int | float | str | list[Value]"


@dataclass(frozen=True)
class _Word:
    """A word of the text, and where it begins; the kind "end" stands behind the last one."""

    kind: str
    text: str
    at: int
    length: int


@dataclass(frozen=True)
class _Argument:
    """A value, the name that it was given by, and the words that it is made of."""

    name: str | None
    value: Value
    words: tuple[_Word, ...]


@dataclass(frozen=True)
class ReadAggregate:
    """An aggregate that was read from a text, and the columns that the text names."""

    text: str
    aggregate: Aggregate
    columns: tuple[_Word, ...]

    def require(self, fields: Iterable[str], key: str) -> None:
        """Refuse a column that is not among the fields, with the key that has the text.

        Raises ConfigError.
        """
        have = list(fields)
        for word in self.columns:
            if word.text not in have:
                near = get_close_matches(word.text, have, 1, 0.5)
                _refuse(
                    self.text,
                    word,
                    "is no field of the input",
                    f"{', '.join(have)}.",
                    f"did you mean {near[0]}?" if near else "",
                    subject=key,
                )


def named() -> dict[str, Callable[..., Aggregate]]:
    """Return the aggregates that a text may name: all functions that make one of a value."""
    return {
        name: function
        for module in (aggregates, sketches)
        for name, function in sorted(vars(module).items())
        if inspect.isfunction(function) and not name.startswith("_") and _of_a_value(function)
    }


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


def _of_a_value(function: Callable[..., object]) -> bool:
    signature = inspect.signature(function)
    return (
        signature.return_annotation == "Aggregate" and next(iter(signature.parameters)) == "value"
    )


class _Reader:
    """Reads one text from its first word to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(_words(text))
        self._next = 0

    def read(self) -> ReadAggregate:
        name = self._take()
        function = named().get(name.text) if name.kind == "name" else None
        if function is None:
            self._refuse_name(name)
        arguments = self._arguments(name.text) if self._word.text == "(" else []
        if self._word.kind != "end":
            _refuse(self._text, self._word, "follows the aggregate", "nothing after it.")
        return _Call(self._text, name, function, arguments, self._words[self._next - 1]).made()

    @property
    def _word(self) -> _Word:
        return self._words[self._next]

    def _take(self) -> _Word:
        word = self._word
        self._next += word.kind != "end"
        return word

    def _refuse_name(self, word: _Word) -> NoReturn:
        names = named()
        near = [_OF_SQL[word.text.lower()]] if word.text.lower() in _OF_SQL else []
        near = near or get_close_matches(word.text.lower(), names, 1, 0.5)
        hint = f"{near[0]}(...)" if near else ""
        _refuse(self._text, word, "is no aggregate", f"{', '.join(names)}.", hint)

    def _arguments(self, name: str) -> list[_Argument]:
        self._take()
        found: list[_Argument] = []
        while self._word.text != ")":
            found.append(self._argument())
            if self._word.text == ",":
                self._take()
            elif self._word.text != ")":
                hint = "count" if name == "count" and self._word.text == "*" else ""
                _refuse(self._text, self._word, "stands between two values", "',' or ')'.", hint)
        self._take()
        return found

    def _argument(self) -> _Argument:
        begin = self._next
        name = None
        if self._word.kind == "name" and self._words[self._next + 1].text == "=":
            name = self._take().text
            self._take()
        value = self._value()
        return _Argument(name, value, tuple(self._words[begin : self._next]))

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
            _refuse(self._text, word, "is no value", allowed, hint)
        return self._list()

    def _list(self) -> list[Value]:
        found: list[Value] = []
        while self._word.text != "]":
            found.append(self._value())
            if self._word.text == ",":
                self._take()
            elif self._word.text != "]":
                _refuse(self._text, self._word, "stands in a list", "',' or ']'.")
        self._take()
        return found


@dataclass(frozen=True)
class _Call:
    """A function, and the arguments that it is to be called with."""

    text: str
    name: _Word
    function: Callable[..., Aggregate]
    arguments: list[_Argument]
    last: _Word

    def made(self) -> ReadAggregate:
        given = self._bound()
        first = given.get("value")
        columns = () if first is None else self._columns(first)
        for name, argument in given.items():
            if name != "value":
                self._require_kind(name, argument)
        try:
            made = self.function(**{name: argument.value for name, argument in given.items()})
        except TidegateError as error:
            culprit = given.get(error.given.split(" ", 1)[0])
            word = self.name if culprit is None else culprit.words[-1]
            _refuse(self.text, word, f"cannot be: {error.given[:-1]}", error.allowed, error.hint)
        return ReadAggregate(self.text, made, columns)

    def _bound(self) -> dict[str, _Argument]:
        """Return each argument by the name of its parameter."""
        parameters = inspect.signature(self.function).parameters
        free = [one.name for one in parameters.values() if one.kind is not one.KEYWORD_ONLY]
        found: dict[str, _Argument] = {}
        for argument in self.arguments:
            name = argument.name
            if name is None and not free:
                _refuse(self.text, argument.words[0], "is one value too many", self._form)
            name = free[0] if name is None else name
            if name not in parameters:
                near = get_close_matches(name, list(parameters), 1, 0.5)
                hint = f"{near[0]}=..." if near else ""
                what = f"is nothing that {self.name.text} takes"
                _refuse(self.text, argument.words[0], what, self._form, hint)
            if name in found:
                _refuse(self.text, argument.words[0], f"gives {name} a second time", self._form)
            free = [other for other in free if other != name]
            found[name] = argument
        needed = [one.name for one in parameters.values() if one.default is one.empty]
        missing = [_told(name) for name in needed if name not in found]
        if missing:
            what = f"ends without {' and '.join(missing)}"
            _refuse(self.text, self.last, what, self._form)
        return found

    def _columns(self, argument: _Argument) -> tuple[_Word, ...]:
        several = "Key" in str(inspect.signature(self.function).parameters["value"].annotation)
        listed = argument.value if isinstance(argument.value, list) else [argument.value]
        if not listed or not all(isinstance(one, str) for one in listed):
            what = "is no column"
            _refuse(self.text, argument.words[-1], what, f"the name of a column: {self._form}")
        if isinstance(argument.value, list) and not several:
            allowed = f"one column: {self._form}"
            _refuse(self.text, argument.words[0], "begins a list", allowed)
        named = argument.words if argument.name is None else argument.words[2:]
        return tuple(word for word in named if word.kind in ("name", "quoted"))

    def _require_kind(self, name: str, argument: _Argument) -> None:
        annotation = str(inspect.signature(self.function).parameters[name].annotation)
        value = argument.value
        fits = isinstance(value, int) if annotation == "int" else isinstance(value, int | float)
        allowed = "a whole number" if annotation == "int" else "a number"
        if "Sequence[float]" in annotation:
            allowed = "a number, or a list of numbers"
            numbers = value if isinstance(value, list) else [value]
            fits = all(isinstance(one, int | float) for one in numbers)
        if not fits:
            what = f"is no {name}"
            _refuse(self.text, argument.words[-1], what, f"{allowed}: {self._form}")

    @property
    def _form(self) -> str:
        """The call as it may be written."""
        parameters = inspect.signature(self.function).parameters.values()
        parts = [
            _told(one.name) if one.default in (one.empty, None) else f"{one.name}={one.default}"
            for one in parameters
        ]
        bare = f"{self.name.text}, or " if parameters and parts == [_told("value")] else ""
        required = any(one.default is one.empty for one in parameters)
        return f"{'' if required else bare}{self.name.text}({', '.join(parts)})."


def _told(name: str) -> str:
    return "column" if name == "value" else name


def _words(text: str) -> Iterator[_Word]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            odd = _ODD.search(text, at)
            begin, word = (at, text[at:]) if odd is None else (odd.start(), odd[0])
            yield _Word("odd", word, begin, len(word))
            at = begin + len(word)
            continue
        kind = str(found.lastgroup)
        quotes = 1 if kind == "quoted" else 0
        word = found[kind]
        begin = found.start(kind) - quotes
        yield _Word(kind, word, begin, len(word) + 2 * quotes)
        at = found.end()
    yield _Word("end", "", len(text), 1)


def _refuse(
    text: str, word: _Word, what: str, allowed: str, hint: str = "", *, subject: str = VALUE
) -> NoReturn:
    shown = "its end" if word.kind == "end" else repr(word.text)
    if word.text == ".":
        hint = "backticks around the whole name of a column that has dots."
    line = re.sub(r"\s", " ", text)
    marked = f"    {line}\n    {' ' * word.at}{'^' * word.length}"
    raise ConfigError(f"{subject} is {text!r}, where {shown} {what}:\n{marked}", allowed, hint)
