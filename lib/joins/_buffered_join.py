"""The join with emit="final": rows wait in slices, then in panes, until no row can match them.

State is a few large rows, and a numpy kernel matches the rows of each pane. Keys become codes and
times become ranks; both form a number by which right rows are sorted, so that the matches of a left
row are a range, which two binary searches find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..arrow_kernels import (
    ROWS_PER_BATCH,
    Flags,
    Ints,
    flatten_groups,
    in_ranges,
    key_codes,
    take_rows,
)
from ..columns import WATERMARK_KEY, quoted_column
from ..durations import interval_text
from ._sides import LEFT, RIGHT, Join, MatchType, Panes, Side, has_null_key, span

BUCKETS = 64
"""The number of key buckets of a pane; few large rows of state are faster than many small ones."""

_TIME = "__tidegate_at"
_BUCKET = "__tidegate_bucket"
_SPAN = "__tidegate_span"
_PANE = "__tidegate_pane"
# Spark recognizes a window by the metadata of its column, and closes it when its end has passed.
_IS_WINDOW = {"spark.timeWindow": True}


@dataclass(frozen=True)
class FinalJoin(Join):
    """A join that emits rows by the panes of its left side."""

    def rows(self) -> DataFrame:
        groups = self._panes(self._slices())
        matcher = IntervalMatcher(self.panes, len(self.left.on), self.how)
        schema = self._schema()

        def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for matched in matcher.match(batch):
                    yield matched.rename_columns(schema.names)

        return groups.mapInArrow(match, schema)

    def _slices(self) -> DataFrame:
        """Return the rows of both sides, collected by slice and bucket."""
        left = self._tagged_rows(self.left, LEFT)
        right = self._tagged_rows(self.right, RIGHT)
        tagged = left.unionByName(right, allowMissingColumns=True)
        slices = F.window(_TIME, interval_text(self.panes.slice)).alias(_SPAN)
        return _collect_sides(tagged.groupBy(slices, _BUCKET))

    def _tagged_rows(self, side: Side, name: str) -> DataFrame:
        """Return the rows of a side as structs in column `name`, with their time and bucket."""
        is_keyless = has_null_key(side)
        # Rows with a null key match nothing, and are distributed by their time.
        key_hash = F.xxhash64(*map(quoted_column, side.on))
        row_hash = F.when(is_keyless, F.xxhash64(side.time_column)).otherwise(key_hash)
        bucket = F.pmod(row_hash, F.lit(BUCKETS)).cast("int")
        names = (*side.on, *self.payload_columns(side))
        columns = [quoted_column(column).alias(f"column:{column}") for column in names]
        row = F.struct(side.time_column.alias("time"), *columns)
        frame = side.frame
        if not self.emits_unmatched(side):
            # The reference to the time prevents pushing the filter below the watermark, which these
            # rows advance too.
            frame = frame.where(~is_keyless | side.time_column.isNull())
        return frame.select(side.time_column.alias(_TIME), bucket.alias(_BUCKET), row.alias(name))

    def _panes(self, slices: DataFrame) -> DataFrame:
        """Return the rows that each pane requires."""
        full = self.how == "full"
        start = F.unix_micros(F.col(_SPAN)["start"])
        own_pane = self.panes.own_pane(start)
        right_panes = self.panes.overlapping_panes(start)
        left_panes = self.panes.swapped().overlapping_panes(start)
        # A pane requires its left rows and their possible matches; for "full" also its right rows
        # and their possible matches.
        pane = F.col(_PANE)
        edges = [own_pane, *right_panes]
        in_left = pane == own_pane
        in_right = pane.between(*right_panes)
        if full:
            edges += left_panes
            in_left = in_left | pane.between(*left_panes)
            in_right = in_right | (pane == own_pane)

        length = F.lit(self.panes.length)
        pane_starts = F.sequence(F.least(*edges), F.greatest(*edges), length)
        copies = slices.select("*", F.explode(pane_starts).alias(_PANE))
        end = pane + F.lit(self.panes.closing_delay(full=full))
        parts = copies.select(
            span(pane, end).alias(_SPAN),
            _BUCKET,
            F.when(in_left & (F.size(LEFT) > 0), F.col(LEFT)).alias(LEFT),
            F.when(in_right & (F.size(RIGHT) > 0), F.col(RIGHT)).alias(RIGHT),
        )
        present = parts.where(F.col(LEFT).isNotNull() | F.col(RIGHT).isNotNull())
        grouped = present.withMetadata(_SPAN, self._window_metadata()).groupBy(_SPAN, _BUCKET)
        return _collect_sides(grouped).select(_SPAN, LEFT, RIGHT)

    def _window_metadata(self) -> dict[str, Any]:
        metadata = self.left.frame.schema[self.left.time].metadata or {}
        delay = metadata.get(WATERMARK_KEY)
        return _IS_WINDOW if delay is None else {**_IS_WINDOW, WATERMARK_KEY: delay}

    def _schema(self) -> StructType:
        """Return the columns of joined rows: times, keys, then the other columns of each side."""
        columns = [(LEFT, self.left, self.left.time)]
        if self.how not in ("semi", "anti"):
            columns.append((RIGHT, self.right, self.right.time))
        columns += [(name, self.left, name) for name in self.left.on]
        for prefix, side in ((LEFT, self.left), (RIGHT, self.right)):
            columns += [(f"{prefix}{name}", side, name) for name in self.payload_columns(side)]
        types = {name: side.frame.schema[source].dataType for name, side, source in columns}
        return StructType([StructField(name, data_type) for name, data_type in types.items()])


def _collect_sides(groups: GroupedData) -> DataFrame:
    return groups.agg(F.collect_list(LEFT).alias(LEFT), F.collect_list(RIGHT).alias(RIGHT))


@dataclass(frozen=True)
class SideRows:
    """The rows of one side of several groups.

    group: the group number of each row.
    time: the event time of each row, in microseconds.
    columns: all columns of the rows: time, keys..., others...
    """

    group: Ints
    time: Ints
    columns: list[pa.Array]

    @classmethod
    def from_lists(cls, lists: pa.ListArray) -> SideRows:
        """Return the rows of a column that has a list of lists for each group."""
        group, rows = flatten_groups(lists)
        columns = rows.flatten()
        return cls(group, columns[0].cast(pa.int64()).to_numpy(), columns)

    def select(self, rows: Ints) -> list[pa.Array]:
        return take_rows(self.columns, rows)

    def null_columns(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, column.type) for column in self.columns]

    def in_own_pane(self, starts: Ints, length: int) -> Flags:
        """Return for each row whether it is in the pane of its group, not in an adjacent one.

        starts, length: the start of the pane of each group, and the length of a pane, in
            microseconds.
        """
        pane_start = starts[self.group]
        is_own: Flags = (self.time >= pane_start) & (self.time < pane_start + length)
        return is_own


@dataclass(frozen=True)
class MatchPairs:
    """The right rows that match each left row, as contiguous ranges of `right`.

    Row `left[i]` of the left side matches the rows `right[first[i] : first[i] + count[i]]` of the
    right side.
    """

    left: Ints
    right: Ints
    first: Ints
    count: Ints


@dataclass(frozen=True)
class IntervalMatcher:
    """Joins groups of rows (span, left rows, right rows), one for each pane and bucket.

    A group has the left rows of its pane and all right rows that can match them. For "full", it has
    the rows of both sides of its pane and all possible matches; a row is emitted with its own pane.
    """

    panes: Panes
    key_count: int
    how: MatchType

    def match(self, groups: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the joined rows: left time, right time, keys, left columns, right columns.

        For "semi" and "anti", only the columns of the left side.
        """
        left = SideRows.from_lists(groups.column(1))
        right = SideRows.from_lists(groups.column(2))
        pairs = self._find_matches(left, right)
        if self.how in ("semi", "anti"):
            has_match = pairs.count > 0
            for rows in _slice_rows(pairs.left[has_match if self.how == "semi" else ~has_match]):
                yield _to_batch(left.select(rows))
        else:
            starts = groups.column(0).field(0).cast(pa.int64()).to_numpy()
            yield from self._joined_batches(left, right, pairs, starts)

    def _joined_batches(
        self, left: SideRows, right: SideRows, pairs: MatchPairs, starts: Ints
    ) -> Iterator[pa.RecordBatch]:
        is_own = left.in_own_pane(starts, self.panes.length)[pairs.left]
        count = np.where(is_own, pairs.count, 0)
        for left_rows, right_rows in _pair_batches(pairs, count):
            yield self._join_batch(left.select(left_rows), right.select(right_rows))
        if self.how in ("left", "full"):
            for rows in _slice_rows(pairs.left[is_own & (pairs.count == 0)]):
                yield self._join_batch(left.select(rows), right.null_columns(len(rows)))
        if self.how == "full":
            is_own_right = right.in_own_pane(starts, self.panes.length)
            unmatched = np.flatnonzero(is_own_right & ~_matched_right_rows(pairs, len(right.time)))
            for rows in _slice_rows(unmatched):
                columns = right.select(rows)
                keys = columns[1 : 1 + self.key_count]
                yield self._join_batch(left.null_columns(len(rows)), columns, keys)

    def _find_matches(self, left: SideRows, right: SideRows) -> MatchPairs:
        left_code, right_code = _group_codes(left, right, self.key_count)
        instants, rank = np.unique(right.time, return_inverse=True)
        # The number orders right rows by code and time: each code has a range of numbers for the
        # ranks of all instants and one beyond the last.
        stride = len(instants) + 1
        rows_with_key = np.flatnonzero(right_code >= 0)
        number = right_code[rows_with_key] * stride + rank[rows_with_key]
        order = np.argsort(number)
        number = number[order]
        earliest = np.searchsorted(instants, left.time - self.panes.before, side="left")
        latest = np.searchsorted(instants, left.time + self.panes.after, side="right")
        low = left_code * stride + earliest
        high = left_code * stride + latest
        # Searching in ascending order is several times as fast.
        left_order = np.argsort(low)
        first = np.searchsorted(number, low[left_order])
        stop = np.searchsorted(number, high[left_order])
        count = np.where(left_code[left_order] >= 0, stop - first, 0)
        return MatchPairs(left=left_order, right=rows_with_key[order], first=first, count=count)

    def _join_batch(
        self, left: list[pa.Array], right: list[pa.Array], keys: list[pa.Array] | None = None
    ) -> pa.RecordBatch:
        """Return rows of both sides in one batch, with the keys of the left side by default."""
        payload_start = 1 + self.key_count
        keys = left[1:payload_start] if keys is None else keys
        return _to_batch([left[0], right[0], *keys, *left[payload_start:], *right[payload_start:]])


def _group_codes(left: SideRows, right: SideRows, key_count: int) -> tuple[Ints, Ints]:
    """Return a code for each left and each right row.

    Rows of one group with equal keys have the same code; rows with a null key have -1.
    """
    sides = zip(left.columns[1 : 1 + key_count], right.columns[1 : 1 + key_count], strict=True)
    keys = [_concatenate(columns) for columns in sides]
    code = key_codes(np.concatenate([left.group, right.group]), keys)
    has_key = reduce(and_, [np.asarray(key.is_valid()) for key in keys])
    code = np.where(has_key, code, -1)
    return code[: len(left.time)], code[len(left.time) :]


def _concatenate(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the rows of arrays as one array.

    Empty arrays are omitted, because pyarrow cannot concatenate those that Spark before 4.2 sends.
    """
    filled = [part for part in parts if len(part)]
    return pa.concat_arrays(filled) if filled else pa.array([], parts[0].type)


def _pair_batches(pairs: MatchPairs, count: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Return the left rows and the right rows of all pairs, in batches.

    count: the number of pairs of each left row: all its matches, or 0.
    """
    ends = np.cumsum(count)
    start = 0
    emitted = 0
    while start < len(count):
        # At least one left row, whose pairs can exceed a batch.
        stop = max(start + 1, int(np.searchsorted(ends, emitted + ROWS_PER_BATCH, side="right")))
        counts = count[start:stop]
        if counts.any():
            # The pairs of a left row start at `begins` in this batch and at `pairs.first` in
            # `pairs.right`.
            begins = ends[start:stop] - counts - emitted
            shift = np.repeat(pairs.first[start:stop] - begins, counts)
            right = np.arange(int(counts.sum())) + shift
            yield np.repeat(pairs.left[start:stop], counts), pairs.right[right]
        start = stop
        emitted = int(ends[stop - 1])


def _matched_right_rows(pairs: MatchPairs, rows: int) -> Flags:
    """Return for each right row whether a left row matches it."""
    matched = np.zeros(rows, dtype=bool)
    stop = pairs.first + pairs.count
    matched[pairs.right] = in_ranges(pairs.first, stop, len(pairs.right))
    return matched


def _slice_rows(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + ROWS_PER_BATCH] for start in range(0, len(rows), ROWS_PER_BATCH))


def _to_batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[str(index) for index in range(len(columns))])
