"""A materialised view: the join of two changing tables, kept up to date by each change of
either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import names, quoted
from ..commit.batch import Batch
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ReplayMismatchError
from ..jvm import delta_state
from ._buckets import BUCKET, RECENT, bucket, compact, existing, read, writer
from ._run import (
    GONE,
    WEIGHT,
    Change,
    Changing,
    Found,
    Joining,
    JoinKind,
    Run,
    require_free_names,
    same,
)
from .keyed_table import KeyedTable

_ROW = "__tidegate_row"


@dataclass(frozen=True)
class View:
    """Keep the join of two tables in a Delta table, up to date with each batch of their changes. Exactly once.

    left, right: a table that a changelog keeps current (`KeyedTable`), or another View, so that
    views build on views.
    join: how they are joined: `tidegate.joins.table_table`, whose rules hold. on, how: as there.
    by: the columns by which the view's readers look rows up (`lookup`), by default `on`; for a view
        that another one is made of, the columns which that one joins on. Rows with a null in them
        cannot be looked up.
    buckets: into how many parts the view is cut: to look a key up is to read one of them, and the
        rows of the last batches.
    compact_every: after so many batches all tables are compacted, those below as well; None leaves
    that to `compact`.

    After each batch the view equals the join of the two tables as the batch leaves them. Columns:
    those of `on`, of the left, of the right, and `_bucket`, by which the table is partitioned: -1
    stands for rows of the last batches, which are in no bucket yet. Rows are added, replaced and
    deleted in place.

    Several tables are written, each under its own stamp: a view before the tables that it is made
    of. What a view lacks is worked out from tables that do not have the batch yet, so a batch that
    runs again after a crash between any two of them comes to the same result. Readers may see a
    view a batch ahead of its tables. Tables that do not hold the same batches, as after a restored
    copy, are refused before anything is written.

    Cost: of each table those buckets are read that hold a key which changes, and what the last
    batches wrote. A batch appends a file or two to each table, and copies nothing: deletion vectors
    mark the rows of the view that go, and the other tables are logs. So with many more buckets than
    changes the cost follows the changes, and with fewer a batch reads all; some 10,000 rows a
    bucket suit most tables. Both sides have the same number, which stays.

    A batch's rows are kept by the executors that worked them out: losing one ends the run, and the
    batch runs again.

    State: the tables. Compaction puts the files of the last batches together; rows are put in
    buckets by the first one that finds 50,000 rows or more outside of them, and a quarter of those
    inside. VACUUM frees the old files. Readers of the view need Delta's deletion vectors (reader
    version 3).

    Raises ArgumentError, ColumnError, ColumnTypeError, ConfigError, ReplayMismatchError,
    ConflictError.

    >>> from tidegate.joins import table_table
    >>> from tidegate.views.keyed_table import KeyedTable
    >>> def kept(name: str, key: list[str]) -> KeyedTable:
    ...     rows = lambda frame: frame.where(F.col("table") == name)
    ...     return KeyedTable(path=f"/data/{name}", step=name, changes=rows, key=key, by="author", position="version")
    >>> posts, follows = kept("posts", ["post"]), kept("follows", ["follower", "author"])
    >>> View(path="/data/timelines", left=posts, right=follows, join=table_table, on="author", by="follower").keys
    ['author', 'post', 'follower']
    """

    path: str
    _: KW_ONLY
    left: KeyedTable | View
    right: KeyedTable | View
    join: Joining
    on: str | Sequence[str]
    how: JoinKind = "inner"
    by: str | Sequence[str] = ()
    step: str = "view"
    buckets: int = 64
    compact_every: int | None = 20

    def __post_init__(self) -> None:
        on = names(self.on, "on")
        for side in (self.left, self.right):
            if side.lookup != on:
                raise ArgumentError(
                    f"{self.path} is joined on {on}, and {side.path} is looked up by "
                    f"{side.lookup}.",
                    "the same columns.",
                    f"by={on} for {side.path}.",
                )
        if self.left.buckets != self.right.buckets:
            raise ArgumentError(
                f"{self.left.path} has {self.left.buckets} buckets, and {self.right.path} "
                f"{self.right.buckets}.",
                "as many on both sides, so that equal keys are in equal buckets.",
                f"buckets={self.left.buckets}",
            )
        if self.how == "full" and all(set(side.keys) < set(on) for side in (self.left, self.right)):
            raise ArgumentError(
                f"the keys {self.left.keys} and {self.right.keys} are parts of on, {on}: a row of "
                "the left and one of "
                "the right without a match could have one key.",
                "a full join on the whole key of a side, or on columns outside of a key.",
            )
        places = self.tables()
        if len({path for path, _ in places}) < len(places) or len(
            {step for _, step in places}
        ) < len(places):
            raise ArgumentError(
                f"the tables and steps are {places}.",
                "a path and a step of its own for each table.",
            )

    @property
    def keys(self) -> list[str]:
        """The columns that tell the view's rows apart."""
        return list(dict.fromkeys([*names(self.on, "on"), *self.left.keys, *self.right.keys]))

    @property
    def lookup(self) -> list[str]:
        """The columns by which rows are looked up."""
        return names(self.by or self.on, "by")

    def members(self) -> list[Changing]:
        """List the view and the tables that it is made of, in the order in which they are
        written."""
        return [self, *self.left.members(), *self.right.members()]

    def tables(self) -> list[tuple[str, str]]:
        """List the view's table and those that it is made of."""
        return [(each.path, each.step) for each in self.members()]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Bring the view and its tables up to date, those of them that do not have the batch."""
        frame = frames["rows"]
        spark = frame.sparkSession
        self._require_together(spark, batch)
        with Run(frame, batch.number) as run:
            outcomes = [
                commit_once(spark, each.path, batch, each.step, partial(each.store, run), {})
                for each in self.members()
            ]
        if self.compact_every and (batch.number + 1) % self.compact_every == 0:
            self.compact(spark)
        return outcomes[0]

    def change(self, run: Run) -> DataFrame:
        """Return the rows of the view that come and go, by weight."""
        return run.once(self, "change", lambda: self._joined(run))

    def rows(self, spark: SparkSession, found: Found) -> DataFrame | None:
        """Return the rows of the view that `by` finds."""
        exists = delta_state(spark, self.path).version >= 0
        return (
            found.of(read(spark, self.path, found.buckets), self.lookup).drop(BUCKET)
            if exists
            else None
        )

    def store(self, run: Run, options: CommitOptions) -> None:
        """Write the rows that come and go."""
        change, spark = run.change(self), run.frame.sparkSession
        require_free_names(change.rows.drop(WEIGHT), self.path)
        rows = self._last(change)
        state = existing(rows.drop(GONE), self.path, self.buckets)
        if state is not None and change.leaving:
            self._merge(rows, change, options, spark)
            return
        # Where rows only come they are not there yet; where nothing changes the commit bears the
        # stamp and no rows.
        append = options.on(writer(rows.drop(GONE), self.buckets)).mode("append")
        append.option("delta.enableDeletionVectors", "true").save(self.path)

    def compact(self, spark: SparkSession) -> None:
        """Put together what batches have written, to the view and to the tables that it is made
        of."""
        by, key = ([quoted(name) for name in columns] for columns in (self.lookup, self.keys))
        place = bucket(by, key, self.buckets)
        compact(
            spark,
            self.path,
            self.buckets,
            lambda rows: rows,
            lambda rows: rows.withColumn(BUCKET, place),
        )
        for side in (self.left, self.right):
            side.compact(spark)

    def _joined(self, run: Run) -> DataFrame:
        left, right = (run.change(side).found for side in (self.left, self.right))
        # A row without a match asks whether its key has one on the other side, so all of that key's
        # rows count there.
        both = left | right
        rows = run.after(self.left, both if self.how == "full" else right)
        others = run.after(self.right, left if self.how == "inner" else both)
        return self.join(rows, others, on=self.on, how=self.how)

    def _last(self, change: Change) -> DataFrame:
        """Return each row's last state: a row that goes and comes is one that is replaced."""
        columns = [quoted(name) for name in change.rows.columns if name != WEIGHT]
        last = F.max_by(F.struct(*columns), quoted(WEIGHT)).alias(_ROW)
        found = change.rows.groupBy(*map(quoted, self.keys)).agg(
            last, (F.max(WEIGHT) < 0).alias(GONE)
        )
        return found.select(F.lit(RECENT).alias(BUCKET), f"{_ROW}.*", GONE)

    def _merge(
        self, rows: DataFrame, change: Change, options: CommitOptions, spark: SparkSession
    ) -> None:
        gone = F.col(f"new.{GONE}")
        values: dict[str, str | Column] = {
            f"`{name.replace('`', '``')}`": F.col(f"new.`{name.replace('`', '``')}`")
            for name in rows.columns
            if name != GONE
        }
        condition = F.col(f"old.{BUCKET}").isin([RECENT, *change.leaving]) & same(self.keys)
        merge = (
            DeltaTable.forPath(spark, self.path).alias("old").merge(rows.alias("new"), condition)
        )
        merge = merge.whenMatchedDelete(gone).whenMatchedUpdate(set=values)
        with options.session(spark):
            merge.whenNotMatchedInsert(~gone, values).execute()

    def _require_together(self, spark: SparkSession, batch: Batch) -> None:
        """Refuse tables that do not hold the same batches, but for those that a crash left without
        this one."""
        found = {
            each.path: (
                delta_state(spark, each.path).version >= 0,
                last_batch(spark, each.path, batch, each.step),
            )
            for each in self.members()
        }
        waiting = list(found.values())
        while waiting and (-1 if waiting[0][1] is None else waiting[0][1]) >= batch.number:
            waiting.pop(0)
        # A table that is there without a batch of this query is another's, and batches are counted
        # anew in each query.
        if len(set(waiting)) > 1 or (True, None) in waiting:
            told = ", ".join(
                f"{path} has {number if exists else 'no table'}"
                for path, (exists, number) in found.items()
            )
            raise ReplayMismatchError(
                f"the tables do not hold the same batches of this query: {told}.",
                "all of them as the last batch left them.",
                "restore them together, or start with a new checkpoint and new tables; nothing was "
                "written.",
            )
