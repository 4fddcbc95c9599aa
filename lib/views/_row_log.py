"""How a keyed table is stored: a log of row versions, in which each row stands twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..errors import ColumnError
from ..joins.table_table import WEIGHT
from ._buckets import BUCKET, RECENT, bucket

COPY = "_copy"
BATCH = "_batch"
GONE = "_gone"
RESERVED = (BUCKET, WEIGHT, COPY, BATCH, GONE)
"""The columns that the stored tables have of their own."""

BY_KEY = "key"
BY_LOOKUP = "lookup"
OLD = "__tidegate_old"
NEW = "__tidegate_new"
_ROW = "__tidegate_row"
_BY = "__tidegate_by"


@dataclass(frozen=True)
class RowLog:
    """A log of row versions, of which the newest counts.

    A row has a copy that is found by its key, and one that is found by the columns `found_by`. Of a
    row that is gone the copy by its key remains, with its position.
    """

    keys: Sequence[str]
    found_by: Sequence[str]
    position: Sequence[str]
    buckets: int

    def place(self) -> Column:
        """Return a change's position, as one value."""
        return F.struct(*map(quoted, self.position))

    def bucket(self, copy: str) -> Column:
        """Return the bucket of one of a row's copies."""
        key = [quoted(name) for name in self.keys]
        by = [quoted(name) for name in self.found_by]
        return bucket(key if copy == BY_KEY else by, key, self.buckets)

    def newest(self, versions: DataFrame) -> DataFrame:
        """Return the newest version of each copy of a row."""
        by = F.when(quoted(COPY) == BY_LOOKUP, F.struct(*map(quoted, self.found_by))).alias(_BY)
        newest = F.max_by(F.struct(*map(quoted, versions.columns)), BATCH).alias(_ROW)
        copies = versions.groupBy(quoted(COPY), *map(quoted, self.keys), by)
        return copies.agg(newest).select(f"{_ROW}.*")

    def rows(self, versions: DataFrame) -> DataFrame:
        """Return the rows that these versions leave, without those that are gone."""
        return self.newest(versions).where(~quoted(GONE)).drop(*RESERVED, *self.position)

    def versions(self, changes: DataFrame, number: int) -> DataFrame:
        """Return what a batch appends for its changes, which have each row as it was and as it is.

        That is the copy by the key; the copy by the lookup columns; and, where these have changed,
        that the row is no longer found where it was.
        """
        columns = changes.select(f"{NEW}.*").columns
        moved = ~self._lookup_values(OLD).eqNullSafe(self._lookup_values(NEW))
        left = quoted(OLD).isNotNull() & (quoted(NEW).isNull() | moved)
        arrived = quoted(NEW).isNotNull() & differs()
        appended = F.array(
            self._version(BY_KEY, quoted(GONE), NEW, columns),
            F.when(left, self._version(BY_LOOKUP, F.lit(True), OLD, columns)),
            F.when(arrived, self._version(BY_LOOKUP, F.lit(False), NEW, columns)),
        )
        rows = changes.select(F.explode(appended).alias(_ROW)).where(quoted(_ROW).isNotNull())
        batch = F.lit(number).cast("bigint").alias(BATCH)
        return rows.select(F.lit(RECENT).alias(BUCKET), batch, f"{_ROW}.*")

    def placed(self, versions: DataFrame) -> DataFrame:
        """Return both copies of each row in their buckets; of one that is gone, that by the key."""
        newest = self.newest(versions.where(quoted(COPY) == BY_KEY))
        others = [quoted(name) for name in newest.columns if name not in (BUCKET, COPY)]

        def copy(name: str) -> Column:
            return F.struct(self.bucket(name).alias(BUCKET), F.lit(name).alias(COPY), *others)

        copies = F.array(copy(BY_KEY), F.when(~quoted(GONE), copy(BY_LOOKUP)))
        rows = newest.select(F.explode(copies).alias(_ROW)).where(quoted(_ROW).isNotNull())
        return rows.select(f"{_ROW}.*")

    def _version(self, copy: str, gone: Column, row: str, columns: Sequence[str]) -> Column:
        positions = [quoted(name).alias(name) for name in self.position]
        values = [self._value(row, name).alias(name) for name in columns]
        return F.struct(F.lit(copy).alias(COPY), gone.alias(GONE), *positions, *values)

    def _lookup_values(self, row: str) -> Column:
        return F.struct(*[self._value(row, name).alias(name) for name in self.found_by])

    def _value(self, row: str, name: str) -> Column:
        """Return a row's value; the key stands beside the rows, since one that is gone is null."""
        return quoted(name) if name in self.keys else quoted(row).getField(name)


def differs() -> Column:
    """Return whether a change leaves a row other than it was."""
    return ~quoted(OLD).eqNullSafe(quoted(NEW))


def require_free_names(frame: DataFrame, path: str) -> None:
    """Refuse columns whose names the stored tables need."""
    taken = [name for name in frame.columns if name.lower() in RESERVED]
    if taken:
        raise ColumnError(
            f"{', '.join(taken)} would be a column of {path}.",
            f"names other than {', '.join(RESERVED)}.",
        )
