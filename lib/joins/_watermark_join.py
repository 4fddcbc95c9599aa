"""The join with emit="early": Spark's stream-stream join, corrected where it differs from a batch.

- Spark drops a row exactly at the watermark, so times are shifted by a microsecond.
- In a full join of Spark null keys match each other; the join condition here excludes null keys, so
  that such rows are emitted at once and not stored.
- Intervals of a day or more would depend on the session time zone; times are compared as numbers.
- A semi join of Spark loses a left row if its match arrives in the same batch and the watermark
  evicts it at once; on a stream this is an inner join, deduplicated by left row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import WATERMARK_KEY, add_micros, quoted_column
from ._sides import LEFT, RIGHT, Join, Side

_SPARK_JOIN_TYPES = {
    "inner": "inner",
    "left": "left_outer",
    "full": "full_outer",
    "semi": "left_semi",
    "anti": "left_outer",
}
"""Join types of Spark; its streams do not support anti joins, which are unmatched left rows."""
_ROW = "row"
"""The identifier of a left row in a semi join."""

_SECOND = 1_000_000
_SLACK = 1_000
"""The tolerance for rounding errors of doubles, in microseconds."""


@dataclass(frozen=True)
class EarlyJoin(Join):
    """A join that emits a pair in the batch in which its second row arrives."""

    def rows(self) -> DataFrame:
        """Return the matched rows, and the unmatched rows as soon as no row can match them."""
        left = self._watermarked_side(self.left, LEFT)
        right = self._watermarked_side(self.right, RIGHT)
        if self.how == "semi" and left.isStreaming:
            return self._restore_columns(self._semi_join(left, right))
        joined = left.join(right, self._join_condition(), _SPARK_JOIN_TYPES[self.how])
        if self.how == "anti":
            joined = joined.where(quoted_column(RIGHT).isNull())
        return self._restore_columns(joined)

    def _semi_join(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the left rows with a match, each with its first match.

        Spark stores the identifier of a left row until no further row can match it.
        """
        with_row_id = left.withColumn(_ROW, F.expr("uuid()"))
        pairs = with_row_id.join(right, self._join_condition(), "inner")
        left_rows = pairs.select(*map(quoted_column, with_row_id.columns))
        return left_rows.dropDuplicatesWithinWatermark([_ROW])

    def _watermarked_side(self, side: Side, name: str) -> DataFrame:
        """Return the columns of a side with internal names and watermark metadata on the time."""
        # The nondeterministic condition, always true, prevents pushing filters below the watermark,
        # which all rows must advance. Its unique literal makes sides differ: Spark would reuse
        # equal exchanges of several joins, which then drop and evict rows by a wrong watermark.
        filter_id = -1 - uuid4().int % 2**30
        is_any = F.spark_partition_id() >= filter_id
        rows = side.frame.where(is_any & side.time_column.isNotNull())
        metadata = side.frame.schema[side.time].metadata or {}
        watermark_metadata = {WATERMARK_KEY: metadata[WATERMARK_KEY]}
        no_metadata: dict[str, Any] = {}
        shifted_time = add_micros(side.time_column, 1)
        keys = [
            quoted_column(key).alias(_key_alias(name, number), metadata=no_metadata)
            for number, key in enumerate(side.on)
        ]
        payload = [
            quoted_column(column).alias(f"{name}{column}", metadata=no_metadata)
            for column in self.payload_columns(side)
        ]
        return rows.select(shifted_time.alias(name, metadata=watermark_metadata), *keys, *payload)

    def _join_condition(self) -> Column:
        left_keys, right_keys = (
            [quoted_column(_key_alias(name, number)) for number in range(len(self.left.on))]
            for name in (LEFT, RIGHT)
        )
        equal_keys = [left == right for left, right in zip(left_keys, right_keys, strict=True)]
        no_null_keys = [key.isNotNull() for key in (*left_keys, *right_keys)]
        bounds = [self._band_condition(), self._state_bounds()]
        return reduce(and_, [*equal_keys, *no_null_keys, *bounds])

    def _band_condition(self) -> Column:
        left = F.unix_micros(LEFT)
        right = F.unix_micros(RIGHT)
        earliest = left - F.lit(self.panes.before)
        latest = left + F.lit(self.panes.after)
        # Spark tries to derive a state watermark from comparisons by < or <=, and would log a
        # warning that it cannot.
        return F.greatest(earliest, F.least(latest, right)) == right

    def _state_bounds(self) -> Column:
        """Return a weaker interval condition, from which Spark derives when to evict rows.

        It compares times as seconds in doubles.
        """
        left = quoted_column(LEFT).cast("double")
        right = quoted_column(RIGHT).cast("double")
        before = F.lit((self.panes.before + _SLACK) / _SECOND)
        after = F.lit((self.panes.after + _SLACK) / _SECOND)
        return (right <= left + after) & (left <= right + before)

    def _restore_columns(self, joined: DataFrame) -> DataFrame:
        """Return joined rows with their original times, and each key once."""
        sides = {LEFT: self.left, RIGHT: self.right}
        if self.how in ("semi", "anti"):
            del sides[RIGHT]
        columns = [add_micros(quoted_column(name), -1).alias(name) for name in sides]
        for number, key in enumerate(self.left.on):
            values = [quoted_column(_key_alias(name, number)) for name in sides]
            columns.append(F.coalesce(*values).alias(key))
        for name, side in sides.items():
            columns += [quoted_column(f"{name}{column}") for column in side.payload_columns]
        return joined.select(*columns)


def _key_alias(side: str, number: int) -> str:
    # Payload columns start with the name of the side.
    return f"key:{number}:{side}"
