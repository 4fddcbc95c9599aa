"""Explicit, versioned JSON forms of persisted values, independent of attribute names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..errors import CheckpointError
from .offset_log import offsets_from_json

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Codec:
    """Encode a value as JSON data, and decode it."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def optional(codec: Codec) -> Codec:
    """Return a codec that maps None to null."""
    return Codec(
        lambda value: None if value is None else codec.encode(value),
        lambda data: None if data is None else codec.decode(data),
    )


def list_of(codec: Codec) -> Codec:
    """Return a codec for a tuple of values."""
    return Codec(
        lambda values: [codec.encode(value) for value in values],
        lambda data: tuple(codec.decode(element) for element in data),
    )


def mapping_of(codec: Codec) -> Codec:
    """Return a codec for a mapping by text."""
    return Codec(
        lambda values: {key: codec.encode(value) for key, value in values.items()},
        lambda data: {key: codec.decode(element) for key, element in data.items()},
    )


def by_number(codec: Codec) -> Codec:
    """Return a codec for a mapping by number; JSON spells the number as text."""
    return Codec(
        lambda values: {str(number): codec.encode(value) for number, value in values.items()},
        lambda data: {int(number): codec.decode(element) for number, element in data.items()},
    )


PLAIN = Codec(lambda value: value, lambda data: data)
"""Text, numbers, booleans, null, and mappings of these by text."""
OFFSETS = Codec(mapping_of(by_number(PLAIN)).encode, offsets_from_json)
"""Offsets or event times, by topic and partition."""


class JsonForm(Generic[_Value]):
    """The JSON object of a dataclass: a table of its attributes, their keys and their codecs.

    Args:
        type_: the dataclass.
        fields: the JSON key and the codec of each attribute; a key alone means PLAIN.

    >>> @dataclass
    ... class Range:
    ...     first: int
    ...     end: int
    >>> form = JsonForm(Range, {"first": "start_offset", "end": "end_offset"})
    >>> form.encode(Range(2, 5))
    {'start_offset': 2, 'end_offset': 5}
    >>> form.decode({"start_offset": 2, "end_offset": 5})
    Range(first=2, end=5)
    """

    def __init__(self, type_: type[_Value], fields: Mapping[str, str | tuple[str, Codec]]) -> None:
        self.type = type_
        self.fields = {
            attribute: (field, PLAIN) if isinstance(field, str) else field
            for attribute, field in fields.items()
        }

    def encode(self, value: _Value) -> dict[str, Any]:
        """Return the JSON object of a value."""
        return {
            key: codec.encode(getattr(value, attribute))
            for attribute, (key, codec) in self.fields.items()
        }

    def decode(self, data: Mapping[str, Any]) -> _Value:
        """Return the value of a JSON object; a missing key means the default of its attribute.

        Raises KeyError, TypeError, ValueError or AttributeError for another form.
        """
        return self.type(
            **{
                attribute: codec.decode(data[key])
                for attribute, (key, codec) in self.fields.items()
                if key in data
            }
        )

    @property
    def codec(self) -> Codec:
        """The codec for values of this form within another form."""
        return Codec(self.encode, self.decode)


@dataclass(frozen=True)
class FormatVersion:
    """The name and the version of a persisted format, as `tidegate lineage/1` spells them."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"

    def matches(self, spelled: object, location: str) -> bool:
        """Return whether persisted data has this format.

        Raises CheckpointError for a newer version of this format.
        """
        name, _, version = str(spelled).rpartition("/")
        if name == self.name and version.isdecimal() and int(version) > self.version:
            raise CheckpointError(
                f"{location} has the unknown format {spelled!r}",
                f"a newer version of tidegate wrote it; this version reads {str(self)!r}.",
                "run the job with that newer version. Nothing was written.",
            )
        return spelled == str(self)


@dataclass(frozen=True)
class HashedFile(Generic[_Value]):
    """A small JSON file with its format and with a SHA-256 of its content.

    remedy: what to do about a damaged file, for the error.
    """

    format: FormatVersion
    form: JsonForm[_Value]
    remedy: str

    def to_json(self, value: _Value) -> str:
        """Return the content of the file."""
        payload = {"format": str(self.format), **self.form.encode(value)}
        return json.dumps({**payload, "sha256": json_sha256(payload)}, indent=1) + "\n"

    def from_json(self, content: bytes, path: str) -> _Value:
        """Return the value that a file contains.

        Raises CheckpointError for damaged content, another format, or a newer version.
        """
        try:
            data: dict[str, Any] = json.loads(content)
            recorded_hash = data.pop("sha256")
            if recorded_hash != json_sha256(data):
                raise ValueError("the content does not match its SHA-256")
            if not self.format.matches(data.pop("format"), path):
                raise ValueError(f"the content does not have the format {str(self.format)!r}")
            return self.form.decode(data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(f"{path} is damaged", f"{error}.", self.remedy) from error


def json_sha256(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object in its canonical spelling: sorted keys, no spaces."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
