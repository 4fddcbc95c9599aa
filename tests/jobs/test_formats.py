"""Topics in each format, read by built-in jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import delta_tables as tables
from tests.support.avro_corpus import encode_records, record_schema, with_header
from tests.support.protobuf_corpus import DESCRIPTORS, All
from tests.support.registry_server import registry_server
from tests.support.spark_session import from_options
from tidegate import run
from tidegate.errors import ConfigError, RegistryError
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs

START = 1_767_312_000_000
"""2026-01-02 00:00 UTC, in milliseconds."""
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
OLDER = record_schema("Sensor", sensor="string", at=MILLIS)
NEWER = record_schema("Sensor", unit=["null", "string"], at=MILLIS, value="float", sensor="string")
INPUT = {
    "input.schema": "sensor string not null, value double, at timestamp",
    "input.time": "at",
    "input.watermark_delay": "10 seconds",
    "window.size": "1 minute",
    "window.by": "sensor",
    "aggregates.readings": "count",
    "aggregates.total": "sum(value)",
    "limits.dead_ratio": 1,
}


def send_values(broker: Broker, topic: str, values: list[bytes | None]) -> None:
    broker.create_topic(topic, retention_ms=-1)
    deliver(broker.bootstrap_servers, [Record(topic, value, START + 600_000) for value in values])


@pytest.mark.broker
def test_avro_of_two_schemas_is_counted_and_unreadable_records_are_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    old = encode_records(OLDER, {"sensor": "a", "at": START})[0]
    new, late = encode_records(
        NEWER,
        {"unit": "C", "at": START + 1_000, "value": 1.5, "sensor": "a"},
        {"unit": None, "at": START + 90_000, "value": 2.0, "sensor": "a"},
    )
    send_values(
        broker,
        topic,
        [
            with_header(11, old),
            with_header(12, new),
            with_header(99, new),
            with_header(12, new[:-1]),
            new,
            with_header(12, late),
        ],
    )
    with registry_server() as served:
        served.register(11, f"{topic}-value", OLDER)
        served.register(12, f"{topic}-value", NEWER)
        options = {
            **INPUT,
            "kafka.bootstrap_servers": broker.bootstrap_servers,
            "registry.url": served.url,
            "registry.attempts": 1,
            "input.topics": topic,
            "input.format": "avro",
            "input.schema_header": "true",
            "output.root": tmp_path,
        }
        job = windows(from_options(Windows, options))
        served.planned_responses = [503] * 20
        with pytest.raises(RegistryError, match="is unavailable\n  cause: status 503"):
            run(job, spark)
        assert not (tmp_path / "dead_letters").exists()
        served.planned_responses = []
        done = run(job, spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (6, 1, 3)
    (found,) = tables.rows(tmp_path / "windows")
    assert (found["readings"], found["total"]) == (2, 1.5)
    dead = tables.rows(tmp_path / "dead_letters")
    assert Counter((row["reason"], row["value"]) for row in dead) == Counter(
        {
            ("unknown schema id: 99", with_header(99, new)): 1,
            ("truncated record", with_header(12, new[:-1])): 1,
            ("wrong magic byte", new): 1,
        }
    )


@pytest.mark.broker
def test_protobuf_is_counted_and_unreadable_records_are_dead_letters(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    descriptors = tmp_path / "all.desc"
    descriptors.write_bytes(DESCRIPTORS)
    values = []
    for second, kind in ((0, 1), (1, 0), (2, 5), (90, 1)):
        message = All(one_double=1.5, kind=kind)
        message.at.FromMilliseconds(START + 1_000 * second)
        values.append(message.SerializeToString())
    send_values(broker, topic, [*values[:3], values[0][:-1], b"", values[3]])
    options = {
        **INPUT,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.format": "protobuf",
        "input.descriptor": descriptors,
        "input.message": "shop.All",
        "input.schema": "kind string, one_double double, at timestamp",
        "window.by": "kind",
        "aggregates.total": "sum(one_double)",
        "output.root": tmp_path / "out",
    }
    done = run(windows(from_options(Windows, options)), spark)
    assert (done.rows_in, done.rows_out, done.dead_letters) == (6, 3, 2)
    found = tables.rows(tmp_path / "out" / "windows")
    assert {row["kind"]: row["total"] for row in found} == {"VIEW": 1.5, "NONE": 1.5, "BUY": 1.5}
    dead = tables.rows(tmp_path / "out" / "dead_letters")
    assert {(row["reason"], row["value"]) for row in dead} == {
        ("truncated record", values[0][:-1]),
        ("no event time", b""),
    }


def test_a_format_with_missing_keys_is_rejected() -> None:
    base = {**INPUT, "input.topics": "t", "output.root": "/tmp/tidegate"}
    for more, message in (
        ({"input.format": "avro"}, "schema_header = false and writer = None"),
        ({"input.writer": "a.avsc"}, "invalid input.writer: 'a.avsc' with format = 'json'"),
        ({"input.format": "csv"}, "input.format"),
        ({"input.format": "protobuf", "input.message": "shop.All"}, "descriptor = None"),
        ({"input.message": "shop.All"}, "invalid input.message: 'shop.All' with format = 'json'"),
    ):
        with pytest.raises(ConfigError, match=message):
            from_options(Windows, {**base, **more})
    config = from_options(Windows, {**base, "input.format": "avro", "input.schema_header": "true"})
    with pytest.raises(ConfigError, match=r"missing section: \[registry\]"):
        windows(config)
