"""The number of tasks that read a topic."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.raw_records import RECEIVED, produce
from tidegate.formats import json_format
from tidegate.offsets import Offsets
from tidegate.sources import Input, KafkaSource
from tidegate.sources.log_watermark import LogLateness
from tidegate.sources.side_output_rows import LatenessTest
from tidegate.spark.presets import local_cores
from tidegate.testing.broker import Broker

pytestmark = pytest.mark.broker
EVENT = f'{{"at":"{RECEIVED.isoformat()}"}}'.encode()


def task_count(rows: DataFrame) -> int:
    return rows.rdd.getNumPartitions()


def test_the_number_of_tasks_depends_on_records_partitions_and_cores(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    max_tasks = 4 * local_cores(spark.sparkContext.master or "")
    partition_count = max_tasks + 3
    broker.create_topic(topic, partitions=partition_count, retention_ms=-1)
    for partition in range(partition_count):
        produce(broker.bootstrap_servers, topic, [EVENT], partition=partition)
    source = KafkaSource(broker.bootstrap_servers, topic)

    def ranges(partitions: int, records: int) -> tuple[SparkSession, Offsets, Offsets]:
        return spark, {}, {topic: dict.fromkeys(range(partitions), records)}

    assert task_count(source.read_range(*ranges(partition_count, 1))) == ceil(partition_count / 8)
    assert task_count(source.read_range(*ranges(3, 6_000))) == 2
    assert task_count(source.read_range(*ranges(3, 60_000))) == 3
    assert task_count(source.read_range(*ranges(partition_count, 60_000))) == max_tasks

    clicks = Input(source, json_format("at TIMESTAMP"), time="at", watermark_delay="0 seconds")
    one_record_each = ranges(partition_count, 1)
    assert task_count(clicks.good_rows(*one_record_each)) == ceil(partition_count / 8)
    assert clicks.good_rows(*one_record_each).count() == partition_count
    late = LatenessTest.for_log_lateness(LogLateness(F.col("event_time"), timedelta(0)), {})
    assert task_count(clicks.side_outputs(*one_record_each, late).rows) == partition_count
    split_source = KafkaSource(
        broker.bootstrap_servers, topic, options={"minPartitions": str(partition_count)}
    )
    assert task_count(split_source.read_range(*one_record_each)) == partition_count
