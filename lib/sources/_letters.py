"""Dead letters: records that could not be read, as a table keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..made_once import made_once


def letters(
    found: DataFrame, *, place: Sequence[str], unread: str, untimed: str, cap: int
) -> DataFrame:
    """Return records that were found bad, with where they stood, their bytes, and why.

    found: Kafka's columns, and `reason` for those that the format could not read.
    unread: the column that says whether the format could not read it. untimed: that of what is
        wrong with its time, else.
    cap: so many bytes of a value, a key and a header are kept.
    """
    return found.select(*place, *_columns(unread, untimed, cap))


@made_once
def _columns(unread: str, untimed: str, cap: int) -> tuple[Column, ...]:
    return (
        F.substring("key", 1, cap).alias("key"),
        F.substring("value", 1, cap).alias("value"),
        F.octet_length("value").cast("bigint").alias("value_bytes"),
        F.transform("headers", lambda header: _capped(header, cap)).alias("headers"),
        F.when(quoted(unread), "decode").otherwise("event_time").alias("stage"),
        F.when(quoted(unread), F.col("reason")).otherwise(quoted(untimed)).alias("reason"),
    )


def _capped(header: Column, cap: int) -> Column:
    """Return a header as far as it is kept."""
    return F.struct(
        F.substring(header["key"], 1, cap).alias("key"),
        F.substring(header["value"], 1, cap).alias("value"),
    )
