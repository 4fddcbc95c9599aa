"""A table maintained from its changelog, as an operand of views.

The table stores a log of row versions with two copies per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import (
    quoted_column,
    require_column_names,
    require_columns,
    require_integer,
    require_storable_names,
)
from ..delta.commit_options import CommitOptions
from ..errors import ArgumentError, ColumnError
from ..joins.incremental_join import WEIGHT
from ._incremental import ALL_ROWS, Evaluation, KeyLookup, Relation, broadcast_if_small
from .bucketing import (
    BUCKET,
    RECENT,
    any_null,
    bucket,
    bucket_writer,
    compact_table,
    read_buckets,
    require_bucketed_schema,
)

_COPY = "_copy"
_BATCH = "_batch"
DELETED = "_gone"
RESERVED = (BUCKET, WEIGHT, _COPY, _BATCH, DELETED)
"""Reserved columns of the stored tables."""

_BY_KEY = "key"
_BY_LOOKUP = "lookup"
_OLD = "__tidegate_old"
_NEW = "__tidegate_new"
_ROW = "__tidegate_row"
_BY = "__tidegate_by"
_STORED_POSITION = "__tidegate_known"
_CHANGE = "__tidegate_change"
_STORED_VERSION = "__tidegate_stored"
_APPLIES = "__tidegate_counts"


def _is_changed() -> Column:
    """Return whether a change leaves a row different."""
    return ~quoted_column(_OLD).eqNullSafe(quoted_column(_NEW))


def require_free_names(frame: DataFrame, path: str) -> None:
    """Refuse columns whose names are reserved in the stored tables."""
    reserved = [name for name in frame.columns if name.lower() in RESERVED]
    if reserved:
        raise ColumnError(
            f"reserved column name: {', '.join(reserved)} in {path}",
            f"names other than {', '.join(RESERVED)}",
        )


@dataclass(frozen=True)
class KeyedTable(Relation):
    """A table maintained from its changelog, as one side of a `View`; not a sink itself.

    Of the changes of a key, the one with the highest position is applied, unless a higher one is
    stored: changes may be repeated and in any order. An equal position is applied again. A deleted
    key is stored forever with its position.

    The Delta table at `path` has an internal format, a log of row versions. Each row is stored
    twice, by key and by `lookup_by`; of a deleted row only the copy by key remains. A batch appends
    two rows per change, three if `lookup_by` changed. Columns of type map are not supported.

    Args:
        path: path of the Delta table.
        output: name of the commits in the application id.
        input: name of the job's input that contains the changes.
        key: the primary key. A change with a null in the key is not applied; a job writes it to its
            dead letters.
        lookup_by: the columns that the view joins on.
        order_by: the columns that order the changes of a key, such as a version, or (partition,
            offset) if all changes of a key are in one partition. The view does not contain them.
        deleted: a boolean column that is true for deletions; other columns are then ignored.
        to_changes: function that returns the changes from the rows of the input: all columns of
            this table, `order_by` and `deleted`. None if the rows are changes.
        buckets: number of buckets; a lookup reads one of them.

    Raises:
        ArgumentError, ColumnError: at construction.

    >>> columns = {"key": "user", "lookup_by": "user", "order_by": "version"}
    >>> KeyedTable("/data/users", output="users", input="users", **columns).lookup_columns
    ['user']
    """

    plan_name: ClassVar[str] = "keyed_table"
    path: str
    _: KW_ONLY
    output: str
    input: str
    key: str | Sequence[str]
    lookup_by: str | Sequence[str]
    order_by: str | Sequence[str]
    deleted: str = "deleted"
    to_changes: Callable[[DataFrame], DataFrame] | None = None
    buckets: int = 64

    def __post_init__(self) -> None:
        require_integer(self.buckets, "buckets", 1, 1_000_000, "buckets=64")
        for argument in ("key", "lookup_by", "order_by"):
            columns = require_column_names(getattr(self, argument), argument)
            if not columns:
                raise ArgumentError(
                    f"invalid {argument}: {getattr(self, argument)!r}",
                    "at least one column",
                    f'{argument}="user"',
                )
            require_storable_names(columns, argument)

    @property
    def keys(self) -> list[str]:
        """The columns of the primary key."""
        return require_column_names(self.key, "key")

    @property
    def lookup_columns(self) -> list[str]:
        """The columns that the view joins on."""
        return require_column_names(self.lookup_by, "lookup_by")

    def changes_in(self, rows: DataFrame) -> DataFrame:
        """Return the changes in the rows of the input, also those with a null in the key."""
        changes = rows if self.to_changes is None else self.to_changes(rows)
        required = [*self.keys, *self.lookup_columns, *self._position, self.deleted]
        require_columns(changes, required, "to_changes")
        return changes

    def source_tables(self) -> list[KeyedTable]:
        """Return this table only."""
        return [self]

    def compute_changes(self, evaluation: Evaluation) -> DataFrame:
        """Return removed and added rows by weight."""
        changed = self._effective_changes(evaluation).where(_is_changed())
        removed = F.struct(F.lit(-1).alias(WEIGHT), quoted_column(_OLD).alias(_ROW))
        added = F.struct(F.lit(1).alias(WEIGHT), quoted_column(_NEW).alias(_ROW))
        rows = changed.select(F.inline(F.array(removed, added)))
        return rows.where(quoted_column(_ROW).isNotNull()).select(f"{_ROW}.*", WEIGHT)

    def read_matching(self, spark: SparkSession, lookup: KeyLookup) -> DataFrame:
        """Return the stored rows that a lookup finds."""
        rows = read_buckets(spark, self.path, lookup.buckets)
        copies = rows.where(quoted_column(_COPY) == _BY_LOOKUP)
        latest = self._latest_per_key(lookup.matching_rows(copies, self.lookup_columns))
        return latest.where(~quoted_column(DELETED)).drop(*RESERVED, *self._position)

    def rows_after(self, evaluation: Evaluation) -> DataFrame:
        """Return all rows after the batch."""
        rows = self._all_keys(evaluation).select(_row_after().alias(_ROW))
        return rows.where(quoted_column(_ROW).isNotNull()).select(f"{_ROW}.*")

    def write_changes(self, evaluation: Evaluation, options: CommitOptions) -> None:
        """Append the versions of the rows that the batch changes."""
        changes = self._effective_changes(evaluation)
        versions = self._rows_to_append(changes, evaluation.batch_number)
        require_bucketed_schema(versions, self.path, self.buckets)
        options.apply_to(bucket_writer(versions, self.buckets)).mode("append").save(self.path)

    def compact(self, spark: SparkSession) -> None:
        """Retain only the newest version of each row."""
        compact_table(
            spark,
            self.path,
            self.buckets,
            merge_recent=self._latest_per_key,
            rebucket=self._rebucketed_rows,
        )

    @property
    def _position(self) -> list[str]:
        return require_column_names(self.order_by, "order_by")

    def _position_value(self) -> Column:
        """Return the position of a change as a struct."""
        return F.struct(*map(quoted_column, self._position))

    def _bucket_of(self, copy: str) -> Column:
        """Return the bucket of a copy."""
        key = [quoted_column(name) for name in self.keys]
        lookup_columns = [quoted_column(name) for name in self.lookup_columns]
        return bucket(key if copy == _BY_KEY else lookup_columns, key, self.buckets)

    def _latest_per_key(self, versions: DataFrame) -> DataFrame:
        """Return the newest version of each copy of a row."""
        lookup_values = F.struct(*map(quoted_column, self.lookup_columns))
        by = F.when(quoted_column(_COPY) == _BY_LOOKUP, lookup_values).alias(_BY)
        latest = F.max_by(F.struct(*map(quoted_column, versions.columns)), _BATCH).alias(_ROW)
        copies = versions.groupBy(_COPY, *map(quoted_column, self.keys), by)
        return copies.agg(latest).select(f"{_ROW}.*")

    def _rows_to_append(self, changes: DataFrame, batch_number: int) -> DataFrame:
        """Return the rows that a batch appends for changes with the old and the new row.

        One copy by key, one by lookup columns, and a delete marker under the old lookup values if
        they changed.
        """
        columns = changes.select(f"{_NEW}.*").columns
        lookup_changed = ~self._lookup_values(_OLD).eqNullSafe(self._lookup_values(_NEW))
        lookup_left = quoted_column(_NEW).isNull() | lookup_changed
        lookup_removed = quoted_column(_OLD).isNotNull() & lookup_left
        lookup_added = quoted_column(_NEW).isNotNull() & _is_changed()
        appended = F.array(
            self._version(_BY_KEY, quoted_column(DELETED), _NEW, columns),
            F.when(lookup_removed, self._version(_BY_LOOKUP, F.lit(True), _OLD, columns)),
            F.when(lookup_added, self._version(_BY_LOOKUP, F.lit(False), _NEW, columns)),
        )
        rows = changes.select(F.explode(appended).alias(_ROW))
        batch = F.lit(batch_number).cast("bigint").alias(_BATCH)
        appended_rows = rows.where(quoted_column(_ROW).isNotNull())
        return appended_rows.select(F.lit(RECENT).alias(BUCKET), batch, f"{_ROW}.*")

    def _rebucketed_rows(self, versions: DataFrame) -> DataFrame:
        """Return both copies of each row in their buckets; of a deleted row the copy by key."""
        latest = self._latest_per_key(versions.where(quoted_column(_COPY) == _BY_KEY))
        others = [quoted_column(name) for name in latest.columns if name not in (BUCKET, _COPY)]

        def copy(name: str) -> Column:
            return F.struct(self._bucket_of(name).alias(BUCKET), F.lit(name).alias(_COPY), *others)

        copies = F.array(copy(_BY_KEY), F.when(~quoted_column(DELETED), copy(_BY_LOOKUP)))
        rows = latest.select(F.explode(copies).alias(_ROW)).where(quoted_column(_ROW).isNotNull())
        return rows.select(f"{_ROW}.*")

    def _version(self, copy: str, is_deleted: Column, row: str, columns: Sequence[str]) -> Column:
        positions = [quoted_column(name).alias(name) for name in self._position]
        values = [self._value(row, name).alias(name) for name in columns]
        return F.struct(F.lit(copy).alias(_COPY), is_deleted.alias(DELETED), *positions, *values)

    def _lookup_values(self, row: str) -> Column:
        return F.struct(*[self._value(row, name).alias(name) for name in self.lookup_columns])

    def _value(self, row: str, name: str) -> Column:
        """Return a value of a row; the key is outside the struct, null for a deleted row."""
        return quoted_column(name) if name in self.keys else quoted_column(row).getField(name)

    def _effective_changes(self, evaluation: Evaluation) -> DataFrame:
        """Return the applied change of each key: row before and after, and position.

        A row that does not exist is null.
        """
        if not evaluation.recompute_all:
            return evaluation.cached_frame(
                self, "effective", lambda: self._compare_with_table(evaluation)
            )
        applied = self._all_keys(evaluation).where(quoted_column(_APPLIES))
        return applied.drop(_APPLIES, _STORED_POSITION)

    def _all_keys(self, evaluation: Evaluation) -> DataFrame:
        """Return every key with its row before and after, and whether a change is applied.

        Columns: the key; the change or nulls; the stored position and row; and the flag. One pass
        over the table and the batch.
        """
        return evaluation.cached_frame(self, ALL_ROWS, lambda: self._merge_changes(evaluation))

    def _merge_changes(self, evaluation: Evaluation) -> DataFrame:
        latest = self._latest_changes(evaluation)
        if evaluation.state(self).version < 0:
            null_columns = {
                _STORED_POSITION: _null_of(self._position_value()),
                _OLD: _null_of(quoted_column(_NEW)),
            }
            return latest.withColumns({**null_columns, _APPLIES: F.lit(True)})
        keys = [quoted_column(name) for name in self.keys]
        change_columns = [quoted_column(name) for name in latest.columns if name not in self.keys]
        changes = latest.select(*keys, F.struct(*change_columns).alias(_CHANGE))
        versions = self._stored_versions(evaluation, latest)
        newest = quoted_column(_STORED_VERSION)
        by_key = (
            changes.unionByName(versions, allowMissingColumns=True)
            .groupBy(*keys)
            .agg(
                F.any_value(quoted_column(_CHANGE), F.lit(True)).alias(_CHANGE),
                F.max_by(newest, newest[_BATCH]).alias(_STORED_VERSION),
            )
        )
        has_change = quoted_column(_CHANGE).isNotNull().alias(_APPLIES)
        stored = [newest[name].alias(name) for name in (_STORED_POSITION, _OLD)]
        rows = by_key.select(*keys, f"{_CHANGE}.*", *stored, has_change)
        return rows.withColumn(_APPLIES, quoted_column(_APPLIES) & self._is_latest)

    def _stored_versions(self, evaluation: Evaluation, latest: DataFrame) -> DataFrame:
        """Return the stored versions by key; from the cache only the newest ones."""
        keys = [quoted_column(name) for name in self.keys]
        stored_position = self._position_value()
        cached = evaluation.previous_full_frame(self)
        if cached is None:
            rows = read_buckets(evaluation.spark, self.path)
            copies = rows.where(quoted_column(_COPY) == _BY_KEY)
            row = self._row_of(latest)
        else:
            copies = cached.withColumn(_BATCH, F.lit(evaluation.batch_number - 1).cast("bigint"))
            was_applied = F.when(quoted_column(_APPLIES), stored_position)
            stored_position = was_applied.otherwise(quoted_column(_STORED_POSITION))
            row = _row_after()
        version = F.struct(_BATCH, stored_position.alias(_STORED_POSITION), row.alias(_OLD))
        return copies.select(*keys, version.alias(_STORED_VERSION))

    def _compare_with_table(self, evaluation: Evaluation) -> DataFrame:
        latest = self._latest_changes(evaluation)
        if evaluation.state(self).version < 0:
            return latest.withColumn(_OLD, _null_of(quoted_column(_NEW)))
        latest = evaluation.cached_frame(self, "newest", lambda: latest)
        by_bucket = latest.groupBy(self._bucket_of(_BY_KEY)).count()
        counts: dict[int, int] = dict(by_bucket.collect())
        count = sum(counts.values())
        stored_rows = self._stored_rows(evaluation.spark, latest, count, counts)
        compared = latest.join(broadcast_if_small(stored_rows, count), self.keys, "left")
        return compared.where(self._is_latest).drop(_STORED_POSITION)

    @property
    def _is_latest(self) -> Column:
        """Whether no higher position of the key is stored."""
        stored = quoted_column(_STORED_POSITION)
        return stored.isNull() | (self._position_value() >= stored)

    def _stored_rows(
        self, spark: SparkSession, latest: DataFrame, count: int, buckets: Iterable[int]
    ) -> DataFrame:
        """Return the stored position and row of the changed keys; null for a deleted row."""
        keys = [quoted_column(name) for name in self.keys]
        copies = read_buckets(spark, self.path, buckets).where(quoted_column(_COPY) == _BY_KEY)
        changed_keys = broadcast_if_small(latest.select(*keys), count)
        stored = self._latest_per_key(copies.join(changed_keys, self.keys, "left_semi"))
        old = self._row_of(latest).alias(_OLD)
        return stored.select(*keys, self._position_value().alias(_STORED_POSITION), old)

    def _row_of(self, latest: DataFrame) -> Column:
        """Return the row of a stored version with the columns of changes; null if deleted."""
        columns = latest.select(f"{_NEW}.*").columns
        return F.when(~quoted_column(DELETED), F.struct(*map(quoted_column, columns)))

    def _latest_changes(self, evaluation: Evaluation) -> DataFrame:
        """Return the key, position, deletion flag and row of the latest change of each key."""
        changes = self.changes_in(evaluation.input(self.input))
        require_free_names(changes, self.path)
        key = [quoted_column(name) for name in self.keys]
        columns = [quoted_column(name) for name in changes.columns]
        # Changes with the same position should be equal; otherwise the choice must be reproducible.
        order = F.struct(self._position_value(), F.xxhash64(*columns))
        latest_change = F.max_by(F.struct(*columns), order).alias(_ROW)
        keyed_changes = changes.where(~any_null(key))
        latest = keyed_changes.groupBy(*key).agg(latest_change).select(f"{_ROW}.*")
        is_deleted = F.coalesce(quoted_column(self.deleted), F.lit(False))
        not_in_row = (*self._position, self.deleted)
        row = F.struct(*[quoted_column(name) for name in changes.columns if name not in not_in_row])
        position = [quoted_column(name) for name in self._position]
        new = F.when(~is_deleted, row).alias(_NEW)
        return latest.select(*key, *position, is_deleted.alias(DELETED), new)


def _row_after() -> Column:
    """Return the row of a key after the batch, from the columns of `_all_keys`; null if deleted."""
    return F.when(quoted_column(_APPLIES), quoted_column(_NEW)).otherwise(quoted_column(_OLD))


def _null_of(column: Column) -> Column:
    """Return a null of the type of a column."""
    return F.when(F.lit(False), column)
