"""Evaluate one batch of a view: the changes of each table, computed lazily."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted_column, same_key
from ..input_frames import require_frame
from ..joins.incremental_join import WEIGHT
from ..jvm import DeltaState, delta_state, has_all_checkpointed_rows, release_checkpointed_rows
from .bucketing import any_null, bucket

_BROADCAST_ROWS = 20_000
"""Maximum number of rows of a frame that is broadcast."""
ALL_ROWS = "full"
"""The purpose of a cached frame of all rows of a table before and after the batch."""


@dataclass(frozen=True)
class KeyLookup:
    """Values of lookup columns, to find the rows that have them.

    buckets: the buckets that may contain such rows.
    """

    values: DataFrame
    count: int
    buckets: frozenset[int]

    def __or__(self, other: KeyLookup) -> KeyLookup:
        """Return a lookup that finds the rows of both."""
        values = self.values.union(other.values)
        return KeyLookup(values, self.count + other.count, self.buckets | other.buckets)

    def matching_rows(self, rows: DataFrame, by: Sequence[str]) -> DataFrame:
        """Return the rows that have one of the values in these columns."""
        values = broadcast_if_small(self.values, self.count).toDF(*by)
        return rows.join(values, list(by), "left_semi")


@dataclass(frozen=True)
class Change:
    """The change of a relation by a batch.

    rows: removed and added rows, by weight. count: their number.
    leaving_buckets: the buckets of removed rows.
    match_lookup: finds the rows of the other side of a join that match these rows.
    """

    rows: DataFrame
    count: int
    leaving_buckets: Sequence[int]
    match_lookup: KeyLookup


class Relation(Protocol):
    """A keyed table or a view: changes with each batch, and can be joined into a view."""

    path: str
    buckets: int

    @property
    def keys(self) -> list[str]:
        """The key columns."""

    @property
    def lookup_columns(self) -> list[str]:
        """The columns by which its rows are looked up."""

    def compute_changes(self, evaluation: Evaluation) -> DataFrame:
        """Return removed and added rows by weight, from the tables before the batch."""

    def read_matching(self, spark: SparkSession, lookup: KeyLookup) -> DataFrame:
        """Return the stored rows that a lookup finds."""


TableCache = dict[str, tuple[DeltaState, DataFrame]]
"""Rows of small tables after the last batch, valid until another writer commits."""


class Evaluation:
    """The evaluation of one batch.

    The change of each relation is computed once and cached until the end of the batch. The rows of
    small tables are cached for the next batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        frames: Mapping[str, DataFrame],
        batch_number: int,
        cache: TableCache | None = None,
    ) -> None:
        self.spark = spark
        self.batch_number = batch_number
        self._frames = frames
        self._cache: TableCache = {} if cache is None else cache
        self._states: dict[str, DeltaState] = {}
        self.recompute_all = False
        """Whether views are computed from all rows of their tables instead of incrementally."""
        self._cached_frames: dict[tuple[str, str], DataFrame] = {}
        self._changes: dict[str, Change] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._cached_frames.values():
            release_checkpointed_rows(frame)

    def input(self, name: str) -> DataFrame:
        """Return the batch's rows of an input."""
        return require_frame(self._frames, name, "input")

    def state(self, relation: Relation) -> DeltaState:
        """Return the state of a relation's table before the batch."""
        if relation.path not in self._states:
            self._states[relation.path] = delta_state(self.spark, relation.path)
        return self._states[relation.path]

    def previous_full_frame(self, relation: Relation) -> DataFrame | None:
        """Return the frame ALL_ROWS of the previous batch.

        None if the table has changed or an executor was lost.
        """
        if relation.path not in self._cache:
            return None
        cached_state, rows = self._cache[relation.path]
        is_current = self.state(relation).is_same_version(cached_state)
        return rows if is_current and has_all_checkpointed_rows(rows) else None

    def cache_for_next_batch(self, written_paths: Collection[str], max_bytes: int) -> None:
        """Cache the rows of written tables of up to `max_bytes` bytes for the next batch.

        Tables that another writer changed in between are not cached.

        written_paths: the paths of the tables that this batch was written to.
        """
        cacheable: TableCache = {}
        for path in written_paths:
            if (path, ALL_ROWS) not in self._cached_frames:
                continue
            current_state = delta_state(self.spark, path)
            is_sole_writer = current_state.version == self._states[path].version + 1
            if is_sole_writer and current_state.size_in_bytes() <= max_bytes:
                cacheable[path] = (current_state, self._cached_frames.pop((path, ALL_ROWS)))
        for _, previous_rows in self._cache.values():
            release_checkpointed_rows(previous_rows)
        self._cache.clear()
        self._cache.update(cacheable)

    def cached_frame(
        self, relation: Relation, purpose: str, make: Callable[[], DataFrame]
    ) -> DataFrame:
        """Compute a frame once, and cache its rows until the end of the batch."""
        cache_key = (relation.path, purpose)
        if cache_key not in self._cached_frames:
            # Not persist: Spark plans all dependent frames again whenever a source table changes.
            self._cached_frames[cache_key] = make().localCheckpoint()
        return self._cached_frames[cache_key]

    def change_in(self, relation: Relation) -> Change:
        """Return the change of a relation by the batch."""
        if relation.path not in self._changes:
            self._changes[relation.path] = _count_changes(relation, relation.compute_changes(self))
        return self._changes[relation.path]

    def operand(self, relation: Relation, lookup: KeyLookup) -> DataFrame:
        """Return a join operand: changed rows, and the unchanged rows that the lookup finds."""
        change = self.change_in(relation)
        if not lookup.buckets or self.state(relation).version < 0:
            return change.rows
        stored = relation.read_matching(self.spark, lookup).alias("old")
        changed_keys = change.rows.select(*map(quoted_column, relation.keys))
        new = broadcast_if_small(changed_keys, change.count).alias("new")
        unchanged = stored.join(new, same_key(relation.keys), "left_anti")
        return change.rows.unionByName(unchanged.withColumn(WEIGHT, F.lit(0)))


def _count_changes(relation: Relation, rows: DataFrame) -> Change:
    """Return a change with its affected buckets, computed by one Spark job."""
    lookup_columns = [quoted_column(name) for name in relation.lookup_columns]
    key = [quoted_column(name) for name in relation.keys]
    groups = rows.groupBy(
        bucket(lookup_columns, key, relation.buckets).alias("bucket"),
        (~any_null(lookup_columns)).alias("found"),
        (quoted_column(WEIGHT) < 0).alias("leaving"),
    )
    counts = groups.count().collect()
    count = sum(row["count"] for row in counts)
    # Rows with a null never match, so they need no bucket of the other side.
    matched_buckets = frozenset(row["bucket"] for row in counts if row["found"])
    leaving = sorted({row["bucket"] for row in counts if row["leaving"]})
    match_lookup = KeyLookup(rows.select(*lookup_columns), count, matched_buckets)
    return Change(rows, count, leaving, match_lookup)


def broadcast_if_small(frame: DataFrame, count: int) -> DataFrame:
    """Return the frame with a broadcast hint if it is small."""
    return F.broadcast(frame) if count <= _BROADCAST_ROWS else frame
