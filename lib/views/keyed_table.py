"""A table kept current by its changelog: what a view is joined from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit.options import CommitOptions
from ..errors import ArgumentError
from ..jvm import delta_state
from ._buckets import BUCKET, RECENT, absent, bucket, compact, existing, read, writer
from ._run import (
    BATCH,
    COPY,
    GONE,
    RESERVED,
    WEIGHT,
    Changing,
    Found,
    Run,
    require_free_names,
    sent,
)

BY_KEY, BY_LOOKUP = "key", "lookup"
_NEW, _OLD, _ROW, _KNOWN, _BY = (
    f"__tidegate_{name}" for name in ("new", "old", "row", "known", "by")
)
_WEIGHTS = ((-1, _OLD), (1, _NEW))


@dataclass(frozen=True)
class KeyedTable:
    """A table that a changelog keeps current, as one side of a `View`; not a sink by itself.

    changes: from a batch's rows, the changes of this table: all of its columns, `position` and
    `deleted`.
    key: the primary key; a change whose key has a null stops the batch, so make these fields NOT
        NULL in the reading's schema, which turns such records into dead letters.
    by: the columns that the view joins on.
    position: columns that order the changes of a key, the first one first: a version, or a log's
        (partition, offset) where all changes of a key are in one partition. They and `deleted` are
        no columns of the view.
    deleted: a boolean column; where it is true the key's row goes, and the change's other columns
    count for nothing.
    buckets: into how many parts the table is cut: to look a key up is to read one of them.

    Of the changes of a key in a batch the one with the highest position counts, and it counts
    unless a higher one is
    known: changes may come twice and in any order. An equal position applies again. That a key was
    deleted is remembered for ever, with its position.

    The Delta table at `path` is this library's own: a log of row versions, of which the newest
    counts. Each row stands in it twice, to be found by its key and by `by`. A batch appends two
    rows for each change, three where `by` changed. No column can be a map.

    >>> KeyedTable(path="/data/users", step="users", changes=lambda batch: batch, key="user", by="user", position="at").lookup
    ['user']
    """

    path: str
    _: KW_ONLY
    step: str
    changes: Callable[[DataFrame], DataFrame]
    key: str | Sequence[str]
    by: str | Sequence[str]
    position: str | Sequence[str]
    deleted: str = "deleted"
    buckets: int = 64

    def __post_init__(self) -> None:
        for what in ("key", "by", "position"):
            if not names(getattr(self, what), what):
                raise ArgumentError(
                    f"{what} names no column.", "one column or more.", f'{what}="user"'
                )

    @property
    def keys(self) -> list[str]:
        """The columns of the primary key."""
        return names(self.key, "key")

    @property
    def lookup(self) -> list[str]:
        """The columns that the view joins on."""
        return names(self.by, "by")

    def members(self) -> list[Changing]:
        """List this table alone."""
        return [self]

    def change(self, run: Run) -> DataFrame:
        """Return the rows that the batch removes and adds, by weight."""
        old, new = (
            F.struct(F.lit(weight).alias(WEIGHT), quoted(row).alias(_ROW))
            for weight, row in _WEIGHTS
        )
        moved = run.once(self, "net", lambda: self._net(run)).where(_differs())
        rows = moved.select(F.inline(F.array(old, new))).where(quoted(_ROW).isNotNull())
        return rows.select(f"{_ROW}.*", WEIGHT)

    def rows(self, spark: SparkSession, found: Found) -> DataFrame | None:
        """Return the rows that `by` finds."""
        if delta_state(spark, self.path).version < 0:
            return None
        copies = read(spark, self.path, found.buckets).where(quoted(COPY) == BY_LOOKUP)
        stored = self._newest(found.of(copies, self.lookup)).where(~quoted(GONE))
        return stored.drop(*RESERVED, *self._places)

    def store(self, run: Run, options: CommitOptions) -> None:
        """Append the versions of the rows that the batch changes."""
        versions = self._versions(run.once(self, "net", lambda: self._net(run)), run.number)
        existing(versions, self.path, self.buckets)
        options.on(writer(versions, self.buckets)).mode("append").save(self.path)

    def compact(self, spark: SparkSession) -> None:
        """Leave of each row the newest version."""
        compact(spark, self.path, self.buckets, self._newest, self._placed)

    @property
    def _places(self) -> list[str]:
        return names(self.position, "position")

    def _net(self, run: Run) -> DataFrame:
        """Return for each key the change that counts: the row before and after, or null for none,
        and the position."""
        spark, changes = run.frame.sparkSession, self.changes(run.frame)
        require(changes, [*self.keys, *self.lookup, *self._places, self.deleted], "changes")
        require_free_names(changes, self.path)
        newest = self._last(changes)
        if delta_state(spark, self.path).version < 0:
            return newest.withColumn(_OLD, F.lit(None).cast(newest.schema[_NEW].dataType))
        newest = run.once(self, "newest", lambda: newest)
        places: dict[int, int] = dict(newest.groupBy(self._bucket(BY_KEY)).count().collect())
        found = Found(
            newest.select(*map(quoted, self.keys)), sum(places.values()), frozenset(places)
        )
        copies = read(spark, self.path, found.buckets).where(quoted(COPY) == BY_KEY)
        columns = newest.select(f"{_NEW}.*").columns
        old = self._newest(found.of(copies, self.keys)).select(
            *map(quoted, self.keys),
            self._place().alias(_KNOWN),
            F.when(~quoted(GONE), F.struct(*map(quoted, columns))).alias(_OLD),
        )
        counts = quoted(_KNOWN).isNull() | (self._place() >= quoted(_KNOWN))
        return newest.join(sent(old, found.count), self.keys, "left").where(counts).drop(_KNOWN)

    def _last(self, changes: DataFrame) -> DataFrame:
        """Return of each key the change with the highest position; columns: key, position, gone,
        the row."""
        every = [quoted(name) for name in changes.columns]
        # Changes at one position should be equal; were they not, a batch that runs again must
        # choose the same one.
        order = F.struct(self._place(), F.xxhash64(*every))
        key = [quoted(name) for name in self.keys]
        null = F.raise_error(
            F.lit(f"a change of {self.path} has a null in its key, {', '.join(self.keys)}")
        )
        checked = changes.where(~absent(key) | null.cast("boolean"))
        last = (
            checked.groupBy(*key)
            .agg(F.max_by(F.struct(*every), order).alias(_ROW))
            .select(f"{_ROW}.*")
        )
        gone = F.coalesce(quoted(self.deleted), F.lit(False))
        row = F.struct(
            *[quoted(name) for name in changes.columns if name not in (*self._places, self.deleted)]
        )
        return last.select(
            *key, *map(quoted, self._places), gone.alias(GONE), F.when(~gone, row).alias(_NEW)
        )

    def _bucket(self, copy: str) -> Column:
        """Return the bucket in which a row stands."""
        by, key = ([quoted(name) for name in columns] for columns in (self.lookup, self.keys))
        return bucket(key if copy == BY_KEY else by, key, self.buckets)

    def _versions(self, net: DataFrame, number: int) -> DataFrame:
        """Return what is appended: the row by its key, the row by `by`, and that `by` finds it no
        longer where it did."""
        columns = net.select(f"{_NEW}.*").columns

        def version(copy: str, gone: Column, row: str) -> Column:
            positions = [quoted(name).alias(name) for name in self._places]
            values = [self._value(row, name).alias(name) for name in columns]
            return F.struct(F.lit(copy).alias(COPY), gone.alias(GONE), *positions, *values)

        old, new = (
            F.struct(*[self._value(row, name).alias(name) for name in self.lookup])
            for row in (_OLD, _NEW)
        )
        left = quoted(_OLD).isNotNull() & (quoted(_NEW).isNull() | ~old.eqNullSafe(new))
        arrived = quoted(_NEW).isNotNull() & _differs()
        by_old = F.when(left, version(BY_LOOKUP, F.lit(True), _OLD))
        by_new = F.when(arrived, version(BY_LOOKUP, F.lit(False), _NEW))
        each = net.select(
            F.explode(F.array(version(BY_KEY, quoted(GONE), _NEW), by_old, by_new)).alias(_ROW)
        )
        marks = (F.lit(RECENT).alias(BUCKET), F.lit(number).cast("bigint").alias(BATCH))
        return each.where(quoted(_ROW).isNotNull()).select(*marks, f"{_ROW}.*")

    def _value(self, row: str, name: str) -> Column:
        return quoted(name) if name in self.keys else quoted(row).getField(name)

    def _placed(self, versions: DataFrame) -> DataFrame:
        """Return each row twice, in the buckets of its key and of `by`; of one that is gone the key
        remains."""
        newest = self._newest(versions.where(quoted(COPY) == BY_KEY))

        def copy(name: str) -> Column:
            others = [quoted(column) for column in newest.columns if column not in (BUCKET, COPY)]
            return F.struct(self._bucket(name).alias(BUCKET), F.lit(name).alias(COPY), *others)

        copies = F.array(copy(BY_KEY), F.when(~quoted(GONE), copy(BY_LOOKUP)))
        return (
            newest.select(F.explode(copies).alias(_ROW))
            .where(quoted(_ROW).isNotNull())
            .select(f"{_ROW}.*")
        )

    def _place(self) -> Column:
        return F.struct(*map(quoted, self._places))

    def _newest(self, versions: DataFrame) -> DataFrame:
        """Return of each row, where it is found, the newest version."""
        by = F.when(quoted(COPY) == BY_LOOKUP, F.struct(*map(quoted, self.lookup))).alias(_BY)
        row = F.max_by(F.struct(*map(quoted, versions.columns)), BATCH).alias(_ROW)
        return (
            versions.groupBy(quoted(COPY), *map(quoted, self.keys), by).agg(row).select(f"{_ROW}.*")
        )


def _differs() -> Column:
    return ~quoted(_OLD).eqNullSafe(quoted(_NEW))
