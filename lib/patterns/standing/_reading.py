"""The words of a query's text, and the faults that point at one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MOMENT = r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d))?"
_TOKEN = re.compile(
    rf'\s*(?:"(?P<quoted>[^"]*)"|(?P<moment>{_MOMENT})(?=[\s()\[\]{{}}"]|$)'
    r'|(?P<sign>>=|<=|[()\[\]{}:<>])|(?P<word>[^\s()\[\]{}":<>=]+))'
)


@dataclass(frozen=True)
class Token:
    """A piece of the text and where it begins; the kind "end" stands behind the last one."""

    kind: str
    text: str
    at: int
    length: int
    close: bool = False

    @property
    def shown(self) -> str:
        """The piece as a message shows it."""
        return "its end" if self.kind == "end" else repr(self.text)


class FaultError(Exception):
    """Something in a query's text that cannot be read."""

    def __init__(self, token: Token, what: str, allowed: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.token = token
        self.what = what
        self.allowed = allowed
        self.hint = hint

    @property
    def line(self) -> str:
        """The fault in one line, with the place counted from 1."""
        told = f"the query, at character {self.token.at + 1}: {self.token.shown} {self.what}"
        allowed = f"; allowed: {self.allowed.rstrip('.')}" if self.allowed else ""
        hint = f"; instead: {self.hint.rstrip('.')}" if self.hint else ""
        return told + allowed + hint

    def marked(self, text: str) -> str:
        """Return the fault over the text, with a mark below the place."""
        line = re.sub(r"\s", " ", text)
        mark = " " * self.token.at + "^" * max(1, self.token.length)
        return (
            f"the query is {text!r}, where {self.token.shown} {self.what}:\n    {line}\n    {mark}"
        )


def tokens(text: str) -> Iterator[Token]:
    """List the pieces of a text."""
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            begin = at + len(text[at:]) - len(text[at:].lstrip())
            yield Token("odd", text[begin], begin, 1)
            return
        kind = str(found.lastgroup)
        quotes = 1 if kind == "quoted" else 0
        begin = found.start(kind) - quotes
        length = len(found[kind]) + 2 * quotes
        yield Token(kind, found[kind], begin, length, begin == at)
        at = found.end()
    yield Token("end", "", len(text), 1)
