"""Which message stands where in the text of a .proto file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<word>[\w.]+|[{};])""",
    re.DOTALL,
)


def name_at(text: str, path: Sequence[int]) -> str | None:
    """Return the full name of the message at a place in a .proto file; None for none."""
    tokens = [match for match in _TOKEN.finditer(text) if match["word"] or match["text"]]
    words = iter([match["word"] or '""' for match in tokens])
    package = ""
    names: list[tuple[tuple[int, ...], str]] = []
    for found, prefix in _messages(words, (), ""):
        if found:
            names.append((found, prefix))
        else:
            package = f"{prefix}."
    return next((f"{package}{name}" for place, name in names if place == tuple(path)), None)


def _messages(
    words: Iterator[str], around: tuple[int, ...], prefix: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the messages of a block with their places; the package with an empty place."""
    count = 0
    begun: list[str] = []
    for word in words:
        if word == "}":
            return
        if word == ";":
            if begun[:1] == ["package"] and len(begun) == 2 and not around:
                yield (), begun[1]
            begun = []
        elif word == "{":
            is_message = len(begun) == 2 and begun[0] == "message"
            if is_message:
                place = (*around, count)
                count += 1
                yield place, f"{prefix}{begun[1]}"
                yield from _messages(words, place, f"{prefix}{begun[1]}.")
            else:
                _skip(words)
            begun = []
        else:
            begun.append(word)


def _skip(words: Iterator[str]) -> None:
    """Pass over a block that has no messages that count."""
    depth = 1
    while depth:
        word = next(words, "}")
        depth += (word == "{") - (word == "}")
