"""Headers of records in formats, rows and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tests.support.raw_records import RECEIVED, produce
from tidegate.formats import json_format
from tidegate.formats.format import Format
from tidegate.sources import Input, KafkaSource
from tidegate.testing.broker import Broker

FORMAT_TEXT = "page STRING, ms BIGINT, at TIMESTAMP"


def click(page: str) -> bytes:
    return f'{{"page":"{page}","ms":5,"at":"{RECEIVED.isoformat()}"}}'.encode()


@dataclass(frozen=True)
class WrappedFormat:
    """A format that delegates to another one."""

    inner: Format

    @property
    def schema(self) -> StructType:
        return self.inner.schema

    @property
    def required_columns(self) -> Sequence[str]:
        return self.inner.required_columns

    def decode(self, raw: DataFrame) -> DataFrame:
        return self.inner.decode(raw)

    def explain_failures(self, dead: DataFrame) -> DataFrame:
        return self.inner.explain_failures(dead)


class HeaderFormat(WrappedFormat):
    """A format that reads the field `ms` from a header."""

    @property
    def required_columns(self) -> Sequence[str]:
        return ("headers",)

    def decode(self, raw: DataFrame) -> DataFrame:
        value = F.filter("headers", lambda header: header["key"] == "ms")[0]["value"]
        ms = value.cast("string").cast("bigint")
        decoded = super().decode(raw)
        return decoded.withColumn("record", F.col("record").withField("ms", ms))


@pytest.mark.broker
def test_a_format_can_read_headers_that_the_rows_do_not_have(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [click("/a")], headers=[("ms", b"7")])
    source = KafkaSource(bootstrap_servers=broker.bootstrap_servers, topics=[topic])
    clicks = Input(
        source, HeaderFormat(json_format(FORMAT_TEXT)), time="at", watermark_delay="10 seconds"
    )
    (row,) = clicks.good_rows(spark, {topic: {0: 0}}, {topic: {0: 1}}).collect()
    assert (row.page, row.ms) == ("/a", 7)
    assert "headers" not in row.asDict()
    assert clicks.stream(spark).columns == ["page", "ms", "at", "event_time"]


@pytest.mark.broker
def test_rows_and_dead_letters_have_the_headers_of_their_records(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [click("/a"), b"bad"], headers=[("ms", b"7")])
    produce(broker.bootstrap_servers, topic, [click("/b"), b"worse"])
    source = KafkaSource(bootstrap_servers=broker.bootstrap_servers, topics=[topic])
    form = json_format(FORMAT_TEXT)
    clicks = Input(source, form, time="at", watermark_delay="10 seconds", kafka_columns=["headers"])
    offset_range = (spark, {topic: {0: 0}}, {topic: {0: 4}})
    rows, dead = clicks.good_rows(*offset_range), clicks.dead_letters(*offset_range)
    (with_headers, without_headers) = rows.sort("offset").collect()
    assert (with_headers.page, with_headers.headers) == ("/a", [("ms", b"7")])
    assert (without_headers.page, without_headers.headers) == ("/b", None)
    headers_by_value = {bytes(row.value): row.headers for row in dead.collect()}
    assert headers_by_value == {b"bad": [("ms", b"7")], b"worse": None}
