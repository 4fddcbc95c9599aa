"""Topics in each format, from the broker to a table, by configuration alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import ConfigError, RegistryError
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.runtime import run
from tidegate.testing import Broker, Record, deliver

from .. import tables
from ..configured import from_options
from ..formats.proto_corpus import DESCRIPTORS, All
from ..formats.registry_server import registry_server
from ..formats.test_avro import record, under, written

pytestmark = pytest.mark.jobs

START = 1_767_312_000_000
"""2026-01-02 00:00 UTC, in milliseconds."""
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
OLDER = record("Sensor", sensor="string", at=MILLIS)
NEWER = record("Sensor", unit=["null", "string"], at=MILLIS, value="float", sensor="string")
INPUT = {
    "input.schema": "sensor string not null, value double, at timestamp",
    "input.time": "at",
    "input.lateness": "10 seconds",
    "window.size": "1 minute",
    "window.by": "sensor",
    "aggregates.readings": "count",
    "aggregates.total": "total(value)",
    "limits.dead_ratio": 1,
}


def sent(broker: Broker, topic: str, values: list[bytes | None]) -> None:
    broker.create_topic(topic, retention_ms=-1)
    deliver(broker.servers, [Record(topic, value, START + 600_000) for value in values])


@pytest.mark.broker
def test_avro_of_two_schemas_is_counted_and_what_cannot_be_read_is_kept(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    old = written(OLDER, {"sensor": "a", "at": START})[0]
    new, late = written(
        NEWER,
        {"unit": "C", "at": START + 1_000, "value": 1.5, "sensor": "a"},
        {"unit": None, "at": START + 90_000, "value": 2.0, "sensor": "a"},
    )
    sent(
        broker,
        topic,
        [under(11, old), under(12, new), under(99, new), under(12, new[:-1]), new, under(12, late)],
    )
    with registry_server() as served:
        served.register(11, f"{topic}-value", OLDER)
        served.register(12, f"{topic}-value", NEWER)
        options = {
            **INPUT,
            "kafka.servers": broker.servers,
            "registry.url": served.url,
            "registry.attempts": 1,
            "input.topics": topic,
            "input.format": "avro",
            "input.header": "true",
            "output.root": tmp_path,
        }
        job = windows(from_options(Windows, options))
        served.answers = [503] * 20
        with pytest.raises(RegistryError, match="does not answer: status 503"):
            run(job, spark)
        assert not (tmp_path / "dead_letters").exists()
        served.answers = []
        done = run(job, spark)
    assert (done.rows_in, done.rows_out, done.dead) == (6, 1, 3)
    (found,) = tables.rows(tmp_path / "windows")
    assert (found["readings"], found["total"]) == (2, 1.5)
    dead = tables.rows(tmp_path / "dead_letters")
    assert Counter((row["reason"], row["value"]) for row in dead) == Counter(
        {
            ("unknown schema id: 99", under(99, new)): 1,
            ("truncated record", under(12, new[:-1])): 1,
            ("wrong magic byte", new): 1,
        }
    )


@pytest.mark.broker
def test_protobuf_is_counted_and_what_cannot_be_read_is_kept(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    descriptors = tmp_path / "all.desc"
    descriptors.write_bytes(DESCRIPTORS)
    values = []
    for second, kind in ((0, 1), (1, 0), (2, 5), (90, 1)):
        message = All(one_double=1.5, kind=kind)
        message.at.FromMilliseconds(START + 1_000 * second)
        values.append(message.SerializeToString())
    sent(broker, topic, [*values[:3], values[0][:-1], b"", values[3]])
    options = {
        **INPUT,
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.format": "protobuf",
        "input.descriptor": descriptors,
        "input.message": "shop.All",
        "input.schema": "kind string, one_double double, at timestamp",
        "window.by": "kind",
        "aggregates.total": "total(one_double)",
        "output.root": tmp_path / "out",
    }
    done = run(windows(from_options(Windows, options)), spark)
    assert (done.rows_in, done.rows_out, done.dead) == (6, 3, 2)
    found = tables.rows(tmp_path / "out" / "windows")
    assert {row["kind"]: row["total"] for row in found} == {"VIEW": 1.5, "NONE": 1.5, "BUY": 1.5}
    dead = tables.rows(tmp_path / "out" / "dead_letters")
    assert {(row["reason"], row["value"]) for row in dead} == {
        ("truncated record", values[0][:-1]),
        ("no event time", b""),
    }


def test_a_format_without_what_it_needs_is_refused() -> None:
    base = {**INPUT, "input.topics": "t", "output.root": "/tmp/tidegate"}
    for more, says in (
        ({"input.format": "avro"}, "header is false, and writer is None"),
        ({"input.writer": "a.avsc"}, "writer is 'a.avsc', and format is 'json'"),
        ({"input.format": "csv"}, "input.format"),
        ({"input.format": "protobuf", "input.message": "shop.All"}, "descriptor is None"),
        ({"input.message": "shop.All"}, "message is 'shop.All', and format is 'json'"),
    ):
        with pytest.raises(ConfigError, match=says):
            from_options(Windows, {**base, **more})
    config = from_options(Windows, {**base, "input.format": "avro", "input.header": "true"})
    with pytest.raises(ConfigError, match=r"there is no \[registry\]"):
        windows(config)
