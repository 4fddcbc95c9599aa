"""Upsert into a Delta table by key: replace rows, or add partials up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CHANGED, CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnError
from .append import counts
from .sink import sole

if TYPE_CHECKING:
    from ..aggregates import Aggregate

_SEEN, _PRINT = "__tidegate_seen", "__tidegate_print"


@dataclass(frozen=True)
class Upsert:
    """Write each batch's rows over those of the same key, exactly once.

    Without `aggs` a row replaces the one that has its key; two rows of one key in a batch are an
    error. With `aggs`, {column: Aggregate}, the frame holds the keys and one partial per aggregate,
    and the table the merged partials of
    all batches: the rows that the batch touches are read, merged with the batch's and written back;
    what a reader sees is `Aggregate.finish` over the column. Null keys are a key as any other.

    The merge is guarded: should another writer change a touched row between its reading and the
    commit, nothing is written. Each batch scans the table for its keys, so partition or cluster it
    by what keys have in common, a window's day for one. Columns and `evolve` as for `Append`. A
    Spark that is stopped between two settings of the session
    leaves none behind: they are unset after success and failure.

    Raises ArgumentError, ColumnError (duplicate keys), ConfigError, ReplayMismatchError,
    ConflictError.

    >>> Upsert(path="/data/views", keys=["page"]).step
    'upsert'
    """

    path: str
    _: KW_ONLY
    keys: Sequence[str]
    aggs: Mapping[str, Aggregate] | None = None
    partition_by: Sequence[str] = ()
    step: str = "upsert"
    evolve: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.keys, str) or not names(self.keys, "keys"):
            raise ArgumentError(
                f"keys is {self.keys!r}.", "a list of at least one column.", 'keys=["page"]'
            )
        both = sorted(set(self.keys) & set(self.aggs or ()))
        if both:
            raise ColumnError(f"{', '.join(both)} is a key and an aggregate.", "one of the two.")

    def tables(self) -> list[tuple[str, str]]:
        """List the one table."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Upsert the rows, or skip them when the table already has this batch."""
        frame = sole(frames)
        require(frame, [*self.keys, *(self.aggs or ())], "keys and aggs")

        def write(options: CommitOptions) -> None:
            rows = table.plain(frame)
            if self.aggs:
                rows = rows.select(*map(quoted, self.keys), *map(quoted, self.aggs))
            state = table.existing(rows, self.path, self.partition_by, evolve=self.evolve)
            if not self.aggs:
                self._require_single(rows)
            if state is None:
                first = self._merged(rows, self.aggs) if self.aggs else rows
                table.append(first, self.path, self.partition_by, options)
            else:
                self._merge(rows, options)

        return commit_once(frame.sparkSession, self.path, batch, self.step, write, counts(rows_out))

    def _merge(self, rows: DataFrame, options: CommitOptions) -> None:
        spark = rows.sparkSession
        target = DeltaTable.forPath(spark, self.path)
        source = self._added(target.toDF(), rows, self.aggs) if self.aggs else rows
        inserted: dict[str, str | Column] = {name: quoted_in("new", name) for name in rows.columns}
        updated = {name: value for name, value in inserted.items() if name not in self.keys}
        if self.aggs:
            # The row that was read must still be the row that is replaced: else two writers'
            # partials would be lost. It stands in a value, as Delta works out the clauses'
            # conditions for rows that they do not concern as well.
            first, kind = next(iter(self.aggs)), rows.schema[next(iter(self.aggs))].dataType
            value, refuse = quoted_in("new", first), F.raise_error(F.lit(CHANGED)).cast(kind)
            unchanged = _fingerprint("old", self.aggs).eqNullSafe(quoted_in("new", _PRINT))
            updated[first] = F.when(unchanged, value).otherwise(refuse)
            inserted[first] = F.when(quoted_in("new", _SEEN), refuse).otherwise(value)
        merge = target.alias("old").merge(source.alias("new"), self._same("old", "new"))
        if self.evolve:
            merge = merge.withSchemaEvolution()
        if updated:
            merge = merge.whenMatchedUpdate(set=updated)
        options.merge(spark, self.path, merge.whenNotMatchedInsert(values=inserted))

    def _added(
        self, target: DataFrame, rows: DataFrame, aggs: Mapping[str, Aggregate]
    ) -> DataFrame:
        """Return, for each key of the batch, its partials merged with the table's, and a print of
        what the table had."""
        touched = target.alias("old").join(rows.alias("new"), self._same("old", "new"), "left_semi")
        old = touched.select(
            *[quoted(name) for name in rows.columns],
            F.lit(True).alias(_SEEN),
            _fingerprint("old", aggs).alias(_PRINT),
        )
        new = rows.withColumns({_SEEN: F.lit(False), _PRINT: F.lit(None).cast("bigint")})
        return self._merged(
            old.unionByName(new), aggs, F.max(_SEEN).alias(_SEEN), F.max(_PRINT).alias(_PRINT)
        )

    def _merged(self, rows: DataFrame, aggs: Mapping[str, Aggregate], *more: Column) -> DataFrame:
        merged = [agg.merge(quoted(name)).alias(name) for name, agg in aggs.items()]
        return rows.groupBy(*map(quoted, self.keys)).agg(*merged, *more)

    def _same(self, left: str, right: str) -> Column:
        pairs = [quoted_in(left, key).eqNullSafe(quoted_in(right, key)) for key in self.keys]
        return reduce(lambda a, b: a & b, pairs)

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


def quoted_in(alias: str, name: str) -> Column:
    """Return a column of an aliased frame, whatever characters are in its name."""
    return F.col(f"{alias}.`{name.replace('`', '``')}`")


def _fingerprint(alias: str, aggs: Mapping[str, Aggregate]) -> Column:
    return F.xxhash64(*[quoted_in(alias, name) for name in aggs])
