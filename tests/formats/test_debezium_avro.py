"""Debezium changes in Avro."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.avro_corpus import encode_records, record_schema, with_header
from tests.support.raw_records import raw
from tidegate.formats import avro_format, debezium_format


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
