"""A table kept current by its changelog: what a view is joined from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import names, quoted, require, require_storable, require_whole
from ..commit.options import CommitOptions
from ..errors import ArgumentError
from ..joins.table_table import WEIGHT
from ..jvm import delta_state
from ._buckets import compact, existing, read, writer
from ._evaluation import Evaluation, Lookup, Relation, sent
from ._newest_changes import newest_changes
from ._row_log import (
    BATCH,
    BY_KEY,
    BY_LOOKUP,
    COPY,
    GONE,
    NEW,
    OLD,
    RowLog,
    differs,
    require_free_names,
)

_ROW = "__tidegate_row"
_KNOWN = "__tidegate_known"
_CHANGE = "__tidegate_change"
_STORED = "__tidegate_stored"
_COUNTS = "__tidegate_counts"


@dataclass(frozen=True)
class KeyedTable:
    """A table that a changelog keeps current, as one side of a `View`; not a sink by itself.

    Of the changes of a key in a batch the one with the highest position counts, and it counts
    unless a higher one is known: changes may come twice and in any order. An equal position applies
    again. That a key was deleted is remembered for ever, with its position.

    The Delta table at `path` is this library's own: a log of row versions, of which the newest
    counts. Each row stands in it twice, to be found by its key and by `by`. A batch appends two
    rows for each change, three where `by` changed. No column can be a map.

    Args:
        path: the Delta table.
        step: the name of its commits in the application id.
        rows_of: the name of the job's input that holds the changes.
        key: the primary key. A change whose key has a null stops the batch, so make these fields
            NOT NULL in the reading's schema, which turns such records into dead letters.
        by: the columns that the view joins on.
        position: the columns that order the changes of a key, the first one first: a version, or a
            log's (partition, offset) where all changes of a key are in one partition. They and
            `deleted` are no columns of the view.
        deleted: a boolean column; where it is true the key's row goes, and the change's other
            columns count for nothing.
        changes: makes the changes of the input's rows: all columns of this table, `position` and
            `deleted`. None takes the rows as they are.
        buckets: into how many parts the table is cut: to look a key up is to read one of them.

    Raises:
        ArgumentError, ColumnError: at construction.

    >>> users = {"step": "users", "rows_of": "users", "key": "user", "by": "user"}
    >>> KeyedTable("/data/users", **users, position="at").found_by
    ['user']
    """

    path: str
    _: KW_ONLY
    step: str
    rows_of: str
    key: str | Sequence[str]
    by: str | Sequence[str]
    position: str | Sequence[str]
    deleted: str = "deleted"
    changes: Callable[[DataFrame], DataFrame] | None = None
    buckets: int = 64

    def __post_init__(self) -> None:
        require_whole(self.buckets, "buckets", 1, 1_000_000, "buckets=64")
        for what in ("key", "by", "position"):
            given = names(getattr(self, what), what)
            if not given:
                raise ArgumentError(
                    f"{what} names no column.", "one column or more.", f'{what}="user"'
                )
            require_storable(given, what)

    @property
    def keys(self) -> list[str]:
        """The columns of the primary key."""
        return names(self.key, "key")

    @property
    def found_by(self) -> list[str]:
        """The columns that the view joins on."""
        return names(self.by, "by")

    def members(self) -> list[Relation]:
        """List this table alone."""
        return [self]

    def evaluate(self, evaluation: Evaluation) -> DataFrame:
        """Return the rows that the batch removes and adds, by weight."""
        moved = self._effective(evaluation).where(differs())
        goes = F.struct(F.lit(-1).alias(WEIGHT), quoted(OLD).alias(_ROW))
        comes = F.struct(F.lit(1).alias(WEIGHT), quoted(NEW).alias(_ROW))
        rows = moved.select(F.inline(F.array(goes, comes))).where(quoted(_ROW).isNotNull())
        return rows.select(f"{_ROW}.*", WEIGHT)

    def stored(self, spark: SparkSession, lookup: Lookup) -> DataFrame | None:
        """Return the rows that `by` finds."""
        if delta_state(spark, self.path).version < 0:
            return None
        copies = read(spark, self.path, lookup.buckets).where(quoted(COPY) == BY_LOOKUP)
        return self._log.rows(lookup.matches(copies, self.found_by))

    def after(self, evaluation: Evaluation) -> DataFrame:
        """Return all rows as the batch leaves them."""
        rows = self._whole(evaluation).select(_row_after().alias(_ROW))
        return rows.where(quoted(_ROW).isNotNull()).select(f"{_ROW}.*")

    def store(self, evaluation: Evaluation, options: CommitOptions) -> None:
        """Append the versions of the rows that the batch changes."""
        versions = self._log.versions(self._effective(evaluation), evaluation.number)
        existing(versions, self.path, self.buckets)
        options.on(writer(versions, self.buckets)).mode("append").save(self.path)

    def compact(self, spark: SparkSession) -> None:
        """Leave of each row the newest version."""
        log = self._log
        compact(spark, self.path, self.buckets, together=log.newest, placed=log.placed)

    @property
    def _log(self) -> RowLog:
        position = names(self.position, "position")
        return RowLog(self.keys, self.found_by, position, self.buckets)

    def _effective(self, evaluation: Evaluation) -> DataFrame:
        """Return for each key the change that counts: the row before and after, and the position.

        A row that there is not is null.
        """
        if evaluation.anew:
            return self._whole(evaluation).where(quoted(_COUNTS)).drop(_COUNTS, _KNOWN)
        return evaluation.kept(self, "effective", lambda: self._compared(evaluation))

    def _whole(self, evaluation: Evaluation) -> DataFrame:
        """Return every key with its row before and after, and whether a change counts for it.

        Columns: the key; the change, null without one; the position and the row that are known; and
        whether the change counts. One pass over the table and the batch: where all rows are read,
        to look up those that the batch changes would be a second one.
        """
        return evaluation.whole(self, lambda: self._merged(evaluation))

    def _merged(self, evaluation: Evaluation) -> DataFrame:
        newest = self._newest(evaluation)
        if evaluation.state(self).version < 0:
            nothing = {_KNOWN: _null_of(self._log.place()), OLD: _null_of(quoted(NEW))}
            return newest.withColumns({**nothing, _COUNTS: F.lit(True)})
        keys = [quoted(name) for name in self.keys]
        told = [quoted(name) for name in newest.columns if name not in self.keys]
        changes = newest.select(*keys, F.struct(*told).alias(_CHANGE))
        both = changes.unionByName(self._versions(evaluation, newest), allowMissingColumns=True)
        found = both.groupBy(*keys).agg(
            F.any_value(quoted(_CHANGE), F.lit(True)).alias(_CHANGE),
            F.max_by(quoted(_STORED), quoted(_STORED)[BATCH]).alias(_STORED),
        )
        changed = quoted(_CHANGE).isNotNull().alias(_COUNTS)
        stored = [quoted(_STORED)[name].alias(name) for name in (_KNOWN, OLD)]
        rows = found.select(*keys, f"{_CHANGE}.*", *stored, changed)
        return rows.withColumn(_COUNTS, quoted(_COUNTS) & self._is_newest)

    def _versions(self, evaluation: Evaluation, newest: DataFrame) -> DataFrame:
        """Return the table's versions, each beside its key; of those in memory the newest alone."""
        keys = [quoted(name) for name in self.keys]
        last = evaluation.last_whole(self)
        if last is None:
            copies = read(evaluation.spark, self.path).where(quoted(COPY) == BY_KEY)
            known, row = self._log.place(), self._row_of(newest)
        else:
            copies = last.withColumn(BATCH, F.lit(evaluation.number - 1).cast("bigint"))
            known = F.when(quoted(_COUNTS), self._log.place()).otherwise(quoted(_KNOWN))
            row = _row_after()
        version = F.struct(BATCH, known.alias(_KNOWN), row.alias(OLD))
        return copies.select(*keys, version.alias(_STORED))

    def _compared(self, evaluation: Evaluation) -> DataFrame:
        newest = self._newest(evaluation)
        if evaluation.state(self).version < 0:
            return newest.withColumn(OLD, _null_of(quoted(NEW)))
        newest = evaluation.kept(self, "newest", lambda: newest)
        by_bucket = newest.groupBy(self._log.bucket(BY_KEY)).count()
        counts: dict[int, int] = dict(by_bucket.collect())
        count = sum(counts.values())
        known = self._known(evaluation.spark, newest, count, counts)
        found = newest.join(sent(known, count), self.keys, "left")
        return found.where(self._is_newest).drop(_KNOWN)

    @property
    def _is_newest(self) -> Column:
        """Whether no higher position of a change's key is known."""
        return quoted(_KNOWN).isNull() | (self._log.place() >= quoted(_KNOWN))

    def _known(
        self, spark: SparkSession, newest: DataFrame, count: int, buckets: Iterable[int]
    ) -> DataFrame:
        """Return what the table has of the changed keys: the position and the row, null if gone."""
        keys = [quoted(name) for name in self.keys]
        copies = read(spark, self.path, buckets).where(quoted(COPY) == BY_KEY)
        changed = copies.join(sent(newest.select(*keys), count), self.keys, "left_semi")
        stored = self._log.newest(changed)
        old = self._row_of(newest).alias(OLD)
        return stored.select(*keys, self._log.place().alias(_KNOWN), old)

    def _row_of(self, newest: DataFrame) -> Column:
        """Return a stored version's row, with the columns of a change's row; null if it is gone."""
        columns = newest.select(f"{NEW}.*").columns
        return F.when(~quoted(GONE), F.struct(*map(quoted, columns)))

    def _newest(self, evaluation: Evaluation) -> DataFrame:
        rows = evaluation.input(self.rows_of)
        changes = rows if self.changes is None else self.changes(rows)
        wanted = [*self.keys, *self.found_by, *self._log.position, self.deleted]
        require(changes, wanted, "changes")
        require_free_names(changes, self.path)
        return newest_changes(changes, self._log, self.deleted, self.path)


def _row_after() -> Column:
    """Return a key's row as the batch leaves it, null if it is gone; of the columns of `_whole`."""
    return F.when(quoted(_COUNTS), quoted(NEW)).otherwise(quoted(OLD))


def _null_of(column: Column) -> Column:
    """Return a null of a column's type."""
    return F.when(F.lit(False), column)
