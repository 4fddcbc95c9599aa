"""The words of an aggregate's text, and errors that point at one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from ...errors import ConfigError
from .values import VALUE

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`"
    r"|(?P<number>[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)|(?P<sign>[()\[\],=]))"
)
_ODD = re.compile(r"\w+|\S")


@dataclass(frozen=True)
class Word:
    """A word of the text, and where it begins; the kind "end" stands behind the last one."""

    kind: str
    text: str
    at: int
    length: int


def words(text: str) -> Iterator[Word]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            odd = _ODD.search(text, at)
            begin, word = (at, text[at:]) if odd is None else (odd.start(), odd[0])
            yield Word("odd", word, begin, len(word))
            at = begin + len(word)
            continue
        kind = str(found.lastgroup)
        quotes = 1 if kind == "quoted" else 0
        word = found[kind]
        begin = found.start(kind) - quotes
        yield Word(kind, word, begin, len(word) + 2 * quotes)
        at = found.end()
    yield Word("end", "", len(text), 1)


def refuse(
    text: str, word: Word, what: str, allowed: str, hint: str = "", *, subject: str = VALUE
) -> NoReturn:
    shown = "its end" if word.kind == "end" else repr(word.text)
    if word.text == ".":
        hint = "backticks around the whole name of a column that has dots."
    line = re.sub(r"\s", " ", text)
    marked = f"    {line}\n    {' ' * word.at}{'^' * word.length}"
    raise ConfigError(f"{subject} is {text!r}, where {shown} {what}:\n{marked}", allowed, hint)
