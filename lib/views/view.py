"""A materialised view.

The join of two changing tables is kept up to date by each change of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import get_args

from pyspark.sql import DataFrame, SparkSession

from ..columns import names, quoted
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError
from ..joins.table_table import WEIGHT, JoinKind, table_table
from ..jvm import delta_state
from ._anew import SMALL_BYTES, costs_less
from ._buckets import BUCKET, bucket, compact, read
from ._checks import (
    require_a_whole_key,
    require_own_places,
    require_sides_that_join,
    require_together,
)
from ._evaluation import Evaluation, Lookup, Relation
from ._memory import Memory
from ._view_table import ViewTable
from .keyed_table import KeyedTable


@dataclass(frozen=True)
class View:
    """Keep the join of two tables up to date, in a Delta table, with each batch of their changes.

    After each batch the view equals the join of the two tables as the batch leaves them, by the
    rules of `tidegate.joins.table_table`. Columns: those of `on`, of the left, of the right, and
    `_bucket`, by which the table is partitioned: -1 stands for rows of the last batches, which are
    in no bucket yet. Rows are added, replaced and deleted in place; or all are written anew, where
    that costs less.

    Several tables are written, each under its own stamp: a view before the tables that it is made
    of. What a view lacks is evaluated from tables that do not have the batch yet, so a batch that
    runs again after a crash between any two of them comes to the same result. Readers may see a
    view a batch ahead of its tables. Tables that do not hold the same batches, as after a restored
    copy, are refused before anything is written.

    Cost: of each table those buckets are read that hold a key which changes, and what the last
    batches wrote. A batch appends a file or two to each table, and copies nothing: deletion vectors
    mark the rows of the view that go, and the other tables are logs. So with many more buckets than
    changes the cost follows the changes, and with fewer a batch reads all; some 10,000 rows a
    bucket suit most tables. Both sides have the same number, which stays.

    Where the view and its tables are small, of 16 MB together, or a batch changes a tenth of their
    rows, the view is computed anew from all rows of its tables, which takes little more than half
    of the time. A view whose table records its changes (`delta.enableChangeDataFeed`) is always
    changed in place: its readers would be told that every row went and came.

    Then what each table of up to 16 MB holds stays in the executors' memory from one batch to the
    next, for as long as nothing else is written to it, so that it is not read again.

    A batch's rows are kept by the executors that evaluated them: where one is lost, a job writes
    the batch anew.

    State: the tables. Compaction puts the files of the last batches together; rows are put in
    buckets by the first compaction that finds 50,000 rows or more outside of them, and a quarter of
    those inside. VACUUM frees the old files. Readers of the view need Delta's deletion vectors
    (reader version 3).

    Args:
        path: the Delta table.
        left, right: a table that a changelog keeps current (`KeyedTable`), or another View, so that
            views build on views.
        on: the columns that must be equal.
        how: "inner", "left" or "full".
        by: the columns by which the view's readers look rows up (`lookup`), by default `on`; for a
            view that another one is made of, the columns which that one joins on. Rows with a null
            in them cannot be looked up.
        step: the name of its commits in the application id.
        buckets: into how many parts the view is cut: to look a key up is to read one of them, and
            the rows of the last batches.
        compact_every: after so many batches all tables are compacted, those below as well; None
            leaves that to `compact`.

    Raises:
        ArgumentError: at construction; and for a batch without the inputs of its tables.
        ColumnError, ColumnTypeError: for changes without the columns that are needed.
        TableError: for tables of other columns, or of another number of buckets.
        ReplayMismatchError, ConflictError: where the tables do not belong to this query, or have
            other writers.

    >>> def table(name: str, key: list[str]) -> KeyedTable:
    ...     named = {"step": name, "rows_of": name, "key": key, "by": "author"}
    ...     return KeyedTable(f"/data/{name}", **named, position="version")
    >>> posts, follows = table("posts", ["post"]), table("follows", ["follower", "author"])
    >>> View("/data/timelines", left=posts, right=follows, on="author", by="follower").keys
    ['author', 'post', 'follower']
    """

    path: str
    _: KW_ONLY
    left: KeyedTable | View
    right: KeyedTable | View
    on: str | Sequence[str]
    how: JoinKind = "inner"
    by: str | Sequence[str] = ()
    step: str = "view"
    buckets: int = 64
    compact_every: int | None = 20
    _memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.how not in get_args(JoinKind):
            raise ArgumentError(f"how is {self.how!r}.", f"{', '.join(get_args(JoinKind))}.")
        on = names(self.on, "on")
        require_sides_that_join(self.path, self.left, self.right, on)
        if self.how == "full":
            require_a_whole_key(self.left, self.right, on)
        require_own_places(self.tables())

    @property
    def keys(self) -> list[str]:
        """The columns that tell the view's rows apart."""
        return list(dict.fromkeys([*names(self.on, "on"), *self.left.keys, *self.right.keys]))

    @property
    def found_by(self) -> list[str]:
        """The columns by which rows are looked up."""
        return names(self.by or self.on, "by")

    def tables(self) -> list[tuple[str, str]]:
        """List the view's table and those that it is made of."""
        return [(each.path, each.step) for each in self.members()]

    def members(self) -> list[Relation]:
        """List the view and what it is made of, in the order in which they are written."""
        return [self, *self.left.members(), *self.right.members()]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Bring the view and its tables up to date, those of them that do not have the batch."""
        spark = _session(frames)
        require_together(spark, self.members(), batch)
        outcomes: dict[str, Outcome] = {}
        with Evaluation(spark, frames, batch.number, self._memory) as evaluation:
            evaluation.anew = costs_less(evaluation, self.members())
            for each in self.members():
                store = partial(each.store, evaluation)
                outcomes[each.path] = commit_once(spark, each.path, batch, each.step, store, {})
            written = [path for path, outcome in outcomes.items() if outcome == "written"]
            evaluation.remember(written, SMALL_BYTES)
        if self.compact_every and (batch.number + 1) % self.compact_every == 0:
            self.compact(spark)
        return outcomes[self.path]

    def evaluate(self, evaluation: Evaluation) -> DataFrame:
        """Return the rows of the view that come and go, by weight."""
        return evaluation.kept(self, "change", lambda: self._joined(evaluation))

    def stored(self, spark: SparkSession, lookup: Lookup) -> DataFrame | None:
        """Return the rows of the view that `by` finds."""
        if delta_state(spark, self.path).version < 0:
            return None
        rows = read(spark, self.path, lookup.buckets)
        return lookup.matches(rows, self.found_by).drop(BUCKET)

    def after(self, evaluation: Evaluation) -> DataFrame:
        """Return all rows as the batch leaves them."""
        left = self.left.after(evaluation)
        right = self.right.after(evaluation)
        return table_table(left, right, on=self.on, how=self.how).drop(WEIGHT)

    def store(self, evaluation: Evaluation, options: CommitOptions) -> None:
        """Write the rows that come and go, or all rows anew."""
        table = ViewTable(self.path, self.keys, self.buckets)
        if evaluation.anew:
            table.replace(self.after(evaluation), options)
        else:
            table.change(evaluation.change_of(self), options)

    def compact(self, spark: SparkSession) -> None:
        """Put together what batches have written to the view and to the tables below it."""
        by = [quoted(name) for name in self.found_by]
        key = [quoted(name) for name in self.keys]
        own = bucket(by, key, self.buckets)
        compact(
            spark,
            self.path,
            self.buckets,
            together=lambda rows: rows,
            placed=lambda rows: rows.withColumn(BUCKET, own),
        )
        self.left.compact(spark)
        self.right.compact(spark)

    def _joined(self, evaluation: Evaluation) -> DataFrame:
        left = evaluation.change_of(self.left).lookup
        right = evaluation.change_of(self.right).lookup
        # The change of one side is joined with the rows that it meets on the other. A row without a
        # match asks besides whether its key has one on the other side, so all rows of that key
        # count there.
        of_left = left | right if self.how == "full" else right
        of_right = left if self.how == "inner" else left | right
        return table_table(
            evaluation.operand(self.left, of_left),
            evaluation.operand(self.right, of_right),
            on=self.on,
            how=self.how,
        )


def _session(frames: Mapping[str, DataFrame]) -> SparkSession:
    if not frames:
        raise ArgumentError("the batch has no frames.", "the rows of the job's inputs by name.")
    return next(iter(frames.values())).sparkSession
