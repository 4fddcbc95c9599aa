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
from ..errors import ColumnError
from .bucketed import BUCKET, absent, bucket
from .options import CommitOptions

WEIGHT = "_weight"
COPY, BATCH, GONE = "_copy", "_batch", "_gone"
RESERVED = (BUCKET, WEIGHT, COPY, BATCH, GONE)
JoinKind = Literal["inner", "left", "full"]


class Joining(Protocol):
    """How two changing tables are joined: `lib.joins.table_table`.

    Rows bear a `_weight`: 1 for a row that comes, -1 for one that goes, 0 for one that stays.
    """

    def __call__(self, left: DataFrame, right: DataFrame, *, on: str | Sequence[str], how: JoinKind) -> DataFrame:
        """Give the change of the join."""


@dataclass(frozen=True)
class Change:
    """The rows that come and go, by weight; the buckets that they are in, and those where a join can find them."""

    rows: DataFrame
    buckets: Sequence[int]
    found: Sequence[int]


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

    def tables(self) -> list[Changing]:
        """List it and the tables that it is made of, each before those that it is made of."""

    def change(self, run: Run) -> DataFrame:
        """Give the rows that the batch changes, from tables as they were before; worked out once."""

    def rows(self, spark: SparkSession, buckets: Sequence[int]) -> DataFrame | None:
        """Give its rows in these buckets, as they are stored now; None where there is no table yet."""

    def store(self, run: Run, options: CommitOptions) -> None:
        """Write what the batch changes, in one commit."""

    def compact(self, spark: SparkSession) -> None:
        """Rewrite its table, in one file for each bucket."""


class Run:
    """One batch under way: the change of each table is worked out once, when it is first asked for, and kept."""

    def __init__(self, frame: DataFrame, number: int) -> None:
        self.frame, self.number = frame, number
        self._kept: dict[tuple[str, str], DataFrame] = {}
        self._changes: dict[str, Change] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._kept.values():
            frame.unpersist()

    def once(self, table: Changing, what: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Make a frame, and keep it in memory until the batch is done."""
        if (table.path, what) not in self._kept:
            self._kept[table.path, what] = make().persist()
        return self._kept[table.path, what]

    def change(self, table: Changing) -> Change:
        """Give what the batch changes in a table."""
        if table.path not in self._changes:
            rows = table.change(self)
            by, key = ([quoted(name) for name in names] for names in (table.lookup, table.keys))
            place, found = bucket(by, key, table.buckets).alias("place"), (~absent(by)).alias("found")
            places = rows.select(place, found).distinct().collect()
            reached = {row["place"] for row in places if row["found"]}
            self._changes[table.path] = Change(rows, list({row["place"] for row in places}), list(reached))
        return self._changes[table.path]

    def after(self, table: Changing, buckets: Sequence[int]) -> DataFrame:
        """Give the rows of a table that come and go, and those in these buckets that stay."""
        moved = self.change(table).rows
        stored = table.rows(self.frame.sparkSession, buckets) if buckets else None
        if stored is None:
            return moved
        old, new = stored.alias("old"), moved.select(*map(quoted, table.keys)).alias("new")
        return moved.unionByName(old.join(new, same(table.keys), "left_anti").withColumn(WEIGHT, F.lit(0)))


def same(keys: Sequence[str]) -> Column:
    """Tell whether rows of the frames `old` and `new` have one key; a null is a value as any other."""
    names = [f"`{name.replace('`', '``')}`" for name in keys]
    return reduce(and_, [F.col(f"old.{name}").eqNullSafe(F.col(f"new.{name}")) for name in names])


def require_free_names(frame: DataFrame, path: str) -> None:
    """Refuse columns whose names the stored tables need."""
    taken = [name for name in frame.columns if name.lower() in RESERVED]
    if taken:
        raise ColumnError(
            f"{', '.join(taken)} would be a column of {path}.", f"names other than {', '.join(RESERVED)}."
        )
