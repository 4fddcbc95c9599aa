"""Protobuf messages of a batch, bare or behind a schema registry's header."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from .._arrow.batches import NO_VALUE, finished, reasons
from .._arrow.places import BROKEN, Faults, Places, places
from .._schema_ids import Schemas, by_schema, schema_ids
from ._names import name_at
from ._reading import message_fields
from ._schema import Declared

_MOST_INDEXES = 64


@dataclass
class ProtoReader:
    """Reads values that are a message; those behind a header have to name it."""

    declared: Declared
    columns: tuple[str, ...]
    required: tuple[str, ...]
    shape: Any
    schemas: Schemas | None
    _known: dict[tuple[int, tuple[int, ...]], str | None] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null where there is none, and the reasons as texts."""
        found = places(values, Faults(), NO_VALUE)
        if self.schemas is not None:
            self._pass_header(found)
        message = self.declared.message
        fields = message_fields(message)(found)
        by_name = dict(zip((each.name for each in message.fields), fields, strict=True))
        for name in self.required:
            missing = by_name[name].is_null().to_numpy(zero_copy_only=False)
            found.fail(missing, f"missing field: {name}")
        chosen = [by_name[name] for name in self.columns]
        records = finished(found, chosen, self.shape)
        return records, self._reasons(found, values)

    def _reasons(self, found: Places, values: Any) -> pa.Array:
        # A message of which nothing is set has no bytes.
        return reasons(found, values) if self.schemas else found.faults.texts(found.fault)

    def _pass_header(self, found: Places) -> None:
        for number, rows in by_schema(found, schema_ids(found)):
            part = found.take(rows)
            for indexes, some in _indexes(part):
                why = self._other(number, indexes)
                if why is not None:
                    part.fail(some, why)
            found.put(rows, part)

    def _other(self, number: int, indexes: tuple[int, ...]) -> str | None:
        """Return why a message is not the one that is read; None where it is."""
        place = (number, indexes)
        if place not in self._known:
            assert self.schemas is not None
            schema = self.schemas.by_id(number)
            if schema is None:
                return f"unknown schema id: {number}"
            name = name_at(schema.text, indexes) if schema.kind in ("PROTOBUF", "") else None
            wanted = self.declared.message.name
            self._known[place] = (
                None
                if name == wanted
                else f"schema {number} has {name or 'no message'} at {list(indexes)}, not {wanted}"
            )
        return self._known[place]


def _indexes(part: Places) -> list[tuple[tuple[int, ...], Any]]:
    """Read which message of its schema each value is, with the rows of each."""
    count = part.zigzag()
    part.fail((count < 0) | (count > _MOST_INDEXES), BROKEN)
    # No number at all is the first message.
    found = np.zeros((len(part), int(count.max(initial=0)) + 1), np.int64)
    for at in range(found.shape[1] - 1):
        rows = np.flatnonzero((part.fault == 0) & (count > at))
        one = part.take(rows)
        found[rows, at] = one.zigzag()
        part.put(rows, one)
    fine = part.fault == 0
    keyed = np.column_stack([np.maximum(count, 1), found])
    chosen = np.unique(keyed[fine], axis=0)
    return [
        (tuple(row[1 : 1 + row[0]].tolist()), np.flatnonzero(fine & (keyed == row).all(axis=1)))
        for row in chosen
    ]
