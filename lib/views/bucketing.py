"""Tables in hash buckets, so that a lookup reads one bucket instead of the table.

A batch writes its rows unbucketed, in one or two files, since a file per bucket would result in
many small files. A lookup also reads these recent rows. Compaction merges recent rows into one
file, and moves them into buckets once there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import ceil
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted_column, require_columns
from ..delta import delta_table as table
from ..delta.table_layout import TableLayout
from ..errors import ArgumentError, TableError
from ..jvm import DeltaState, refuse_missing_files

BUCKET = "_bucket"
RECENT = -1
"""Bucket number of recent rows, which are in no bucket yet."""
MAX_RECENT_ROWS = 50_000
"""Up to this number, reading recent rows is as fast as reading buckets."""
_GROWTH_DIVISOR = 4
"""Rows are moved into buckets after growth by a quarter; each is rewritten about four times."""
_ROWS_PER_FILE = 1_000_000
_BUCKETS_METADATA = "tidegate.buckets"


def bucket(lookup_columns: Sequence[Column], key: Sequence[Column], buckets: int) -> Column:
    """Return the bucket of a row: by `lookup_columns`, or by its key if one of them is null.

    Rows that no lookup can find are thus distributed over the buckets.
    """
    by_key = F.when(any_null(lookup_columns), F.xxhash64(*key))
    return F.pmod(by_key.otherwise(F.xxhash64(*lookup_columns)), F.lit(buckets)).cast("int")


def any_null(columns: Sequence[Column]) -> Column:
    """Return whether one of the columns is null."""
    return reduce(or_, [column.isNull() for column in columns])


def read_buckets(spark: SparkSession, path: str, buckets: Iterable[int] | None = None) -> DataFrame:
    """Return the rows of these buckets and recent rows; without buckets all rows."""
    rows = spark.read.format("delta").load(path)
    return rows if buckets is None else rows.where(quoted_column(BUCKET).isin([RECENT, *buckets]))


def is_recent() -> Column:
    """Return whether a stored row is not in a bucket yet."""
    return quoted_column(BUCKET) == RECENT


def require_bucketed_schema(frame: DataFrame, path: str, buckets: int) -> DeltaState | None:
    """Return the state of the table, or None if it does not exist.

    Raises TableError if columns or the number of buckets differ.
    """
    layout = TableLayout(partition_by=[BUCKET])
    state = table.require_matching_schema(frame, path, layout, evolve=False)
    metadata = {} if state is None else state.schema()[BUCKET].metadata
    stored_buckets = metadata.get(_BUCKETS_METADATA)
    if stored_buckets not in (None, buckets):
        raise TableError(
            f"invalid buckets: {buckets} for {path}",
            f"the number that the table was created with: {stored_buckets}",
            f"buckets={stored_buckets}, or new tables and a new checkpoint",
        )
    return state


def bucket_writer(frame: DataFrame, buckets: int) -> DataFrameWriter:
    """Return a writer of rows with a bucket column."""
    rows = table.without_column_metadata(frame).withMetadata(BUCKET, {_BUCKETS_METADATA: buckets})
    return rows.write.format("delta").partitionBy(BUCKET)


def compact_table(
    spark: SparkSession,
    path: str,
    buckets: int,
    *,
    merge_recent: Callable[[DataFrame], DataFrame],
    rebucket: Callable[[DataFrame], DataFrame],
) -> None:
    """Move all rows into buckets if many are recent; otherwise merge the recent rows into one file.

    Readers see the same rows.

    rebucket: function that returns the current rows in their buckets.
    merge_recent: function that returns the current rows among the recent ones.
    """
    rows = spark.read.format("delta").load(path)
    counts = {row[0]: row[1] for row in rows.groupBy(is_recent()).count().collect()}
    recent_count = counts.get(True, 0)
    bucketed_count = counts.get(False, 0)
    if recent_count and recent_count >= max(MAX_RECENT_ROWS, bucketed_count // _GROWTH_DIVISOR):
        rebucketed = rebucket(rows).repartition(BUCKET)
        _save_rewrite(bucket_writer(rebucketed, buckets), spark, path)
        return
    recent_rows = rows.where(is_recent())
    files = max(1, ceil(recent_count / _ROWS_PER_FILE))
    if len(recent_rows.inputFiles()) > files:
        merged = merge_recent(recent_rows).repartition(files)
        writer = bucket_writer(merged, buckets).option("replaceWhere", f"{BUCKET} = {RECENT}")
        _save_rewrite(writer, spark, path)


def _save_rewrite(writer: DataFrameWriter, spark: SparkSession, path: str) -> None:
    """Replace rows by the same rows, in a commit that is marked as such."""
    with refuse_missing_files(spark):
        table.with_full_overwrite(writer).option("dataChange", "false").save(path)


def read_view(view: DataFrame, **values: Any) -> DataFrame:
    """Return the rows of a view that have these values in its lookup columns.

    Reads only the files that may contain such rows.

    Args:
        view: the table of the view as Spark reads it.
        values: a value for each lookup column of the view, in their order; not null.

    Raises:
        ArgumentError, ColumnError: at the call.

    >>> metadata = {"tidegate.buckets": 8}
    >>> bucketed = clicks.withColumn("_bucket", F.pmod(F.xxhash64("user"), F.lit(8)))
    >>> view = bucketed.withMetadata("_bucket", metadata)
    >>> read_view(view, user="u1").count()
    4
    """
    require_columns(view, [*values, BUCKET], "values")
    buckets = view.schema[BUCKET].metadata.get(_BUCKETS_METADATA)
    if buckets is None or not values or None in values.values():
        raise ArgumentError(
            f"invalid values: {values} for a table with buckets={buckets}",
            "the table of a view as Spark reads it, and a value for each lookup column",
            'read_view(spark.read.format("delta").load(path), follower="ann")',
        )
    types = {name: view.schema[name].dataType for name in values}
    literals = {name: F.lit(value).cast(types[name]) for name, value in values.items()}
    row_bucket = bucket(list(literals.values()), [F.lit(None)], buckets)
    rows = view.where(is_recent() | (quoted_column(BUCKET) == row_bucket))
    for name, value in literals.items():
        rows = rows.where(quoted_column(name) == value)
    return rows.drop(BUCKET)
