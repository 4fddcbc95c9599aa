"""The header of a schema registry: a zero byte and the id of the schema in four bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ._arrow.cursors import Cursors, NumpyArray

NO_HEADER = "no schema header"
WRONG_MAGIC = "wrong magic byte"
HEADER_BYTES = 5


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
