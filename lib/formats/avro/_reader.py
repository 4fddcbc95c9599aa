"""Avro records of a batch: which schema wrote each, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._arrow.batches import NO_VALUE, finished, reasons
from .._arrow.places import Faults, Places, Read, places, scattered
from .._arrow.types import arrow_of
from .._schema_ids import Schemas, Written, by_schema, schema_ids
from ._resolving import record_fields
from ._schema import Avro, SchemaError, parsed
from ._types import spark_type

_GIVEN = -1
"""Where the reader of the schema stands that was given, and has no id."""


@dataclass
class AvroReader:
    """Reads values that were written by one schema, or by the schemas that their headers name."""

    wanted: Avro
    writer: Avro | None
    schemas: Schemas | None
    _known: dict[int, Read | str] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null where there is none, and the reasons as texts."""
        found = places(values, Faults(), NO_VALUE)
        if self.writer is None:
            records = self._by_header(found)
        else:
            if _GIVEN not in self._known:
                self._known[_GIVEN] = fitted(self.writer, self.wanted)
            records = self._of(found, self._known[_GIVEN])
        return records, reasons(found, values)

    def _of(self, found: Places, read: Read | str) -> Any:
        if isinstance(read, str):
            found.fail(found.fault == 0, read)
            return scattered([], len(found), self._type())
        return finished(found, read(found), self._type())

    def _by_header(self, found: Places) -> Any:
        ids = schema_ids(found)
        parts = []
        for number, rows in by_schema(found, ids):
            part = found.take(rows)
            parts.append((rows, self._of(part, self._reader(number))))
            found.put(rows, part)
        return scattered(parts, len(found), self._type())

    def _reader(self, number: int) -> Read | str:
        """Return what reads the records of a schema, or why there are none.

        That there is no such schema is not remembered: it may be registered by the next batch.
        """
        if number not in self._known:
            assert self.schemas is not None
            schema = self.schemas.by_id(number)
            if schema is None:
                return f"unknown schema id: {number}"
            self._known[number] = self._fitted(number, schema)
        return self._known[number]

    def _fitted(self, number: int, schema: Written) -> Read | str:
        if schema.kind != "AVRO":
            return f"schema {number} is {schema.kind}, and no Avro"
        try:
            return fitted(parsed(schema.text, schema.references), self.wanted)
        except SchemaError as fault:
            return f"schema {number} does not fit: {fault}"

    def _type(self) -> Any:
        return arrow_of(spark_type(self.wanted))


def fitted(writer: Avro, wanted: Avro) -> Read:
    """Return what reads a record of one schema as the fields of another.

    Raises SchemaError where they do not fit.
    """
    if writer.kind != "record":
        raise SchemaError(f"it is {writer}, and no record")
    if not wanted.loose and writer.name not in (wanted.name, *wanted.aliases):
        raise SchemaError(f"it is of the record {writer.name}, and not of {wanted.name}")
    return record_fields(writer, wanted)
