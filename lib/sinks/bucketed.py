"""Tables in buckets by a hash, so that to look up a key is to read its bucket and not the table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted, require
from ..errors import ArgumentError, ConfigError
from ..jvm import DeltaState
from . import table

BUCKET = "_bucket"
_BUCKETS = "tidegate.buckets"


def bucket(by: Sequence[Column], key: Sequence[Column], buckets: int) -> Column:
    """Give a row's bucket: by its `by` columns, or by its key where one of these is null.

    So rows that no lookup can find do not crowd in one bucket.
    """
    hashed = F.when(absent(by), F.xxhash64(*key)).otherwise(F.xxhash64(*by))
    return F.pmod(hashed, F.lit(buckets)).cast("int")


def absent(columns: Sequence[Column]) -> Column:
    """Tell whether one of the columns is null."""
    return reduce(or_, [column.isNull() for column in columns])


def read(spark: SparkSession, path: str, buckets: Sequence[int]) -> DataFrame:
    """Give the rows of these buckets; no other file is opened."""
    return spark.read.format("delta").load(path).where(quoted(BUCKET).isin(list(buckets)))


def existing(frame: DataFrame, path: str, buckets: int) -> DeltaState | None:
    """Give the table's state, or None where there is none yet; refuse other columns, and another number of buckets."""
    state = table.existing(frame, path, [BUCKET], evolve=False)
    known = None if state is None else state.schema()[BUCKET].metadata.get(_BUCKETS)
    if known not in (None, buckets):
        raise ConfigError(
            f"buckets is {buckets}, and {path} was made with {known}.",
            "the number that a table was made with.",
            f"buckets={known}, or new tables and a new checkpoint.",
        )
    return state


def writer(frame: DataFrame, buckets: int) -> DataFrameWriter:
    """Give a writer of one file for each bucket that the frame has rows of."""
    rows = table.plain(frame).repartition(BUCKET).withMetadata(BUCKET, {_BUCKETS: buckets})
    return rows.write.format("delta").partitionBy(BUCKET)


def rewrite(frame: DataFrame, path: str, buckets: int) -> None:
    """Put a table's rows, which `frame` holds, into one file for each bucket; to its readers nothing changes."""
    writer(frame, buckets).mode("overwrite").option("dataChange", "false").save(path)


def lookup(view: DataFrame, **values: Any) -> DataFrame:
    """Give the rows of a view that have these values in the columns it is looked up by: one bucket is read.

    `view` is the table as Spark reads it, `values` name all of the view's `by` columns, in their order; none is null.

    Raises ArgumentError, ColumnError.

    >>> marks = {"tidegate.buckets": 8}
    >>> view = clicks.withColumn("_bucket", F.pmod(F.xxhash64("user"), F.lit(8))).withMetadata("_bucket", marks)
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
    rows = view.where(quoted(BUCKET) == bucket(list(wanted.values()), [F.lit(None)], buckets))
    for name, value in wanted.items():
        rows = rows.where(quoted(name) == value)
    return rows.drop(BUCKET)
