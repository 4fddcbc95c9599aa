"""One batch of a view.

What it changes in each of the view's tables is evaluated when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted, same_key
from ..commit.options import CommitOptions
from ..frames import named
from ..joins.table_table import WEIGHT
from ..jvm import DeltaState, delta_state, release
from ._buckets import absent, bucket
from ._memory import Memory

_SMALL = 20_000
"""Up to so many rows a frame is sent to all executors for a join."""
_WHOLE = "whole"


@dataclass(frozen=True)
class Lookup:
    """What rows are looked up by: values of the columns by which a join finds them.

    buckets: those that may hold such rows.
    """

    values: DataFrame
    count: int
    buckets: frozenset[int]

    def __or__(self, other: Lookup) -> Lookup:
        """Return a lookup that finds what either finds."""
        values = self.values.union(other.values)
        return Lookup(values, self.count + other.count, self.buckets | other.buckets)

    def matches(self, rows: DataFrame, by: Sequence[str]) -> DataFrame:
        """Return the rows that have one of the values in these columns."""
        values = sent(self.values, self.count).toDF(*by)
        return rows.join(values, list(by), "left_semi")


@dataclass(frozen=True)
class Change:
    """What a batch changes in a relation.

    rows: the rows that come and go, by their weight; count: how many they are.
    leaving: the buckets of the rows that go.
    lookup: finds what these rows meet on the other side of a join.
    """

    rows: DataFrame
    count: int
    leaving: Sequence[int]
    lookup: Lookup


class Relation(Protocol):
    """A keyed table or a view: it changes from batch to batch, and can be joined into a view."""

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
    def found_by(self) -> list[str]:
        """The columns by which its rows are looked up."""

    def members(self) -> list[Relation]:
        """List the relation and those that it is made of, each before those that it is made of."""

    def evaluate(self, evaluation: Evaluation) -> DataFrame:
        """Return the rows that the batch changes, by weight.

        They are found from the tables as they were before the batch.
        """

    def stored(self, spark: SparkSession, lookup: Lookup) -> DataFrame | None:
        """Return the rows that a lookup finds in the table as it is.

        None where there is no table.
        """

    def after(self, evaluation: Evaluation) -> DataFrame:
        """Return all rows as the batch leaves them, from the tables as they were before it."""

    def store(self, evaluation: Evaluation, options: CommitOptions) -> None:
        """Write what the batch changes, in one commit."""

    def compact(self, spark: SparkSession) -> None:
        """Put together what batches have written to the relation and to those below it."""


class Evaluation:
    """One batch under way.

    What it changes in each relation is evaluated once, and kept until the end. What it leaves of
    small tables is kept for the next batch, in `memory`.
    """

    def __init__(
        self,
        spark: SparkSession,
        frames: Mapping[str, DataFrame],
        number: int,
        memory: Memory | None = None,
    ) -> None:
        self.spark = spark
        self.number = number
        self._frames = frames
        self._memory = memory or Memory()
        self._states: dict[str, DeltaState] = {}
        self._counts: dict[str, int] = {}
        self.anew = False
        """Whether views are computed from all rows of their tables, and not changed."""
        self._kept: dict[tuple[str, str], DataFrame] = {}
        self._changes: dict[str, Change] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._kept.values():
            release(frame)

    def input(self, name: str) -> DataFrame:
        """Return the batch's rows of one of the job's inputs."""
        return named(self._frames, name, "rows_of")

    def count(self, name: str) -> int:
        """Return how many rows of one of the job's inputs the batch has."""
        if name not in self._counts:
            self._counts[name] = self.input(name).count()
        return self._counts[name]

    def state(self, relation: Relation) -> DeltaState:
        """Return the state of a relation's table as the batch found it."""
        if relation.path not in self._states:
            self._states[relation.path] = delta_state(self.spark, relation.path)
        return self._states[relation.path]

    def whole(self, relation: Relation, make: Callable[[], DataFrame]) -> DataFrame:
        """Make a frame of all that a table holds before and after the batch, and keep it."""
        return self.kept(relation, _WHOLE, make)

    def last_whole(self, relation: Relation) -> DataFrame | None:
        """Return that frame of the batch before; None where it does not tell the table's rows."""
        return self._memory.rows(relation.path, self.state(relation))

    def remember(self, written: Collection[str], most: int) -> None:
        """Keep for the next batch what this one has left of tables of up to `most` bytes.

        A table that had the batch already, or to which another has written meanwhile, is not what
        the batch has left.

        written: the paths of the tables that got the batch.
        """
        left: dict[str, tuple[DeltaState, DataFrame]] = {}
        for path in written:
            if (path, _WHOLE) not in self._kept:
                continue
            now = delta_state(self.spark, path)
            alone = now.version == self._states[path].version + 1
            if alone and now.size() <= most:
                left[path] = (now, self._kept.pop((path, _WHOLE)))
        self._memory.replace(left)

    def kept(self, relation: Relation, what: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Make a frame once, and keep its rows until the batch is done."""
        name = (relation.path, what)
        if name not in self._kept:
            # Of a persisted frame Spark would plan anew all that comes from it, whenever a table
            # that it reads changes.
            self._kept[name] = make().localCheckpoint()
        return self._kept[name]

    def change_of(self, relation: Relation) -> Change:
        """Return what the batch changes in a relation."""
        if relation.path not in self._changes:
            self._changes[relation.path] = _counted(relation, relation.evaluate(self))
        return self._changes[relation.path]

    def operand(self, relation: Relation, lookup: Lookup) -> DataFrame:
        """Return what a join needs of a relation: the rows that come and go, and some that stay.

        Of the rows that stay, those that the lookup finds.
        """
        change = self.change_of(relation)
        stored = relation.stored(self.spark, lookup) if lookup.buckets else None
        if stored is None:
            return change.rows
        moved = sent(change.rows.select(*map(quoted, relation.keys)), change.count)
        stays = stored.alias("old").join(moved.alias("new"), same_key(relation.keys), "left_anti")
        return change.rows.unionByName(stays.withColumn(WEIGHT, F.lit(0)))


def _counted(relation: Relation, rows: DataFrame) -> Change:
    """Return a change with the buckets that it concerns, which one job over its rows tells."""
    by = [quoted(name) for name in relation.found_by]
    key = [quoted(name) for name in relation.keys]
    groups = rows.groupBy(
        bucket(by, key, relation.buckets).alias("bucket"),
        (~absent(by)).alias("found"),
        (quoted(WEIGHT) < 0).alias("leaving"),
    )
    counts = groups.count().collect()
    count = sum(row["count"] for row in counts)
    # A null meets nothing, so that rows with one need no bucket of the other side.
    found = frozenset(row["bucket"] for row in counts if row["found"])
    leaving = sorted({row["bucket"] for row in counts if row["leaving"]})
    return Change(rows, count, leaving, Lookup(rows.select(*by), count, found))


def sent(frame: DataFrame, count: int) -> DataFrame:
    """Return the frame, marked to be sent to all executors if it is small; Spark cannot tell."""
    return F.broadcast(frame) if count <= _SMALL else frame
