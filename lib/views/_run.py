"""What a batch changes in a keyed table, and what a view asks of the tables that it joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Literal, Protocol, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted
from ..commit.options import CommitOptions
from ..errors import ColumnError
from ..jvm import release
from ._buckets import BUCKET, absent, bucket

WEIGHT = "_weight"
COPY, BATCH, GONE = "_copy", "_batch", "_gone"
RESERVED = (BUCKET, WEIGHT, COPY, BATCH, GONE)
_SMALL = 20_000
JoinKind = Literal["inner", "left", "full"]


class Joining(Protocol):
    """How two changing tables are joined: `tidegate.joins.table_table`.

    Rows bear a `_weight`: 1 for a row that comes, -1 for one that goes, 0 for one that stays.
    """

    def __call__(
        self, left: DataFrame, right: DataFrame, *, on: str | Sequence[str], how: JoinKind
    ) -> DataFrame:
        """Return the change of the join."""


@dataclass(frozen=True)
class Change:
    """The rows that come and go, by weight: how many, in which buckets rows go, and under which
    keys all are found."""

    rows: DataFrame
    count: int
    leaving: Sequence[int]
    found: Found


@dataclass(frozen=True)
class Found:
    """What is looked up: the values of the columns by which a join finds rows, and the buckets that
    may hold them."""

    values: DataFrame
    count: int
    buckets: frozenset[int]

    def __or__(self, other: Found) -> Found:
        """Look up both."""
        return Found(
            self.values.union(other.values), self.count + other.count, self.buckets | other.buckets
        )

    def of(self, rows: DataFrame, by: Sequence[str]) -> DataFrame:
        """Return those of some rows that are looked up by these columns."""
        return rows.join(sent(self.values, self.count).toDF(*by), list(by), "left_semi")


class Changing(Protocol):
    """A table with a key that changes from batch to batch, and can be joined into a view."""

    @property
    def path(self) -> str:
        """The Delta table that keeps it."""

    @property
    def step(self) -> str:
        """The step under which it is written."""

    @property
    def buckets(self) -> int:
        """The number of its buckets."""

    @property
    def keys(self) -> list[str]:
        """The columns that make up its key."""

    @property
    def lookup(self) -> list[str]:
        """The columns by which its rows can be found."""

    def members(self) -> list[Changing]:
        """List it and the tables that it is made of, each before those that it is made of."""

    def change(self, run: Run) -> DataFrame:
        """Return the rows that the batch changes, from tables as they were before; worked out
        once."""

    def rows(self, spark: SparkSession, found: Found) -> DataFrame | None:
        """Return its rows that are found so, as they are stored now; None where there is no table
        yet."""

    def store(self, run: Run, options: CommitOptions) -> None:
        """Write what the batch changes, in one commit."""

    def compact(self, spark: SparkSession) -> None:
        """Put together what batches have written, to it and to the tables that it is made of."""


class Run:
    """One batch under way: the change of each table is worked out once, when it is first asked for,
    and kept."""

    def __init__(self, frame: DataFrame, number: int) -> None:
        self.frame, self.number = frame, number
        self._kept: dict[tuple[str, str], DataFrame] = {}
        self._changes: dict[str, Change] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._kept.values():
            release(frame)

    def once(self, table: Changing, what: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Make a frame, and keep its rows until the batch is done."""
        if (table.path, what) not in self._kept:
            # Of a persisted frame Spark would plan anew all that comes from it, whenever a table
            # that it reads changes.
            self._kept[table.path, what] = make().localCheckpoint()
        return self._kept[table.path, what]

    def change(self, table: Changing) -> Change:
        """Return what the batch changes in a table."""
        if table.path not in self._changes:
            rows = table.change(self)
            by, key = ([quoted(name) for name in names] for names in (table.lookup, table.keys))
            place = bucket(by, key, table.buckets).alias("place")
            told = rows.groupBy(
                place, (~absent(by)).alias("found"), (quoted(WEIGHT) < 0).alias("leaving")
            ).count()
            places = told.collect()
            count = sum(row["count"] for row in places)
            leaving = sorted({row["place"] for row in places if row["leaving"]})
            found = Found(
                rows.select(*by), count, frozenset(row["place"] for row in places if row["found"])
            )
            self._changes[table.path] = Change(rows, count, leaving, found)
        return self._changes[table.path]

    def after(self, table: Changing, found: Found) -> DataFrame:
        """Return the rows of a table that come and go, and of those that stay the ones that are
        found so."""
        change = self.change(table)
        stored = table.rows(self.frame.sparkSession, found) if found.buckets else None
        if stored is None:
            return change.rows
        moved = sent(change.rows.select(*map(quoted, table.keys)), change.count)
        old, new = stored.alias("old"), moved.alias("new")
        return change.rows.unionByName(
            old.join(new, same(table.keys), "left_anti").withColumn(WEIGHT, F.lit(0))
        )


def sent(frame: DataFrame, count: int) -> DataFrame:
    """Let a frame be sent to the rows that it is joined to, where it is small; Spark cannot tell by
    itself."""
    return F.broadcast(frame) if count <= _SMALL else frame


def same(keys: Sequence[str]) -> Column:
    """Return whether rows of the frames `old` and `new` have one key; a null is a value as any
    other."""
    names = [f"`{name.replace('`', '``')}`" for name in keys]
    return reduce(and_, [F.col(f"old.{name}").eqNullSafe(F.col(f"new.{name}")) for name in names])


def require_free_names(frame: DataFrame, path: str) -> None:
    """Refuse columns whose names the stored tables need."""
    taken = [name for name in frame.columns if name.lower() in RESERVED]
    if taken:
        raise ColumnError(
            f"{', '.join(taken)} would be a column of {path}.",
            f"names other than {', '.join(RESERVED)}.",
        )
