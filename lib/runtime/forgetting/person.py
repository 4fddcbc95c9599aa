"""Whom to forget: columns and values, and how they are told in rows, in text and in bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from ...errors import ArgumentError

_LONG_TEXT = 4
_LONG_NUMBER = 8
# Not a part of a longer word, nor of a name such as alice-2 or alice.b or alice@home.
_BEFORE = r"(?<!\w)(?<!\w[-.@])"
_AFTER = r"(?![-.@]?\w)"
# What stands between a column's name and its value in JSON, in JSON within JSON, in a path or in a
# predicate that Delta notes.
_BETWEEN = r"(?:#\d+)?[\\\"'\s]{0,6}[:=][\\\"'\s(]{0,6}"


@dataclass(frozen=True)
class Identifier:
    """A value that tells the person: `column` by its name at any depth, in one table or in all."""

    column: str
    value: str
    table: str | None = None

    @classmethod
    def parse(cls, text: str) -> Identifier:
        """Return what COLUMN=VALUE or TABLE:COLUMN=VALUE says; raises ArgumentError."""
        left, _, value = text.partition("=")
        table, _, column = left.rpartition(":")
        if not column.strip() or not value:
            raise ArgumentError(
                f"--where {text!r} names no column and value.",
                "COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table alone.",
                "--where user_id=alice --where orders:buyer=alice",
            )
        return cls(column.strip(), value, table.strip() or None)

    @property
    def distinct(self) -> bool:
        """Whether the value alone, wherever it stands, tells of the person.

        A short text or number stands in many places that are of nobody: it counts beside its
        column's name alone.
        """
        return len(self.value) >= (_LONG_NUMBER if self.value.isdecimal() else _LONG_TEXT)

    @property
    def forms(self) -> list[str]:
        """The value as text, and as JSON, URLs and the folders of partitions spell it."""
        as_json = (json.dumps(self.value, ensure_ascii=ascii)[1:-1] for ascii in (True, False))
        paths = re.sub(r"[\x00-\x1f\"#%'*/:=?\\{\[\]^]", _escaped, self.value)
        twice = quote(paths, safe="/=")
        return list(dict.fromkeys([self.value, *as_json, quote(self.value, safe=""), paths, twice]))

    @property
    def pattern(self) -> str:
        """The expression that finds the value in text, for Python and, behind (?U), for Java."""
        forms = "|".join(map(re.escape, self.forms))
        name = "" if self.distinct else rf"\b{re.escape(self.name)}{_BETWEEN}"
        before = _BEFORE if self.distinct else ""
        return f"{before}{name}(?:{forms}){_AFTER}"

    @property
    def needles(self) -> list[str]:
        """Texts of which one stands wherever the value is told by text."""
        return self.forms if self.distinct else [self.name]

    @property
    def name(self) -> str:
        """The column's own name, without those of the structs around it."""
        return self.column.rpartition(".")[2]

    def of(self, path: str) -> bool:
        """Return whether a column, by its dotted path, holds such values."""
        wanted = self.column.lower()
        found = path.lower()
        return found == wanted or found.endswith(f".{wanted}")


@dataclass(frozen=True)
class Person:
    """All that tells one person."""

    identifiers: Sequence[Identifier]

    def __post_init__(self) -> None:
        if not self.identifiers:
            raise ArgumentError(
                "nothing says whom to forget.",
                "one column and value, or several.",
                "--where user_id=alice",
            )

    def within(self, path: str) -> Person | None:
        """Return what tells the person in a table or another folder; None where nothing does."""
        own = [
            each
            for each in self.identifiers
            if each.table is None or f"/{path}".endswith(f"/{each.table}")
        ]
        return Person(own) if own else None

    def at(self, path: str) -> Iterator[str]:
        """Return the values that the column with this dotted path may hold of the person."""
        yield from dict.fromkeys(each.value for each in self.identifiers if each.of(path))

    @property
    def pattern(self) -> str:
        """The expression that finds the person in text."""
        return "|".join(f"(?:{each.pattern})" for each in self.identifiers)

    @cached_property
    def spoken(self) -> re.Pattern[str]:
        """The same, for Python."""
        return re.compile(self.pattern)

    @cached_property
    def needles(self) -> list[str]:
        """Texts of which one stands in every text that tells of the person."""
        return list(dict.fromkeys(form for each in self.identifiers for form in each.needles))

    @cached_property
    def naked(self) -> list[bytes]:
        """The values that tell of the person in bytes which are no text, where nothing parts them.

        The length that Avro or Protobuf puts before a text may look like a letter.
        """
        own = [each.value for each in self.identifiers if each.distinct]
        return [value.encode() for value in dict.fromkeys(own)]

    def in_text(self, text: str) -> bool:
        """Return whether a text tells of the person."""
        return self.spoken.search(text) is not None

    def in_bytes(self, value: bytes) -> bool:
        """Return whether bytes tell of the person: as text where they are text."""
        text = as_text(value)
        if text is not None:
            return self.in_text(text)
        return any(each in value for each in self.naked) or self.in_text(value.decode("latin-1"))


CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""What no text holds."""


def as_text(value: bytes) -> str | None:
    """Return bytes as text; None where they are none."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
