"""Debezium's changes in Avro."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.formats import avro_format, debezium

from ..sources.raw import raw
from .test_avro import record, under, written


@pytest.mark.slow
def test_changes_in_avro_are_read_behind_a_registry_s_header(spark: SparkSession) -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    envelope = record(
        "Envelope",
        before={"of": ["null", row], "default": None},
        after={"of": ["null", "Value"], "default": None},
        source=source,
        op="string",
        ts_ms=["null", "long"],
    )
    own = record("Key", id="int")
    before, after = {"id": 7, "name": "a"}, {"id": 7, "name": "b"}
    changes: list[dict[str, object]] = [
        {"op": "u", "before": before, "after": after, "source": {"ts_ms": 1_000}, "ts_ms": 2},
        {"op": "d", "before": None, "after": None, "source": {"ts_ms": 3_000}, "ts_ms": None},
    ]
    key = under(2, written(own, {"id": 7})[0])
    values = [under(1, value) for value in written(envelope, *changes)]
    given = raw(spark, [*values, None, values[0][:-1], under(9, b"")])
    form = debezium(
        "id INT NOT NULL, name STRING",
        key="id",
        using=partial(avro_format, registry={1: envelope, 2: own}),
    )
    decoded = form.decode(given.withColumn("key", F.lit(key)))
    rows = decoded.where("not bad").orderBy("offset").select("record.*").collect()
    assert [(row.op, row.key.id, row.after and row.after.name) for row in rows] == [
        ("update", 7, "b"),
        ("delete", 7, None),
        ("tombstone", 7, None),
    ]
    assert rows[0].before.name == "a"
    dead = form.diagnose(decoded.where("bad")).orderBy("offset").collect()
    assert [each.reason for each in dead] == ["truncated record", "unknown schema id: 9"]
