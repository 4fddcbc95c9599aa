"""Debezium changes in Avro."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.avro_corpus import encode_records, record_schema, with_header
from tests.support.raw_records import raw
from tests.support.registry_server import registry_server
from tidegate.formats import SchemaRegistry, avro_format, debezium_format


@pytest.mark.slow
def test_avro_changes_with_a_registry_header_are_decoded(spark: SparkSession) -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    envelope = record_schema(
        "Envelope",
        before={"of": ["null", row], "default": None},
        after={"of": ["null", "Value"], "default": None},
        source=source,
        op="string",
        ts_ms=["null", "long"],
    )
    key_schema = record_schema("Key", id="int")
    before, after = {"id": 7, "name": "a"}, {"id": 7, "name": "b"}
    changes: list[dict[str, object]] = [
        {"op": "u", "before": before, "after": after, "source": {"ts_ms": 1_000}, "ts_ms": 2},
        {"op": "d", "before": None, "after": None, "source": {"ts_ms": 3_000}, "ts_ms": None},
    ]
    key = with_header(2, encode_records(key_schema, {"id": 7})[0])
    values = [with_header(1, value) for value in encode_records(envelope, *changes)]
    records = raw(spark, [*values, None, values[0][:-1], with_header(9, b"")])
    value_format = debezium_format(
        "id INT NOT NULL, name STRING",
        key="id",
        value_format=partial(avro_format, registry={1: envelope, 2: key_schema}),
    )
    decoded = value_format.decode(records.withColumn("key", F.lit(key)))
    rows = decoded.where("not bad").orderBy("offset").select("record.*").collect()
    assert [(row.op, row.key.id, row.after and row.after.name) for row in rows] == [
        ("update", 7, "b"),
        ("delete", 7, None),
        ("tombstone", 7, None),
    ]
    assert rows[0].before.name == "a"
    dead = value_format.explain_failures(decoded.where("bad")).orderBy("offset").collect()
    assert [letter.reason for letter in dead] == ["truncated record", "unknown schema id: 9"]


@pytest.mark.slow
def test_logical_types_of_a_registered_schema_are_decoded(spark: SparkSession) -> None:
    decimal = {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 64,
        "scale": 2,
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "2"},
    }
    at = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "credit", "type": ["null", decimal]},
            {"name": "at", "type": ["null", at]},
            {"name": "parent", "type": ["null", "Value"], "default": None},
        ],
    }
    envelope = record_schema(
        "Envelope",
        before={"of": ["null", row], "default": None},
        after={"of": ["null", "Value"], "default": None},
        op="string",
        ts_ms=["null", "long"],
    )
    credit = Decimal("7.90")
    rows = [
        {"id": 1, "credit": credit, "at": 1_000_001, "parent": {"id": 2, "credit": None, "at": 0}},
        {"id": 2, "credit": credit, "at": 9_223_372_036_825_200_000},
    ]
    written = envelope.replace('"connect.name": "io.debezium.time.MicroTimestamp"', '"is": "long"')
    changes = [{"op": "c", "after": row, "ts_ms": 1} for row in rows]
    values = [with_header(7, value) for value in encode_records(written, *changes)]
    with registry_server() as served:
        served.register(7, "customers-value", envelope)
        value_format = debezium_format(
            "id INT NOT NULL, credit DECIMAL(10, 2), at TIMESTAMP",
            key="id",
            value_format=partial(avro_format, registry=SchemaRegistry(served.url)),
        )
        decoded = value_format.decode(
            raw(spark, values).withColumn("key", F.lit(None).cast("binary"))
        )
        (good,) = decoded.where("not bad").select("record.after.*").collect()
        (dead,) = value_format.explain_failures(decoded.where("bad")).collect()
    assert (good.id, good.credit, good.at.microsecond) == (1, credit, 1)
    assert dead.reason == "not finite: after.at = infinity"
