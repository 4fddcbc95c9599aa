"""Topics, addresses and stores that rows have gone to, which a deletion here cannot reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from ...jvm import delta_state
from ...sinks.mirror import APPLIED
from ...sinks.publish import SENT
from ...sinks.webhook import TOLD
from .report import Outside

TOPIC = (
    "Its owner lets retention pass, deletes the records (kafka-delete-records), or, where the "
    "topic is compacted, sends a tombstone for each of the person's keys; who has read the topic "
    "has the rows as well."
)
_ADDRESS = (
    "Whoever answers at the job's address is asked to delete what was posted; each post bears the "
    "id that the Idempotency-Key had."
)
_STORE = (
    "Its owner deletes the person's rows there, with their keys, which a deleted row leaves. They "
    "come back with the next change of such a key alone."
)


def _shape(columns: str) -> str:
    """Return columns in Spark's SQL as a schema says them."""
    return f"struct<{columns.lower().replace(', ', ',').replace(' ', ':')}>"


_TOPICS, _STORES, _ADDRESSES = map(_shape, (SENT, APPLIED, TOLD))
"""The columns of the tables in which the sinks note what they sent."""


def outside(spark: SparkSession, paths: Iterable[str]) -> Iterator[Outside]:
    """Return the places that tables which note what was sent tell of."""
    for path in paths:
        shape = delta_state(spark, path).schema().simpleString()
        rows = spark.read.format("delta").load(path)
        if shape == _TOPICS:
            for row in rows.select("topic").distinct().sort("topic").collect():
                yield Outside(kind="topic", name=row.topic, noted=path, way=TOPIC)
        elif shape == _STORES:
            for row in rows.select("store").distinct().sort("store").collect():
                yield Outside(kind="store", name=row.store, noted=path, way=_STORE)
        elif shape == _ADDRESSES:
            yield Outside(kind="webhook", name="the address of the job", noted=path, way=_ADDRESS)
