"""The five bytes by which a schema registry's clients begin a value: 0, and the schema's id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ..errors import ArgumentError
from ._arrow.batches import text_of
from ._arrow.places import Numbers, Places

NO_HEADER = "no schema header"
WRONG_MAGIC = "wrong magic byte"
_BYTES = 5
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Written:
    """A schema as a registry has it.

    kind: "AVRO", "PROTOBUF" or "JSON". references: texts of the schemas that it names, by name.
    """

    text: str
    kind: str = "AVRO"
    references: Mapping[str, str] = field(default_factory=dict)


class Schemas(Protocol):
    """Where schemas are found by their id."""

    def by_id(self, number: int) -> Written | None:
        """Return a schema; None where it is certain that there is none."""


@dataclass(frozen=True)
class Listed:
    """Schemas that were given by their ids, so that no registry is asked."""

    schemas: Mapping[int, Written]

    def by_id(self, number: int) -> Written | None:
        """Return a schema; None where none was given."""
        return self.schemas.get(number)


def schemas(given: Schemas | Mapping[int, str | Path] | None) -> Schemas | None:
    """Return where schemas are found: a registry, or what was listed by id."""
    if given is None or (hasattr(given, "by_id") and not isinstance(given, Mapping)):
        return given
    if not isinstance(given, Mapping) or not given or not all(map(_is_id, given)):
        raise ArgumentError(
            f"registry is {given!r}.",
            "a Registry, or schemas by their ids.",
            'Registry("http://localhost:8081"), or {1: Path("click.avsc")}',
        )
    texts = {number: text_of(each, f"registry[{number}]") for number, each in given.items()}
    return Listed({number: Written(text) for number, text in texts.items()})


def _is_id(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _MOST


def schema_ids(found: Places) -> Numbers:
    """Read the header of each value, and return the ids of the schemas."""
    short = found.end - found.at < _BYTES
    starts = found.at.copy()
    magic = found.data[starts]
    found.fail(short & (found.at == found.end), NO_HEADER)
    found.fail(magic != 0, WRONG_MAGIC)
    found.fail(short, NO_HEADER)
    found.at += np.where(found.fault == 0, _BYTES, 0)
    return found.matrix(starts + 1, _BYTES - 1).view(">u4").ravel().astype(np.int64)


def by_schema(found: Places, ids: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield each id that is there, with the rows that have it."""
    fine = found.fault == 0
    for number in np.unique(ids[fine]).tolist():
        yield number, np.flatnonzero(fine & (ids == number))
