"""Rows of small tables, kept from one batch to the next: to read them again would cost more."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from ..jvm import DeltaState, is_kept, release


class Memory:
    """What small tables hold since the last batch, as long as nothing else is written to them."""

    def __init__(self) -> None:
        self._rows: Mapping[str, tuple[DeltaState, DataFrame]] = {}

    def rows(self, path: str, now: DeltaState) -> DataFrame | None:
        """Return what was kept of a table.

        None where nothing was, where the table is another now, and where an executor that kept some
        of it is lost.
        """
        if path not in self._rows:
            return None
        then, rows = self._rows[path]
        return rows if now.is_same(then) and is_kept(rows) else None

    def replace(self, rows: Mapping[str, tuple[DeltaState, DataFrame]]) -> None:
        """Keep these rows of each table in its state, and let the memory of the others go."""
        for _, before in self._rows.values():
            release(before)
        self._rows = rows
