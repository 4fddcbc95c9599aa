"""JSON values with the header of a schema registry."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.support.avro_corpus import with_header
from tests.support.raw_records import raw
from tidegate.formats import json_format, with_schema_header

VALUES: list[tuple[bytes | None, str | None]] = [
    (with_header(7, b'{"page":"/a"}'), None),
    (with_header(2**31 - 1, b' {"page":"/a"} '), None),
    (b'{"page":"/a"}', "wrong magic byte"),
    (b"\x01\0\0\0\x01{}", "wrong magic byte"),
    (b"\0\0\0\0", "no schema header"),
    (b"", "no schema header"),
    (with_header(7, b""), "empty value"),
    (with_header(7, b'{"page":"/a"'), "malformed JSON"),
    (with_header(7, with_header(7, b"{}")), "not a JSON object"),
    (None, "null value"),
]


def test_the_header_is_checked_and_the_rest_is_decoded_as_json(spark: SparkSession) -> None:
    value_format = with_schema_header(json_format("page STRING"))
    records = raw(spark, [value for value, _ in VALUES])
    decoded = value_format.decode(records)
    assert decoded.columns == [*records.columns, "record", "bad"]
    rows = decoded.orderBy("offset").select("value", "record.page", "bad").collect()
    assert [None if row.value is None else bytes(row.value) for row in rows] == [
        value for value, _ in VALUES
    ]
    assert [row.page for row in rows if not row.bad] == ["/a", "/a"]
    dead = value_format.explain_failures(decoded.where("bad")).orderBy("offset")
    reasons = [(bytes(row.value) if row.value else row.value, row.reason) for row in dead.collect()]
    assert reasons == [(value, reason) for value, reason in VALUES if reason is not None]


def test_a_tombstone_can_be_a_row_but_an_invalid_header_cannot(spark: SparkSession) -> None:
    value_format = with_schema_header(json_format("page STRING", tombstones="row"))
    decoded = value_format.decode(raw(spark, [None, b"{}", with_header(1, b"{}")]))
    assert [row.bad for row in decoded.orderBy("offset").collect()] == [False, True, False]
