"""Tables in buckets by a hash, so that to look up a key is to read its bucket and not the table.

What a batch writes stands by itself at first, whatever its keys, in a file or two: a file for each
bucket would be many small ones. Whoever looks a key up reads these recent rows as well. Now and
then the recent rows are put into one file; when they have become many, all rows are put into the
buckets where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import ceil
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted, require
from ..commit import table
from ..commit.layout import Layout
from ..errors import ArgumentError, TableError
from ..jvm import DeltaState

BUCKET = "_bucket"
RECENT = -1
"""Stands in place of a bucket for rows that have not been put in one."""
FEW = 50_000
"""Up to this number, recent rows are read as fast as the buckets would be."""
_SHARE = 4
"""When a table has grown by a quarter, its rows are put in buckets: each is rewritten about four
times."""
_ROWS_A_FILE = 1_000_000
_BUCKETS = "tidegate.buckets"


def bucket(by: Sequence[Column], key: Sequence[Column], buckets: int) -> Column:
    """Return a row's bucket: by its `by` columns, or by its key where one of these is null.

    So rows that no lookup can find do not crowd in one bucket.
    """
    hashed = F.when(absent(by), F.xxhash64(*key)).otherwise(F.xxhash64(*by))
    return F.pmod(hashed, F.lit(buckets)).cast("int")


def absent(columns: Sequence[Column]) -> Column:
    """Return whether one of the columns is null."""
    return reduce(or_, [column.isNull() for column in columns])


def read(spark: SparkSession, path: str, buckets: Iterable[int] | None = None) -> DataFrame:
    """Return the rows of these buckets and the recent ones; no other file is opened.

    Without buckets all rows.
    """
    rows = spark.read.format("delta").load(path)
    return rows if buckets is None else rows.where(quoted(BUCKET).isin([RECENT, *buckets]))


def recent() -> Column:
    """Return whether a stored row is not in its bucket yet."""
    return quoted(BUCKET) == RECENT


def existing(frame: DataFrame, path: str, buckets: int) -> DeltaState | None:
    """Return the table's state, or None where there is none yet.

    Other columns, and another number of buckets, are refused.
    """
    state = table.existing(frame, path, Layout(partition_by=[BUCKET]), evolve=False)
    known = None if state is None else state.schema()[BUCKET].metadata.get(_BUCKETS)
    if known not in (None, buckets):
        raise TableError(
            f"buckets is {buckets}, and {path} was made with {known}.",
            "the number that a table was made with.",
            f"buckets={known}, or new tables and a new checkpoint.",
        )
    return state


def writer(frame: DataFrame, buckets: int) -> DataFrameWriter:
    """Return a writer of rows that bear their buckets; the rows of a batch are recent."""
    rows = table.plain(frame).withMetadata(BUCKET, {_BUCKETS: buckets})
    return rows.write.format("delta").partitionBy(BUCKET)


def compact(
    spark: SparkSession,
    path: str,
    buckets: int,
    *,
    together: Callable[[DataFrame], DataFrame],
    placed: Callable[[DataFrame], DataFrame],
) -> None:
    """Put all rows in their buckets if many are recent, and else the recent ones in one file.

    To readers nothing changes.

    placed: returns of all rows those that count, in their buckets.
    together: returns of the recent rows those that count.
    """
    rows = spark.read.format("delta").load(path)
    counts = {row[0]: row[1] for row in rows.groupBy(recent()).count().collect()}
    new = counts.get(True, 0)
    old = counts.get(False, 0)
    if new and new >= max(FEW, old // _SHARE):
        ordered = placed(rows).repartition(BUCKET)
        _rewrite(writer(ordered, buckets)).save(path)
        return
    fresh = rows.where(recent())
    files = max(1, ceil(new / _ROWS_A_FILE))
    if len(fresh.inputFiles()) > files:
        one = _rewrite(writer(together(fresh).repartition(files), buckets))
        one.option("replaceWhere", f"{BUCKET} = {RECENT}").save(path)


def _rewrite(writer: DataFrameWriter) -> DataFrameWriter:
    """Return a writer that puts the same rows into other files."""
    return table.replacing(writer).option("dataChange", "false")


def lookup(view: DataFrame, **values: Any) -> DataFrame:
    """Return the rows of a view that have these values in its lookup columns.

    Files that cannot hold such rows are not read.

    Args:
        view: the table as Spark reads it.
        values: a value for each of the view's `by` columns, in their order; none is null.

    Raises:
        ArgumentError, ColumnError: at the call.

    >>> marks = {"tidegate.buckets": 8}
    >>> bucketed = clicks.withColumn("_bucket", F.pmod(F.xxhash64("user"), F.lit(8)))
    >>> view = bucketed.withMetadata("_bucket", marks)
    >>> lookup(view, user="u1").count()
    4
    """
    require(view, [*values, BUCKET], "lookup")
    buckets = view.schema[BUCKET].metadata.get(_BUCKETS)
    if buckets is None or not values or None in values.values():
        raise ArgumentError(
            f"lookup has the values {values}, of a table of {buckets} buckets.",
            "the table of a view, as Spark reads it, and a value for each of its by columns.",
            'lookup(spark.read.format("delta").load(path), follower="ann")',
        )
    wanted = {name: F.lit(value).cast(view.schema[name].dataType) for name, value in values.items()}
    rows = view.where(
        recent() | (quoted(BUCKET) == bucket(list(wanted.values()), [F.lit(None)], buckets))
    )
    for name, value in wanted.items():
        rows = rows.where(quoted(name) == value)
    return rows.drop(BUCKET)
