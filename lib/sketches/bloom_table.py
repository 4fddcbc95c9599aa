"""Bloom filters of any size: a table of blocks, each of them a small filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merge_partials
from ..columns import quoted_column, require_column_names, require_columns, require_no_name_clash
from ..errors import ArgumentError, ColumnTypeError
from ._envelope import decode_sketch
from .bloom import (
    bloom_filter_stats,
    build_filter,
    filter_aggregate,
    has_key,
    key_hash,
    typed_label,
)
from .bloom_size import BloomSize, fit_blocks

BLOCK = "block"
FILTER = "filter"
_HASH = "__tidegate_hash"
_BLOCK = "__tidegate_block"
_BITMAPS = "__tidegate_bitmaps"


@dataclass(frozen=True, kw_only=True)
class BloomTable:
    """A Bloom filter of any size, stored as the rows (blocks) of a table or DataFrame.

    key: the key columns, in this order, of any type but maps and variants.
    expected_items: the expected number of distinct keys; `stats` returns the current number.
    fpp: the false positive probability with `expected_items` keys, from 1e-9 to below 1.

    A row of the table is a block: its number (`block`, bigint) and a filter (`filter`, binary) of
    the keys whose hash belongs to it, some 3,400 at fpp=0.01. Blocks without keys have no row. The
    table takes 9.6 bits per key at 0.01: 1.2 MB for 1 million, 24 MB for 20 million. A key is in
    one block, so a lookup joins one row of the table.

    The filter ignores keys with a null, and nulls inside structs and arrays. Reading a table with
    another number of expected keys, another rate or other column types fails.

    To store the table, use `Upsert(..., keys=["block"], aggs=bloom_table.aggs)`, which adds the
    blocks of each batch exactly once.

    Raises:
        ArgumentError: for a key without columns, and for arguments out of range.
        ColumnError: for a key that names a column twice.

    Source: Bloom (1970); blocks as in Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient
    Bloom Filters (2007).

    >>> seen = BloomTable(key="user", expected_items=1_000_000)
    >>> blocks = seen.blocks(clicks.where("user = 'u1'"))
    >>> rows = seen.might_contain_rows(clicks, blocks, result_column="known")
    >>> sorted(map(tuple, rows.select("user", "known").distinct().collect()))
    [('u0', False), ('u1', True)]
    """

    plan_name: ClassVar[str] = "bloom_table"
    key: str | Sequence[str]
    expected_items: int
    fpp: float = 0.01

    def __post_init__(self) -> None:
        if not require_column_names(self.key, "key"):
            raise ArgumentError(
                f"invalid key: {self.key!r}", "one or more columns", 'key="event_id"'
            )
        fit_blocks(self.expected_items, self.fpp)

    @cached_property
    def size(self) -> BloomSize:
        """The size of the filter."""
        return fit_blocks(self.expected_items, self.fpp)

    @property
    def aggs(self) -> Mapping[str, Aggregate]:
        """The aggregate that merges the filters of one block number, by column name."""
        agg = filter_aggregate(self.size, require_column_names(self.key, "key"))
        return {FILTER: replace(agg, plan_name="bloom_blocks", plan_arguments={"of": self})}

    def blocks(self, rows: DataFrame) -> DataFrame:
        """Return the blocks of the keys of the rows; columns: block, filter."""
        key_hashes = rows.select(self._key_hash(rows).alias(_HASH))
        hashed = key_hashes.where(quoted_column(_HASH).isNotNull())
        block_filter = build_filter(self.size, quoted_column(_HASH), self._typed_label(rows))
        return hashed.groupBy(self._block_number().alias(BLOCK)).agg(block_filter.alias(FILTER))

    def merge(self, *tables: DataFrame) -> DataFrame:
        """Return the union of several tables: the filter of the keys of all tables."""
        if not tables:
            raise ArgumentError("invalid tables: ()", "one or more tables", "merge(first, second)")
        combined = reduce(DataFrame.unionByName, [table.select(BLOCK, FILTER) for table in tables])
        return merge_partials(combined, BLOCK, self.aggs)

    def might_contain_rows(
        self, rows: DataFrame, table: DataFrame, *, result_column: str = "known"
    ) -> DataFrame:
        """Return the rows with the column `result_column`: whether the table may contain their key.

        False is certain. `rows` may be a stream. `table` must have one row per block; after appends
        by several writers, use `merge(table)`. Spark joins rows and table on the block, and
        broadcasts a small table; `F.broadcast(table)` forces a broadcast.
        """
        new_names = [result_column, _HASH, _BLOCK, _BITMAPS]
        require_no_name_clash(rows.columns, new_names, "result_column")
        hashed = rows.withColumn(_HASH, self._key_hash(rows))
        # Before the join, to check each block once instead of once per key.
        bitmaps = decode_sketch(quoted_column(FILTER), self._typed_label(rows))
        decoded = table.select(quoted_column(BLOCK).alias(_BLOCK), bitmaps.alias(_BITMAPS))
        candidates = hashed.withColumn(_BLOCK, self._block_number()).join(decoded, _BLOCK, "left")
        may_contain = has_key(quoted_column(_BITMAPS), quoted_column(_HASH), self.size)
        known = F.coalesce(may_contain, F.lit(False)).alias(result_column)
        return candidates.select(*map(quoted_column, rows.columns), known)

    def stats(self, table: DataFrame) -> DataFrame:
        """Return one row with the fill of a table.

        keys: the estimated number of distinct keys (bigint, the standard error is below 1 %).
        planned: `expected_items`.
        fill: the fraction of bits set.
        false_positives: the current probability of a false positive.
        allowed: `fpp`.
        """
        block_stats = table.select(bloom_filter_stats(FILTER).alias("stats")).select("stats.*")
        return block_stats.agg(
            F.coalesce(F.sum("keys"), F.lit(0).cast("bigint")).alias("keys"),
            F.lit(self.expected_items).cast("bigint").alias("planned"),
            self._avg_over_blocks("fill").alias("fill"),
            self._avg_over_blocks("false_positives").alias("false_positives"),
            F.lit(self.fpp).alias("allowed"),
        )

    def _avg_over_blocks(self, name: str) -> Column:
        """Return the mean over all blocks; blocks without keys have no row and count as 0."""
        return F.coalesce(F.sum(name), F.lit(0.0)) / F.lit(float(self.size.blocks))

    def _key_hash(self, rows: DataFrame) -> Column:
        names = require_column_names(self.key, "key")
        require_columns(rows, names, "key")
        hashed = key_hash([quoted_column(name) for name in names])
        try:
            _ = rows.select(hashed).schema
        except AnalysisException as fault:
            message = str(fault).split(" SQLSTATE", 1)[0]
            raise ColumnTypeError(
                f"invalid type of key: {message}", "hashable types: all but maps and variants"
            ) from fault
        return hashed

    def _typed_label(self, rows: DataFrame) -> Column:
        types = [rows.schema[name].dataType for name in require_column_names(self.key, "key")]
        return typed_label(self.size, [F.lit(None).cast(type_) for type_ in types])

    def _block_number(self) -> Column:
        return F.pmod(quoted_column(_HASH), F.lit(self.size.blocks))
