"""A table kept current by its changelog: what a view is joined from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..errors import ArgumentError
from ..jvm import delta_state
from .bucketed import BUCKET, absent, bucket, existing, read, rewrite, writer
from .changing import BATCH, COPY, GONE, RESERVED, WEIGHT, Changing, Run, require_free_names
from .options import CommitOptions

BY_KEY, BY_LOOKUP = "key", "lookup"
_NEW, _OLD, _ROW, _KNOWN = (f"__tidegate_{name}" for name in ("new", "old", "row", "known"))
_WEIGHTS = ((-1, _OLD), (1, _NEW))


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A table that a changelog keeps current, as one side of a `View`; not a sink by itself.

    changes: from a batch's rows, the changes of this table: all of its columns, `position` and `deleted`.
    key: the primary key; a change whose key has a null stops the batch, so make these fields NOT NULL in the reading's
        schema, which turns such records into dead letters.
    by: the columns that the view joins on.
    position: columns that order the changes of a key, the first one first: a version, or a log's (partition, offset)
        where all changes of a key are in one partition. They and `deleted` are no columns of the view.
    deleted: a boolean column; where it is true the key's row goes, and the change's other columns count for nothing.
    buckets: into how many parts the table is cut: to look a key up is to read one of them.

    Of the changes of a key in a batch the one with the highest position counts, and it counts unless a higher one is
    known: changes may come twice and in any order. An equal position applies again. That a key was deleted is
    remembered for ever, with its position.

    The Delta table at `path` is this library's own: a log of row versions, of which the newest counts. Each row stands
    in it twice, to be found by its key and by `by`. A batch appends two rows for each change, three where `by` changed.
    No column can be a map.

    >>> Kept(path="/data/users", step="users", changes=lambda batch: batch, key="user", by="user", position="at").lookup
    ['user']
    """

    path: str
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
                raise ArgumentError(f"{what} names no column.", "one column or more.", f'{what}="user"')

    @property
    def keys(self) -> list[str]:
        """The columns of the primary key."""
        return names(self.key, "key")

    @property
    def lookup(self) -> list[str]:
        """The columns that the view joins on."""
        return names(self.by, "by")

    def tables(self) -> list[Changing]:
        """List this table alone."""
        return [self]

    def change(self, run: Run) -> DataFrame:
        """Give the rows that the batch removes and adds, by weight."""
        old, new = (F.struct(F.lit(weight).alias(WEIGHT), quoted(row).alias(_ROW)) for weight, row in _WEIGHTS)
        moved = run.once(self, "net", lambda: self._net(run)).where(_differs())
        rows = moved.select(F.inline(F.array(old, new))).where(quoted(_ROW).isNotNull())
        return rows.select(f"{_ROW}.*", WEIGHT)

    def rows(self, spark: SparkSession, buckets: Sequence[int]) -> DataFrame | None:
        """Give the rows in these buckets of `by`."""
        if delta_state(spark, self.path).version < 0:
            return None
        stored = self._newest(read(spark, self.path, buckets).where(quoted(COPY) == BY_LOOKUP)).where(~quoted(GONE))
        return stored.drop(*RESERVED, *self._places)

    def store(self, run: Run, options: CommitOptions) -> None:
        """Append the versions of the rows that the batch changes."""
        versions = self._versions(run.once(self, "net", lambda: self._net(run)))
        versions = versions.withColumn(BATCH, F.lit(run.number).cast("bigint"))
        existing(versions, self.path, self.buckets)
        options.on(writer(versions, self.buckets)).mode("append").save(self.path)

    def compact(self, spark: SparkSession) -> None:
        """Leave of each row the newest version."""
        newest = self._newest(spark.read.format("delta").load(self.path))
        rewrite(newest.where(~quoted(GONE) | (quoted(COPY) == BY_KEY)), self.path, self.buckets)

    @property
    def _places(self) -> list[str]:
        return names(self.position, "position")

    def _net(self, run: Run) -> DataFrame:
        """Give for each key the change that counts: the row before and after, or null for none; position and bucket."""
        spark, changes = run.frame.sparkSession, self.changes(run.frame)
        require(changes, [*self.keys, *self.lookup, *self._places, self.deleted], "changes")
        require_free_names(changes, self.path)
        newest = self._last(changes)
        if delta_state(spark, self.path).version < 0:
            return newest.withColumn(_OLD, F.lit(None).cast(newest.schema[_NEW].dataType))
        buckets = [row[0] for row in changes.select(self._bucket()).distinct().collect()]
        known = self._newest(read(spark, self.path, buckets).where(quoted(COPY) == BY_KEY))
        columns = newest.select(f"{_NEW}.*").columns
        old = known.select(
            BUCKET,
            *map(quoted, self.keys),
            self._place().alias(_KNOWN),
            F.when(~quoted(GONE), F.struct(*map(quoted, columns))).alias(_OLD),
        )
        counts = quoted(_KNOWN).isNull() | (self._place() >= quoted(_KNOWN))
        return newest.join(old, [BUCKET, *self.keys], "left").where(counts).drop(_KNOWN)

    def _last(self, changes: DataFrame) -> DataFrame:
        """Give of each key the change with the highest position; columns: bucket, key, position, gone, the row."""
        every = [quoted(name) for name in changes.columns]
        # Changes at one position should be equal; were they not, a batch that runs again must choose the same one.
        order = F.struct(self._place(), F.xxhash64(*every))
        key = [quoted(name) for name in self.keys]
        last = changes.groupBy(*key).agg(F.max_by(F.struct(*every), order).alias(_ROW)).select(f"{_ROW}.*")
        gone = F.coalesce(quoted(self.deleted), F.lit(False))
        row = F.struct(*[quoted(name) for name in changes.columns if name not in (*self._places, self.deleted)])
        return last.select(
            self._bucket().alias(BUCKET),
            *key,
            *map(quoted, self._places),
            gone.alias(GONE),
            F.when(~gone, row).alias(_NEW),
        )

    def _bucket(self) -> Column:
        """Give the bucket of a change's key."""
        key = [quoted(name) for name in self.keys]
        null = F.raise_error(F.lit(f"a change of {self.path} has a null in its key, {', '.join(self.keys)}"))
        return F.when(absent(key), null.cast("int")).otherwise(bucket(key, key, self.buckets))

    def _versions(self, net: DataFrame) -> DataFrame:
        """Give what is appended: the row by its key, the row by `by`, and that it is no longer where it was."""
        columns = net.select(f"{_NEW}.*").columns

        def version(copy: str, place: Column, gone: Column, row: str) -> Column:
            positions = [quoted(name).alias(name) for name in self._places]
            values = [self._value(row, name).alias(name) for name in columns]
            return F.struct(place.alias(BUCKET), F.lit(copy).alias(COPY), gone.alias(GONE), *positions, *values)

        old, new = (bucket(*self._fields(row), self.buckets) for row in (_OLD, _NEW))
        left = quoted(_OLD).isNotNull() & (quoted(_NEW).isNull() | (old != new))
        arrived = quoted(_NEW).isNotNull() & _differs()
        by_key = version(BY_KEY, quoted(BUCKET), quoted(GONE), _NEW)
        by_old = F.when(left, version(BY_LOOKUP, old, F.lit(True), _OLD))
        by_new = F.when(arrived, version(BY_LOOKUP, new, F.lit(False), _NEW))
        each = net.select(F.explode(F.array(by_key, by_old, by_new)).alias(_ROW)).where(quoted(_ROW).isNotNull())
        return each.select(f"{_ROW}.*")

    def _value(self, row: str, name: str) -> Column:
        return quoted(name) if name in self.keys else quoted(row).getField(name)

    def _fields(self, row: str) -> tuple[list[Column], list[Column]]:
        return [self._value(row, name) for name in self.lookup], [quoted(name) for name in self.keys]

    def _place(self) -> Column:
        return F.struct(*map(quoted, self._places))

    def _newest(self, versions: DataFrame) -> DataFrame:
        """Give of each row, where it was found, the newest version."""
        by = [BUCKET, COPY, *self.keys]
        row = F.max_by(F.struct(*map(quoted, versions.columns)), BATCH).alias(_ROW)
        return versions.groupBy(*map(quoted, by)).agg(row).select(f"{_ROW}.*")


def _differs() -> Column:
    return ~quoted(_OLD).eqNullSafe(quoted(_NEW))
