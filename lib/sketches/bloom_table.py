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
from .bloom import digest, filter_aggregate, fullness, has_key, typed_label
from .bloom_size import BloomSize, many_blocks
from .stored import opened

BLOCK, FILTER = "block", "filter"
_HASH, _BLOCK, _BITMAPS = "__tidegate_hash", "__tidegate_block", "__tidegate_bitmaps"


@dataclass(frozen=True, kw_only=True)
class BloomTable:
    """What a large Bloom filter is made for: the table itself is any DataFrame of its blocks.

    key: the columns that make up a key, in this order, of all types but maps and variants.
    keys: how many different keys are planned for; `report` tells how many there are.
    false_positives: the rate that is allowed then, 1e-9 to below 1.

    A row of the table is a block: its number (`block`, a bigint) and a filter (`filter`, bytes) for
    the keys whose hash belongs to it, some 3,400 at 0.01. Blocks without keys have no row. The
    table takes 9.6 bits a key at 0.01: 1.2 MB for 1 million, 24 MB for 20 million. A key is in one
    block, so a row to be probed meets one row of the table.

    A key with a null is equal to nothing: it is not added, and never found. Inside a struct or an
    array nulls do not count. A table made for other keys, another rate or columns of other types is
    refused when its blocks are read.

    To keep the table: `Upsert(path=..., keys=["block"], aggs=table.aggs)` adds the blocks of each
    batch exactly once.

    Raises ArgumentError, ColumnError.

    Source: Bloom (1970); blocks as in Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient
    Bloom Filters (2007).

    >>> known = BloomTable(key="user", keys=1_000_000)
    >>> blocks = known.blocks(clicks.where("user = 'u1'"))
    >>> sorted({(row.user, row.known) for row in known.probe(clicks, blocks, into="known").collect()})
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
        """The aggregate by which blocks of one number become one, by the name of its column."""

        def keyed() -> tuple[Column, Column]:
            columns = [quoted(name) for name in names(self.key, "key")]
            return digest(columns), F.max(typed_label(self.size, columns))

        return {FILTER: filter_aggregate(self.size, keyed, names(self.key, "key"))}

    def blocks(self, rows: DataFrame) -> DataFrame:
        """Make the blocks of the rows' keys; columns: block, filter."""
        hashed = rows.select(self._digest(rows).alias(_HASH)).where(quoted(_HASH).isNotNull())
        made = filter_aggregate(self.size, lambda: (quoted(_HASH), self._label(rows)))
        return hashed.groupBy(self._block().alias(BLOCK)).agg(
            made.partial(F.lit(None)).alias(FILTER)
        )

    def merged(self, *tables: DataFrame) -> DataFrame:
        """Make one table of several: the filter of all their keys."""
        if not tables:
            raise ArgumentError("merged was given no table.", "one or more.")
        together = reduce(DataFrame.unionByName, [table.select(BLOCK, FILTER) for table in tables])
        return merged(together, BLOCK, self.aggs)

    def probe(self, rows: DataFrame, table: DataFrame, *, into: str = "known") -> DataFrame:
        """Return the rows with one more column: whether the table may hold their key; false is certain.

        `table` has one row a block: `merged(table)` makes it so where several writers have appended
        to it. `rows` may be a stream. Spark joins them on the block, and sends a table that is
        small enough to all executors; `F.broadcast(table)` asks for it."""
        require_free(rows.columns, [into, _HASH, _BLOCK, _BITMAPS], "into")
        hashed = rows.withColumn(_HASH, self._digest(rows)).withColumn(_BLOCK, self._block())
        # Below the join, so that a block is checked once and not once for each key.
        sound = table.select(
            quoted(BLOCK).alias(_BLOCK), opened(quoted(FILTER), self._label(rows)).alias(_BITMAPS)
        )
        found = F.coalesce(has_key(quoted(_BITMAPS), quoted(_HASH), self.size), F.lit(False))
        return hashed.join(sound, _BLOCK, "left").select(
            *map(quoted, rows.columns), found.alias(into)
        )

    def report(self, table: DataFrame) -> DataFrame:
        """Tell how full a table is; one row.

        keys: about how many different keys it holds (bigint, the standard error is below 1 %);
        planned: for how many it was made; fill: the share of bits set; false_positives: the rate at
        which it now finds keys that were not there;
        allowed: the rate that it was made for.
        """
        full = table.select(fullness(FILTER).alias("full")).select("full.*")
        blocks = F.lit(float(self.size.blocks))
        return full.agg(
            F.coalesce(F.sum("keys"), F.lit(0).cast("bigint")).alias("keys"),
            F.lit(self.keys).cast("bigint").alias("planned"),
            (F.coalesce(F.sum("fill"), F.lit(0.0)) / blocks).alias("fill"),
            (F.coalesce(F.sum("false_positives"), F.lit(0.0)) / blocks).alias("false_positives"),
            F.lit(self.false_positives).alias("allowed"),
        )

    def _digest(self, rows: DataFrame) -> Column:
        require(rows, names(self.key, "key"), "key")
        hashed = digest([quoted(name) for name in names(self.key, "key")])
        try:
            rows.select(hashed).schema  # noqa: B018
        except AnalysisException as fault:
            raise ColumnTypeError(
                f"key is of a type that cannot be hashed: {str(fault).split(' SQLSTATE', 1)[0]}",
                "all types but maps and variants.",
            ) from fault
        return hashed

    def _label(self, rows: DataFrame) -> Column:
        types = [rows.schema[name].dataType for name in names(self.key, "key")]
        return typed_label(self.size, [F.lit(None).cast(type_) for type_ in types])

    def _block(self) -> Column:
        return F.pmod(quoted(_HASH), F.lit(self.size.blocks))
