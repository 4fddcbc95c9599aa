"""The schemas of a registry by id, and lookups of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from ..errors import ArgumentError
from ._arrow.decode_udf import read_schema_text

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
