"""How many tasks read a topic."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.formats import json_format
from tidegate.local_cores import local_cores
from tidegate.offsets import Offsets
from tidegate.sources import KafkaSource, Reading
from tidegate.sources.aside import Behind
from tidegate.sources.by_log import ByLog
from tidegate.testing.broker import Broker

from .raw import RECEIVED, produce

pytestmark = pytest.mark.broker
EVENT = f'{{"at":"{RECEIVED.isoformat()}"}}'.encode()


def tasks(rows: DataFrame) -> int:
    return rows.rdd.getNumPartitions()


def test_so_many_tasks_read_a_range_as_its_records_and_partitions_are_worth(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    most = 4 * local_cores(spark.sparkContext.master or "")
    many = most + 3
    broker.create_topic(topic, partitions=many, retention_ms=-1)
    for partition in range(many):
        produce(broker.servers, topic, [EVENT], partition=partition)
    nothing: Offsets = {}
    source = KafkaSource(broker.servers, topic)

    def ranges(partitions: int, records: int) -> tuple[SparkSession, Offsets, Offsets]:
        return spark, nothing, {topic: dict.fromkeys(range(partitions), records)}

    assert tasks(source.between(*ranges(many, 1))) == ceil(many / 8)
    assert tasks(source.between(*ranges(3, 6_000))) == 2
    assert tasks(source.between(*ranges(3, 60_000))) == 3
    assert tasks(source.between(*ranges(many, 60_000))) == most

    reading = Reading(source, json_format("at TIMESTAMP"), time="at", lateness="0 seconds")
    given = ranges(many, 1)
    assert tasks(reading.rows(*given)) == ceil(many / 8)
    assert reading.rows(*given).count() == many
    late = Behind.by_log(ByLog(F.col("event_time"), timedelta(0)), {})
    assert tasks(reading.aside(*given, late).rows) == many
    divided = KafkaSource(broker.servers, topic, options={"minPartitions": str(many)})
    assert tasks(divided.between(*given)) == many
