"""Headers of records: what formats are given of them, and what rows and dead letters keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.formats import json_format
from tidegate.formats.format import Format
from tidegate.sources import KafkaSource, Reading
from tidegate.testing.broker import Broker

from .raw import RECEIVED, produce

FORMAT_TEXT = "page STRING, ms BIGINT, at TIMESTAMP"


def click(page: str) -> bytes:
    return f'{{"page":"{page}","ms":5,"at":"{RECEIVED.isoformat()}"}}'.encode()


@dataclass(frozen=True)
class Around:
    """A format that does what another does."""

    form: Format

    @property
    def schema(self) -> StructType:
        return self.form.schema

    @property
    def needs(self) -> Sequence[str]:
        return self.form.needs

    def decode(self, raw: DataFrame) -> DataFrame:
        return self.form.decode(raw)

    def diagnose(self, dead: DataFrame) -> DataFrame:
        return self.form.diagnose(dead)


class Numbered(Around):
    """Records that say in their header `ms` what a page took."""

    @property
    def needs(self) -> Sequence[str]:
        return ("headers",)

    def decode(self, raw: DataFrame) -> DataFrame:
        told = F.filter("headers", lambda header: header["key"] == "ms")[0]["value"]
        ms = told.cast("string").cast("bigint")
        read = super().decode(raw)
        return read.withColumn("record", F.col("record").withField("ms", ms))


@pytest.mark.broker
def test_a_format_that_needs_headers_is_given_them_though_they_are_not_kept(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.servers, topic, [click("/a")], headers=[("ms", b"7")])
    source = KafkaSource(servers=broker.servers, topics=[topic])
    wanted = Reading(source, Numbered(json_format(FORMAT_TEXT)), time="at", lateness="10 seconds")
    (row,) = wanted.rows(spark, {topic: {0: 0}}, {topic: {0: 1}}).collect()
    assert (row.page, row.ms) == ("/a", 7)
    assert "headers" not in row.asDict()
    assert wanted.stream(spark).columns == ["page", "ms", "at", "event_time"]


@pytest.mark.broker
def test_rows_and_dead_letters_have_their_headers_as_kafka_tells_them(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.servers, topic, [click("/a"), b"bad"], headers=[("ms", b"7")])
    produce(broker.servers, topic, [click("/b"), b"worse"])
    source = KafkaSource(servers=broker.servers, topics=[topic])
    form = json_format(FORMAT_TEXT)
    reading = Reading(source, form, time="at", lateness="10 seconds", keep=["headers"])
    given = (spark, {topic: {0: 0}}, {topic: {0: 4}})
    rows, dead = reading.rows(*given), reading.dead(*given)
    (with_them, without) = rows.sort("offset").collect()
    assert (with_them.page, with_them.headers) == ("/a", [("ms", b"7")])
    assert (without.page, without.headers) == ("/b", None)
    told = {bytes(row.value): row.headers for row in dead.collect()}
    assert told == {b"bad": [("ms", b"7")], b"worse": None}
