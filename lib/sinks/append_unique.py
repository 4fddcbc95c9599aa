"""Append rows whose key no earlier row had, by a Bloom filter stored in a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from operator import or_
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import quoted_column, require_column_names, require_columns
from ..commit.batch import CommitContext
from ..commit.delta_commit import commit_once, last_batch
from ..commit.protocol import Outcome
from ..delta.commit_options import CommitOptions
from ..delta.delta_table import overwrite, read_table
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..errors import ArgumentError, TableError, TableMismatchError
from ..input_frames import ROWS, only_frame
from ..sketches.bloom_table import BloomTable
from .append import Append
from .base import Sink, require_distinct_paths, require_target

_IS_KNOWN = "__tidegate_known"
_DUPLICATES_OUTPUT = "repeated"
_FILTER_OUTPUT = "seen"
_REBUILD_OUTPUT = "rebuilt"


@dataclass(frozen=True)
class AppendUnique(Sink):
    """Append rows with a new key, exactly once; write rows with a known key to another table.

    Within a batch the first row of each key by `order` is appended; this is exact. Across batches a
    Bloom filter decides. It never misses a repeated key. With the false positive probability of
    `keys_table` it takes a new key for a repeated one; such a row is not lost but written to
    `duplicates`, and a join with the target identifies it. Which rows are affected depends on batch
    boundaries. Rows with a null in the key are always appended.

    Three tables are written, in this order: `duplicates`, the target and the filter at
    `filter_path`, each with its own stamp. The filter stores the keys of a batch only after the
    target contains the batch, so a batch that runs again after a failure is not compared with its
    own keys. The filter table may be deleted between two runs, to enlarge it for example; the next
    batch rebuilds it from the target.

    If the filter contains more keys than planned, each batch warns and states the current error
    rate. At `max_fpp_factor` times the planned rate, batches are rejected before anything is
    written.

    State: the filter, 9.6 bits per key at a probability of 0.01; each batch reads and rewrites all
    of it. No other writer may change it; VACUUM deletes its older versions.

    Args:
        path: path of the target.
        duplicates: path of the table of repeated rows.
        filter_path: path of the table of the filter.
        keys_table: the key, the expected number of keys and the false positive probability.
        order: columns that order the rows of a key within a batch; all columns by default.
        layout, output: as for `Append`.
        max_fpp_factor: allowed error rate, as a multiple of the planned one.

    Raises:
        ArgumentError: at construction.
        ColumnError, TableError (different columns, a full filter), ConflictError: for a batch.
        TableMismatchError: for a batch, also if filter and target contain different batches.

    >>> from tidegate.sketches import BloomTable
    >>> keys = BloomTable(key="event_id", expected_items=20_000_000)
    >>> tables = {"duplicates": "/data/repeated", "filter_path": "/data/filter"}
    >>> AppendUnique("/data/events", **tables, keys_table=keys).output
    'append'
    """

    plan_name: ClassVar[str] = "append_unique"
    rebuildable_outputs = frozenset([_FILTER_OUTPUT])

    path: str
    _: KW_ONLY
    duplicates: str
    filter_path: str
    keys_table: BloomTable
    order: Sequence[str] = ()
    layout: TableLayout = ANY_LAYOUT
    output: str = "append"
    max_fpp_factor: float = 2.0

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout)
        require_target(self.duplicates, _DUPLICATES_OUTPUT)
        require_target(self.filter_path, _FILTER_OUTPUT)
        require_distinct_paths(self.path, self.duplicates, self.filter_path)
        if not self.max_fpp_factor > 1:
            raise ArgumentError(
                f"invalid max_fpp_factor: {self.max_fpp_factor!r}",
                "a factor above 1",
                "max_fpp_factor=2.0",
            )

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of repeated rows, of the target and of the filter."""
        return [
            (self.duplicates, _DUPLICATES_OUTPUT),
            (self.path, self.output),
            (self.filter_path, _FILTER_OUTPUT),
        ]

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the target cannot store a row."""
        return self._target_sink().rejection(rows)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Append the new rows, or skip the batch if the table already contains it."""
        frame = only_frame(frames)
        spark = frame.sparkSession
        if self._is_committed(spark, batch):
            # Append skips the batch, or refuses a different batch with the same number.
            outcome = self._target_sink().write(frames, batch, rows_out=rows_out)
        else:
            self._require_matching_filter(spark, batch)
            outcome = self._split(frame, batch)
        self._add_to_filter(frame, batch, _FILTER_OUTPUT)
        return outcome

    def _split(self, frame: DataFrame, batch: CommitContext) -> Outcome:
        flagged = self._with_known_flag(frame).persist()
        try:
            counts = {row[0]: row[1] for row in flagged.groupBy(_IS_KNOWN).count().collect()}
            duplicate_count = counts.get(True, 0)
            if duplicate_count:
                duplicates = flagged.where(quoted_column(_IS_KNOWN)).drop(_IS_KNOWN)
                duplicates_sink = Append(self.duplicates, output=_DUPLICATES_OUTPUT)
                duplicates_sink.write({ROWS: duplicates}, batch, rows_out=duplicate_count)
            new_rows = flagged.where(~quoted_column(_IS_KNOWN)).drop(_IS_KNOWN)
            return self._target_sink().write({ROWS: new_rows}, batch, rows_out=counts.get(False, 0))
        finally:
            flagged.unpersist()

    def _with_known_flag(self, frame: DataFrame) -> DataFrame:
        """Flag rows whose key occurs earlier in the batch or in the filter."""
        keys = require_column_names(self.keys_table.key, "key")
        require_columns(frame, [*keys, *self.order], "key and order")
        filter_table = read_table(frame.sparkSession, self.filter_path)
        if filter_table is None:
            flagged = frame.withColumn(_IS_KNOWN, F.lit(False))
        else:
            self._check_error_rate(filter_table)
            flagged = self.keys_table.might_contain_rows(
                frame, filter_table, result_column=_IS_KNOWN
            )
        # All columns by default: a batch that runs again must select the same row.
        order = map(quoted_column, self.order or frame.columns)
        by_key = Window.partitionBy(*map(quoted_column, keys)).orderBy(*order)
        keyless = reduce(or_, [quoted_column(name).isNull() for name in keys])
        is_repeated = (F.row_number().over(by_key) > 1) & ~keyless
        return flagged.withColumn(_IS_KNOWN, quoted_column(_IS_KNOWN) | is_repeated)

    def _check_error_rate(self, filter_table: DataFrame) -> None:
        """Warn if the filter exceeds its plan; raise if its error rate is too high."""
        stats = self.keys_table.stats(filter_table).head()
        if stats is None or stats["keys"] <= stats["planned"]:
            return
        # Rounded to three digits, so that repeated warnings are identical.
        rounded_count = round(stats["keys"], 3 - len(str(stats["keys"])))
        description = (
            f"Bloom filter {self.filter_path} is planned for {stats['planned']:,} keys and "
            f"contains about {rounded_count:,}; its false positive rate is "
            f"{stats['false_positives']:.2g}, planned {stats['allowed']:.2g}"
        )
        if stats["false_positives"] > self.max_fpp_factor * stats["allowed"]:
            raise TableError(
                f"{description}; nothing was written",
                f"at most {self.max_fpp_factor:g} times the planned rate",
                "a larger expected_items, and delete the table: it is rebuilt from the target",
            )
        warnings.warn(f"{description}.", stacklevel=2)

    def _require_matching_filter(self, spark: SparkSession, batch: CommitContext) -> None:
        """Refuse a filter that does not contain the same batches as the target.

        A missing filter is rebuilt from the target.
        """
        if read_table(spark, self.filter_path) is None:
            target = read_table(spark, self.path)
            if target is not None:
                self._add_to_filter(target, batch, _REBUILD_OUTPUT)
            return
        last_written = last_batch(spark, self.path, batch, self.output)
        filter_batch = last_batch(spark, self.filter_path, batch, _FILTER_OUTPUT)
        if filter_batch is not None and filter_batch == last_written:
            return
        rebuild_batch = last_batch(spark, self.filter_path, batch, _REBUILD_OUTPUT)
        # Rebuilt by this query, which failed before the target contained its first batch.
        is_unused_rebuild = rebuild_batch is not None and (
            last_written is None or last_written < rebuild_batch
        )
        if filter_batch is None and is_unused_rebuild:
            return
        raise TableMismatchError(
            f"filter and target differ: {self.filter_path} is at batch {filter_batch} of this "
            f"query, {self.path} at batch {last_written}; nothing was written.",
            "one of the tables was restored or written by another query.",
            f"delete {self.filter_path}; it is rebuilt from the target.",
        )

    def _target_sink(self) -> Append:
        return Append(self.path, layout=self.layout, output=self.output)

    def _add_to_filter(self, rows: DataFrame, batch: CommitContext, output: str) -> None:
        spark = rows.sparkSession

        def commit(options: CommitOptions) -> None:
            filter_table = read_table(spark, self.filter_path)
            added = self.keys_table.blocks(rows)
            merged = added if filter_table is None else self.keys_table.merge(filter_table, added)
            overwrite(merged, self.filter_path, options)

        commit_once(spark, self.filter_path, batch, output, commit, {})
