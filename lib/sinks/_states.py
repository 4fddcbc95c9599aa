"""A table of states, one a key: bound to what made it, and guarded against other writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from ..changes.fold import MARK, MARKED, differing
from ..changes.folding import FAULT, WAS
from ..columns import escaped, quoted, quoted_in, same_key
from ..commit import table
from ..commit.guarded import NEW, OLD, guarded, set_to
from ..commit.layout import ANY, Layout
from ..commit.options import CommitOptions
from ..errors import ColumnError, TableError


@dataclass(frozen=True)
class StateTable:
    """The table at a path; `told` is what decides about its states."""

    path: str
    key: Sequence[str]
    told: str
    layout: Layout = ANY

    def stored(self, rows: DataFrame) -> DataFrame | None:
        """Return the states that there are; None without a table.

        Raises TableError for a table of other columns than these rows have, or of another fold.
        """
        state = table.existing(rows, self.path, self.layout, evolve=False)
        if state is None:
            return None
        told = state.schema()[MARKED].metadata.get(MARK, "")
        if told != self.told:
            raise TableError(
                f"{self.path} is of another fold: {', '.join(differing(told, self.told))} differ.",
                "the fold that made the table.",
                "a job of its own with new tables, which catches up with backlog=0; nothing was "
                "written.",
            )
        return rows.sparkSession.read.format("delta").load(self.path)

    def require_sound(self, rows: DataFrame) -> None:
        """Refuse rows of which one has a fault, and tell it."""
        found = rows.where(quoted(FAULT).isNotNull()).select(FAULT).head()
        if found is not None:
            raise ColumnError(
                f"{found[0]}; nothing was written to {self.path}.",
                "all events of a key in one partition, each of a type that the fold names.",
                "records that bear the key as Kafka's key; or unknown='ignore' in the fold.",
            )

    def append(self, rows: DataFrame, options: CommitOptions) -> None:
        """Append states; the first ones make the table, which tells what decides about them."""
        marked = table.plain(rows).withMetadata(MARKED, {MARK: self.told})
        table.put(marked, self.path, options, self.layout)

    def replace(self, rows: DataFrame, options: CommitOptions) -> None:
        """Write states in place of those that their keys had, as WAS tells them."""
        # A key of which all rows were read before stays as it is.
        moved = rows.where(quoted(WAS).isNull() | (quoted("offset") > quoted(WAS)))
        if self.stored(moved.drop(WAS)) is None:
            self.append(moved.drop(WAS), options)
        else:
            self._merge(moved, options)

    def _merge(self, rows: DataFrame, options: CommitOptions) -> None:
        spark = rows.sparkSession
        columns = [name for name in rows.columns if name != WAS]
        offset = quoted_in(NEW, "offset")
        was = quoted_in(NEW, WAS)
        unchanged = quoted_in(OLD, "offset").eqNullSafe(was)
        updated = set_to(columns)
        updated[escaped("offset")] = guarded(offset, unchanged, "bigint")
        inserted = set_to(columns)
        inserted[escaped("offset")] = guarded(offset, was.isNull(), "bigint")
        merge = (
            DeltaTable.forPath(spark, self.path)
            .alias(OLD)
            .merge(rows.alias(NEW), same_key(self.key))
            .whenMatchedUpdate(set=updated)
            .whenNotMatchedInsert(values=inserted)
        )
        options.merge(spark, self.path, merge)
