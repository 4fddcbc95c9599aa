"""The data subject of an erasure: identifiers, and how to match them in rows, text and bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from ...errors import ArgumentError

_LONG_TEXT = 4
_LONG_NUMBER = 8
# Not inside of a longer word, or of a name such as alice-2, alice.b or alice@home.
_WORD_START = r"(?<!\w)(?<!\w[-.@])"
_WORD_END = r"(?![-.@]?\w)"
# Between a column's name and its value in JSON, in JSON within JSON, in a path, or in a predicate
# of Delta's log.
_SEPARATOR = r"(?:#\d+)?[\\\"'\s]{0,6}[:=][\\\"'\s(]{0,6}"


@dataclass(frozen=True)
class Identifier:
    """A value that identifies the subject: of `column`, at any depth, in one table or in all.

    >>> Identifier.parse("orders:buyer=alice")
    Identifier(column='buyer', value='alice', table='orders')
    """

    column: str
    value: str
    table: str | None = None

    @classmethod
    def parse(cls, text: str) -> Identifier:
        """Parse COLUMN=VALUE or TABLE:COLUMN=VALUE; raise ArgumentError for anything else."""
        left, _, value = text.partition("=")
        table, _, column = left.rpartition(":")
        if not column.strip() or not value:
            raise ArgumentError(
                f"invalid --where: {text!r}",
                "COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table",
                "--where user_id=alice --where orders:buyer=alice",
            )
        return cls(column.strip(), value, table.strip() or None)

    @property
    def is_distinctive(self) -> bool:
        """Whether the value identifies the subject in any text.

        A short text or number is common; it is matched only after its column's name.
        """
        return len(self.value) >= (_LONG_NUMBER if self.value.isdecimal() else _LONG_TEXT)

    @property
    def forms(self) -> list[str]:
        """The value as text, and its encodings in JSON, URLs and partition folders."""
        as_json = (json.dumps(self.value, ensure_ascii=ascii)[1:-1] for ascii in (True, False))
        paths = re.sub(
            r"[\x00-\x1f\"#%'*/:=?\\{\[\]^]", lambda each: f"%{ord(each[0]):02X}", self.value
        )
        paths_quoted = quote(paths, safe="/=")
        forms = [self.value, *as_json, quote(self.value, safe=""), paths, paths_quoted]
        return list(dict.fromkeys(forms))

    @property
    def pattern(self) -> str:
        """The regular expression for the value in text, for Python and, after (?U), for Java."""
        forms = "|".join(map(re.escape, self.forms))
        name = "" if self.is_distinctive else rf"\b{re.escape(self.name)}{_SEPARATOR}"
        word_start = _WORD_START if self.is_distinctive else ""
        return f"{word_start}{name}(?:{forms}){_WORD_END}"

    @property
    def needles(self) -> list[str]:
        """Substrings; each match contains at least one of them."""
        return self.forms if self.is_distinctive else [self.name]

    @property
    def name(self) -> str:
        """The column's name without the names of enclosing structs."""
        return self.column.rpartition(".")[2]

    def matches(self, path: str) -> bool:
        """Return whether the column with this dotted path contains such values."""
        column = self.column.lower()
        candidate = path.lower()
        return candidate == column or candidate.endswith(f".{column}")


@dataclass(frozen=True)
class DataSubject:
    """The identifiers of one data subject."""

    identifiers: Sequence[Identifier]

    def __post_init__(self) -> None:
        if not self.identifiers:
            raise ArgumentError(
                "invalid where: none", "one identifier or more", "--where user_id=alice"
            )

    def for_path(self, path: str) -> DataSubject | None:
        """Return the identifiers for a table or another folder; None if none applies."""
        identifiers = [
            each
            for each in self.identifiers
            if each.table is None or f"/{path}".endswith(f"/{each.table}")
        ]
        return DataSubject(identifiers) if identifiers else None

    def values_for_column(self, path: str) -> list[str]:
        """Return the subject's values for the column with this dotted path."""
        return list(dict.fromkeys(each.value for each in self.identifiers if each.matches(path)))

    @property
    def pattern(self) -> str:
        """The regular expression for any identifier in text."""
        return "|".join(f"(?:{each.pattern})" for each in self.identifiers)

    @cached_property
    def text_pattern(self) -> re.Pattern[str]:
        """The compiled expression for Python."""
        return re.compile(self.pattern)

    @cached_property
    def needles(self) -> list[str]:
        """Substrings; each match in text contains at least one of them."""
        return list(dict.fromkeys(form for each in self.identifiers for form in each.needles))

    @cached_property
    def raw_byte_values(self) -> list[bytes]:
        """The values that are matched in binary data without word boundaries.

        The length that Avro or Protobuf writes before a text may look like a letter.
        """
        values = [each.value for each in self.identifiers if each.is_distinctive]
        return [value.encode() for value in dict.fromkeys(values)]

    def is_in_text(self, text: str) -> bool:
        """Return whether a text contains an identifier."""
        return self.text_pattern.search(text) is not None

    def is_in_bytes(self, value: bytes) -> bool:
        """Return whether bytes contain an identifier; bytes that are text are matched as text."""
        text = decode_text(value)
        if text is not None:
            return self.is_in_text(text)
        return any(each in value for each in self.raw_byte_values) or self.is_in_text(
            value.decode("latin-1")
        )


CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""Characters that do not occur in text."""


def decode_text(value: bytes) -> str | None:
    """Return bytes as text; None for binary data."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL_CHARACTERS.search(text) else text
