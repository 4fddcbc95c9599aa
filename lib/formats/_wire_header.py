"""The header of a schema registry: a zero byte and the id of the schema in four bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from ..errors import ArgumentError
from ._arrow.cursors import Cursors, NumpyArray
from ._arrow.decode_udf import read_schema_text

NO_HEADER = "no schema header"
WRONG_MAGIC = "wrong magic byte"
HEADER_BYTES = 5
_MAX_ID = 2**31 - 1


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of a registry.

    schema_type: "AVRO", "PROTOBUF" or "JSON".
    references: the texts of the referenced schemas by name.
    """

    plan_name: ClassVar[str] = "registered_schema"
    text: str
    schema_type: str = "AVRO"
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaLookup(Protocol):
    """Returns schemas by id."""

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema; None only if the id is certainly unknown."""


@dataclass(frozen=True)
class FixedSchemas:
    """Schemas of a mapping, without a registry."""

    plan_name: ClassVar[str] = "fixed_schemas"
    schemas: Mapping[int, RegisteredSchema]

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema, or None."""
        return self.schemas.get(schema_id)


def to_schema_lookup(
    registry: SchemaLookup | Mapping[int, str | Path] | None, schema_type: str
) -> SchemaLookup | None:
    """Return a lookup for a registry, or for a mapping of schemas of this type by id."""
    if registry is None or (hasattr(registry, "by_id") and not isinstance(registry, Mapping)):
        return registry
    if not isinstance(registry, Mapping) or not registry or not all(map(_is_schema_id, registry)):
        raise ArgumentError(
            f"invalid registry: {registry!r}",
            "a SchemaRegistry, or a mapping of schemas by id",
            'SchemaRegistry("http://localhost:8081"), or {1: Path("click.avsc")}',
        )
    schemas = {
        number: RegisteredSchema(read_schema_text(source, f"registry[{number}]"), schema_type)
        for number, source in registry.items()
    }
    return FixedSchemas(schemas)


def _is_schema_id(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _MAX_ID


def read_schema_ids(cursors: Cursors) -> NumpyArray:
    """Read the header of each value, and return the schema ids."""
    is_short = cursors.end - cursors.position < HEADER_BYTES
    starts = cursors.position.copy()
    magic = cursors.data[starts]
    cursors.mark_invalid(is_short & (cursors.position == cursors.end), NO_HEADER)
    cursors.mark_invalid(magic != 0, WRONG_MAGIC)
    cursors.mark_invalid(is_short, NO_HEADER)
    cursors.position += np.where(cursors.fault == 0, HEADER_BYTES, 0)
    return cursors.byte_rows(starts + 1, HEADER_BYTES - 1).view(">u4").ravel().astype(np.int64)


def rows_by_schema(cursors: Cursors, ids: NumpyArray) -> Iterator[tuple[int, NumpyArray]]:
    """Yield each schema id with the rows that have it."""
    valid = cursors.fault == 0
    for schema_id in np.unique(ids[valid]).tolist():
        yield schema_id, np.flatnonzero(valid & (ids == schema_id))
