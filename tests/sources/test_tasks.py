"""How many tasks read a topic of many partitions."""

from __future__ import annotations

from datetime import timedelta

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


def test_tasks_are_four_a_core_but_where_each_partition_needs_one(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    few = 4 * local_cores(spark.sparkContext.master or "")
    many = few + 3
    broker.create_topic(topic, partitions=many, retention_ms=-1)
    for partition in range(many):
        produce(broker.servers, topic, [EVENT], partition=partition)
    nothing: Offsets = {}
    given = (spark, nothing, {topic: dict.fromkeys(range(many), 1)})
    source = KafkaSource(broker.servers, topic)
    reading = Reading(source, json_format("at TIMESTAMP"), time="at", lateness="0 seconds")
    assert tasks(reading.rows(*given)) == few
    assert reading.rows(*given).count() == many
    late = Behind.by_log(ByLog(F.col("event_time"), timedelta(0)), {})
    assert tasks(reading.aside(*given, late).rows) == many
    divided = KafkaSource(broker.servers, topic, options={"minPartitions": str(many)})
    assert tasks(divided.between(*given)) == many
