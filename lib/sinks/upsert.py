"""Upsert into a Delta table by key: replace rows, or add partials up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merged, merges
from ..columns import escaped, names, quoted, quoted_in, require, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.guarded import NEW, OLD, guarded, set_to
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnError
from ..frames import sole
from ._targets import require_target
from .append import counts

_SEEN = "__tidegate_seen"
_PRINT = "__tidegate_print"


@dataclass(frozen=True)
class Upsert:
    """Write each batch's rows over the rows of the same key, exactly once.

    Without `aggs` a row replaces the row that has its key; two rows of one key in a batch are an
    error. With `aggs`, {column: Aggregate}, the frame holds the keys and one partial for each
    aggregate, and the table holds the merged partials of all batches: the rows that a batch touches
    are read, merged with the batch's and written back. A reader sees the answers by
    `Aggregate.finish` of the columns. Null keys are a key as any other.

    The merge is guarded: where another writer changes a touched row between its reading and the
    commit, nothing is written. Each batch scans the table for its keys, so partition or cluster the
    table by what keys have in common, such as a window's day. Columns and `evolve` are as for
    `Append`.

    Raises:
        ArgumentError: at construction.
        ColumnError (duplicate keys), TableError (other columns), ReplayMismatchError,
            ConflictError: for a batch.

    >>> Upsert("/data/views", keys=["page"]).step
    'upsert'
    """

    path: str
    _: KW_ONLY
    keys: Sequence[str]
    aggs: Mapping[str, Aggregate] | None = None
    layout: Layout = ANY
    step: str = "upsert"
    evolve: bool = False

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)
        if isinstance(self.keys, str) or not names(self.keys, "keys"):
            raise ArgumentError(
                f"keys is {self.keys!r}.", "a list of at least one column.", 'keys=["page"]'
            )
        both = sorted(set(self.keys) & set(self.aggs or ()))
        if both:
            raise ColumnError(f"{', '.join(both)} is a key and an aggregate.", "one of the two.")

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table."""
        return [(self.path, self.step)]

    def require_fits(self, frames: Mapping[str, DataFrame]) -> None:
        """Refuse rows of other columns than the table has, by their types alone."""
        rows = self._rows(sole(frames))
        table.existing(rows, self.path, self.layout, evolve=self.evolve)

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Upsert the rows, or skip them when the table already has this batch."""
        frame = sole(frames)
        rows = self._rows(frame)

        def commit(options: CommitOptions) -> None:
            if self.aggs:
                self._add(rows, self.aggs, options)
            else:
                self._replace(rows, options)

        spark = frame.sparkSession
        return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))

    def _rows(self, frame: DataFrame) -> DataFrame:
        """Return the columns that are written."""
        written = [*self.keys, *(self.aggs or ())]
        require(frame, written, "keys and aggs")
        rows = table.plain(frame)
        return rows.select(*map(quoted, written)) if self.aggs else rows

    def _replace(self, rows: DataFrame, options: CommitOptions) -> None:
        """Write rows in place of those of the same key."""
        state = table.existing(rows, self.path, self.layout, evolve=self.evolve)
        self._require_single(rows)
        if state is None:
            table.append(rows, self.path, options, self.layout)
            return
        values = set_to(rows.columns)
        updated = self._but_keys(values)
        self._merge(rows, updated, values, options)

    def _add(self, rows: DataFrame, aggs: Mapping[str, Aggregate], options: CommitOptions) -> None:
        """Write rows of partials, merged with those that the table has."""
        state = table.existing(rows, self.path, self.layout, evolve=self.evolve)
        if state is None:
            first = merged(rows, self.keys, aggs)
            table.append(first, self.path, options, self.layout)
            return
        target = DeltaTable.forPath(rows.sparkSession, self.path).toDF()
        source = self._added(target, rows, aggs)

        # One aggregate's value bears the guard of the whole row.
        guard = next(iter(aggs))
        value = quoted_in(NEW, guard)
        kind = rows.schema[guard].dataType
        unchanged = _print(OLD, aggs).eqNullSafe(quoted_in(NEW, _PRINT))
        updated = self._but_keys(set_to(rows.columns))
        updated[escaped(guard)] = guarded(value, unchanged, kind)
        inserted = set_to(rows.columns)
        inserted[escaped(guard)] = guarded(value, ~quoted_in(NEW, _SEEN), kind)
        self._merge(source, updated, inserted, options)

    def _merge(
        self,
        source: DataFrame,
        updated: dict[str, str | Column],
        inserted: dict[str, str | Column],
        options: CommitOptions,
    ) -> None:
        spark = source.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        merge = target.alias(OLD).merge(source.alias(NEW), same_key(self.keys, OLD, NEW))
        if self.evolve:
            merge = merge.withSchemaEvolution()
        if updated:
            merge = merge.whenMatchedUpdate(set=updated)
        options.merge(spark, self.path, merge.whenNotMatchedInsert(values=inserted))

    def _added(
        self, target: DataFrame, rows: DataFrame, aggs: Mapping[str, Aggregate]
    ) -> DataFrame:
        """Return, for each key of the batch, its partials merged with the table's.

        Beside them: whether the table had the key, and a print of what it had.
        """
        touched = target.alias(OLD).join(
            rows.alias(NEW), same_key(self.keys, OLD, NEW), "left_semi"
        )
        old = touched.select(
            *[quoted(name) for name in rows.columns],
            F.lit(True).alias(_SEEN),
            _print(OLD, aggs).alias(_PRINT),
        )
        new = rows.withColumns({_SEEN: F.lit(False), _PRINT: F.lit(None).cast("bigint")})
        both = old.unionByName(new)
        merging = [merge.alias(name) for name, merge in merges(rows, aggs).items()]
        told = [F.max(name).alias(name) for name in (_SEEN, _PRINT)]
        return both.groupBy(*map(quoted, self.keys)).agg(*merging, *told)

    def _but_keys(self, values: Mapping[str, str | Column]) -> dict[str, str | Column]:
        """Return what is set in a row that has its key already."""
        keys = {escaped(name) for name in self.keys}
        return {name: value for name, value in values.items() if name not in keys}

    def _require_single(self, rows: DataFrame) -> None:
        twice = rows.groupBy(*map(quoted, self.keys)).count().where(F.col("count") > 1).head()
        if twice is not None:
            key = {name: twice[at] for at, name in enumerate(self.keys)}
            raise ColumnError(
                f"the batch has {twice[-1]} rows of the key {key}; nothing was written to "
                f"{self.path}.",
                "one row a key.",
                "aggregate or deduplicate before the sink, or give aggs= to add partials up.",
            )


def _print(alias: str, aggs: Mapping[str, Aggregate]) -> Column:
    """Return a hash of a row's partials, by which two states of the row are told apart."""
    return F.xxhash64(*[quoted_in(alias, name) for name in aggs])
