"""Rows as Kafka records: key, value, and an id that is the same when a batch is sent again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from ..columns import JSON_IN_UTC, quoted

ID = "tidegate-id"
"""The header that tells a record and its copies: job/query/step/batch/row."""

NULL_KEY = "a record's key is null"
_DIGITS = 32


def as_json(columns: Sequence[str]) -> Column:
    """Return a JSON object of columns, with times in UTC to the microsecond and null fields too.

    Bytes are written as Base64, and a double that is no number as text ("NaN").
    """
    return F.to_json(F.struct(*map(quoted, columns)), JSON_IN_UTC)


def as_key(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return the bytes of a record's key; a key of one column may not be null."""
    if len(columns) > 1:
        return as_json(columns).cast("binary")
    (name,) = columns
    one = quoted(name)
    if not isinstance(frame.schema[name].dataType, BinaryType):
        one = one.cast("string").cast("binary")
    return F.coalesce(one, F.raise_error(F.lit(f"{NULL_KEY}: column {name}")).cast("binary"))


def as_headers(columns: Sequence[str]) -> Column:
    """Return columns as headers of a record, each by its name, as text."""
    made = [
        F.struct(
            F.lit(name).alias("key"), quoted(name).cast("string").cast("binary").alias("value")
        )
        for name in columns
    ]
    return F.array(*made).cast("array<struct<key:string,value:binary>>")


def numbered(records: DataFrame, sender: str) -> DataFrame:
    """Return key, value and headers of records, those of one key in the order of `at`.

    The id is made of the record, or of `told_by` and the key. What Spark's order of rows could
    change has no part in it: of records with one hash, which of them has which number matters only
    where `told_by` makes different records equal, and then the records' own order decides.
    """
    hashed = records.withColumn("row", _hash_of_record())
    # One shuffle, by key, serves the numbers and the order of sending.
    alike = Window.partitionBy("key", "row").orderBy("at", "value", "also")
    placed = hashed.repartition("key").withColumn("nth", F.row_number().over(alike))
    nth = quoted("nth").cast("string")
    name = F.concat(F.lit(f"{sender}/"), quoted("row"), F.lit("-"), nth)
    header = F.struct(F.lit(ID).alias("key"), name.cast("binary").alias("value"))
    ordered = placed.sortWithinPartitions("key", "at", "row", "nth")
    return ordered.select("key", "value", F.concat(F.array(header), "also").alias("headers"))


def _hash_of_record() -> Column:
    """Return a hash of a record's key and content, which a tombstone does not have."""
    content = F.coalesce(quoted("told_by").cast("binary"), quoted("value"))
    hash_of_content = F.coalesce(F.sha2(content, 256), F.lit("tombstone"))
    record = F.concat(F.sha2("key", 256), hash_of_content)
    return F.substring(F.sha2(record, 256), 1, _DIGITS)
