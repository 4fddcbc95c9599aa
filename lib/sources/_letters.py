"""Dead letters: records that could not be read, as a table keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def letters(
    found: DataFrame, *, place: Sequence[str], unread: Column, untimed: Column, cap: int
) -> DataFrame:
    """Return records that were found bad, with where they stood, their bytes, and why.

    found: Kafka's columns, and `reason` for those that the format could not read.
    unread: whether the format could not read it. untimed: else, what is wrong with its time.
    cap: so many bytes of a value, a key and a header are kept.
    """
    return found.select(
        *place,
        F.substring("key", 1, cap).alias("key"),
        F.substring("value", 1, cap).alias("value"),
        F.octet_length("value").cast("bigint").alias("value_bytes"),
        F.transform("headers", lambda header: _capped(header, cap)).alias("headers"),
        F.when(unread, "decode").otherwise("event_time").alias("stage"),
        F.when(unread, F.col("reason")).otherwise(untimed).alias("reason"),
    )


def _capped(header: Column, cap: int) -> Column:
    """Return a header as far as it is kept."""
    return F.struct(
        F.substring(header["key"], 1, cap).alias("key"),
        F.substring(header["value"], 1, cap).alias("value"),
    )
