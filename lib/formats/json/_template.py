"""What JSON objects of one producer have in common: all but the values of their fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_PAIR = re.compile(
    rb' *"(?P<name>[^"\\]+)" *: *'
    rb'(?:"(?P<text>[^"\\]*)"|(?P<bare>-?[0-9][-+.0-9eE]*|true|false)|null) *'
)


class Slot(NamedTuple):
    """Where a value stands: of which field, and whether within quotation marks."""

    name: str
    quoted: bool


@dataclass(frozen=True)
class Template:
    """The texts between which values stand: one before each of the slots, and one after the last.

    A field that is null belongs to a text.
    """

    texts: tuple[bytes, ...]
    slots: tuple[Slot, ...]


def template_of(value: bytes) -> Template | None:
    """Return the template of an object; None where it has none, or not a value.

    None has an object with an array or another object in it, with an escape, with a name twice, or
    with other white space than blanks; nor what is no object.
    """
    texts: list[bytes] = []
    slots: list[Slot] = []
    names: set[bytes] = set()
    begun, at = 0, 1
    while value.startswith(b"{") and (pair := _PAIR.match(value, at)):
        if pair["name"] in names:
            return None
        names.add(pair["name"])
        for kind in ("text", "bare"):
            if pair[kind] is not None:
                texts.append(value[begun : pair.start(kind)])
                slots.append(Slot(pair["name"].decode(errors="replace"), kind == "text"))
                begun = pair.end(kind)
        at = pair.end() + 1
        last = value[pair.end() : at]
        if last == b"}" and at == len(value) and slots:
            return Template((*texts, value[begun:]), tuple(slots))
        if last != b",":
            return None
    return None
