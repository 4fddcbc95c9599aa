"""Bloom filters of any size: a table of blocks, each a small filter of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import Aggregate, merged
from ..columns import names, quoted, require, require_free
from ..errors import ArgumentError, ColumnTypeError
from ._bloom_filter import HashedKey, filter_aggregate, has_key, key_hash, typed_label
from .bloom import fullness
from .bloom_size import BloomSize, many_blocks
from .stored import opened

BLOCK = "block"
FILTER = "filter"
_HASH = "__tidegate_hash"
_BLOCK = "__tidegate_block"
_BITMAPS = "__tidegate_bitmaps"


@dataclass(frozen=True, kw_only=True)
class BloomTable:
    """The plan of a large Bloom filter, whose table is any DataFrame of its blocks.

    key: the columns that make up a key, in this order, of all types but maps and variants.
    keys: how many different keys are planned for; `report` tells how many there are.
    false_positives: the rate that is allowed with `keys` keys, 1e-9 to below 1.

    A row of the table is a block: its number (`block`, a bigint) and a filter (`filter`, bytes) for
    the keys whose hash belongs to it, some 3,400 at 0.01. Blocks without keys have no row. The
    table takes 9.6 bits a key at 0.01: 1.2 MB for 1 million, 24 MB for 20 million. A key is in one
    block, so a row to be probed meets one row of the table.

    A key with a null is equal to nothing: it is not added, and never found. Nulls inside a struct
    or an array are passed over. A table made for another number of keys, another rate or columns of
    other types is refused when its blocks are read.

    To keep the table: `Upsert(..., keys=["block"], aggs=plan.aggs)` adds the blocks of each batch
    exactly once.

    Raises:
        ArgumentError: for a key of no column, and for keys or a rate out of range.
        ColumnError: for a key that names a column twice.

    Source: Bloom (1970); blocks as in Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient
    Bloom Filters (2007).

    >>> known = BloomTable(key="user", keys=1_000_000)
    >>> blocks = known.blocks(clicks.where("user = 'u1'"))
    >>> users = known.probe(clicks, blocks, into="known").select("user", "known").distinct()
    >>> sorted(map(tuple, users.collect()))
    [('u0', False), ('u1', True)]
    """

    key: str | Sequence[str]
    keys: int
    false_positives: float = 0.01

    def __post_init__(self) -> None:
        if not names(self.key, "key"):
            raise ArgumentError("key names no column.", "one column or more.", 'key="event_id"')
        many_blocks(self.keys, self.false_positives)

    @cached_property
    def size(self) -> BloomSize:
        """The measures of the filter."""
        return many_blocks(self.keys, self.false_positives)

    @property
    def aggs(self) -> Mapping[str, Aggregate]:
        """The aggregate that merges blocks of one number, by the name of its column."""

        def keyed() -> HashedKey:
            columns = [quoted(name) for name in names(self.key, "key")]
            return HashedKey(key_hash(columns), F.max(typed_label(self.size, columns)))

        return {FILTER: filter_aggregate(self.size, keyed, names(self.key, "key"))}

    def blocks(self, rows: DataFrame) -> DataFrame:
        """Return the blocks of the rows' keys; columns: block, filter."""
        hashed = rows.select(self._hash(rows).alias(_HASH)).where(quoted(_HASH).isNotNull())
        blocks = hashed.groupBy(self._block().alias(BLOCK))
        agg = filter_aggregate(self.size, lambda: HashedKey(quoted(_HASH), self._label(rows)))
        return blocks.agg(agg.partial(F.lit(None)).alias(FILTER))

    def merged(self, *tables: DataFrame) -> DataFrame:
        """Return one table of several: the filter of the keys of all of them."""
        if not tables:
            raise ArgumentError("merged was given no table.", "one or more.")
        together = reduce(DataFrame.unionByName, [table.select(BLOCK, FILTER) for table in tables])
        return merged(together, BLOCK, self.aggs)

    def probe(self, rows: DataFrame, table: DataFrame, *, into: str = "known") -> DataFrame:
        """Return the rows with the column `into`: whether the table may hold their key.

        False is certain. `rows` may be a stream. `table` has one row a block: where several writers
        have appended to it, `merged(table)` makes it so. Spark joins rows and table on the block,
        and sends a table that is small enough to all executors; `F.broadcast(table)` asks for
        it.
        """
        require_free(rows.columns, [into, _HASH, _BLOCK, _BITMAPS], "into")
        hashed = rows.withColumn(_HASH, self._hash(rows)).withColumn(_BLOCK, self._block())
        # Below the join, so that a block is checked once and not once for each key.
        bitmaps = opened(quoted(FILTER), self._label(rows))
        sound = table.select(quoted(BLOCK).alias(_BLOCK), bitmaps.alias(_BITMAPS))
        found = F.coalesce(has_key(quoted(_BITMAPS), quoted(_HASH), self.size), F.lit(False))
        asked = hashed.join(sound, _BLOCK, "left")
        return asked.select(*map(quoted, rows.columns), found.alias(into))

    def report(self, table: DataFrame) -> DataFrame:
        """Return one row that says how full a table is.

        keys: about how many different keys it holds (bigint, the standard error is below 1 %).
        planned: how many keys it was made for.
        fill: the share of bits set.
        false_positives: the rate at which it finds keys that were not there, as it is now.
        allowed: the rate that it was made for.
        """
        full = table.select(fullness(FILTER).alias("full")).select("full.*")
        return full.agg(
            F.coalesce(F.sum("keys"), F.lit(0).cast("bigint")).alias("keys"),
            F.lit(self.keys).cast("bigint").alias("planned"),
            self._mean_of_blocks("fill").alias("fill"),
            self._mean_of_blocks("false_positives").alias("false_positives"),
            F.lit(self.false_positives).alias("allowed"),
        )

    def _mean_of_blocks(self, name: str) -> Column:
        """Return the mean over all blocks; those without keys have no row and count as 0."""
        return F.coalesce(F.sum(name), F.lit(0.0)) / F.lit(float(self.size.blocks))

    def _hash(self, rows: DataFrame) -> Column:
        require(rows, names(self.key, "key"), "key")
        hashed = key_hash([quoted(name) for name in names(self.key, "key")])
        try:
            _ = rows.select(hashed).schema
        except AnalysisException as fault:
            said = str(fault).split(" SQLSTATE", 1)[0]
            raise ColumnTypeError(
                f"key is of a type that cannot be hashed: {said}",
                "all types but maps and variants.",
            ) from fault
        return hashed

    def _label(self, rows: DataFrame) -> Column:
        types = [rows.schema[name].dataType for name in names(self.key, "key")]
        return typed_label(self.size, [F.lit(None).cast(type_) for type_ in types])

    def _block(self) -> Column:
        return F.pmod(quoted(_HASH), F.lit(self.size.blocks))
