"""JSON behind the header of a schema registry's client."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.formats import headed, json_format

from ..sources.raw import raw
from .test_avro import under

VALUES: list[tuple[bytes | None, str | None]] = [
    (under(7, b'{"page":"/a"}'), None),
    (under(2**31 - 1, b' {"page":"/a"} '), None),
    (b'{"page":"/a"}', "wrong magic byte"),
    (b"\x01\0\0\0\x01{}", "wrong magic byte"),
    (b"\0\0\0\0", "no schema header"),
    (b"", "no schema header"),
    (under(7, b""), "empty value"),
    (under(7, b'{"page":"/a"'), "malformed JSON"),
    (under(7, under(7, b"{}")), "not a JSON object"),
    (None, "null value"),
]


def test_the_header_is_looked_at_and_what_follows_is_json(spark: SparkSession) -> None:
    form = headed(json_format("page STRING"))
    given = raw(spark, [value for value, _ in VALUES])
    decoded = form.decode(given)
    assert decoded.columns == [*given.columns, "record", "bad"]
    rows = decoded.orderBy("offset").select("value", "record.page", "bad").collect()
    assert [None if row.value is None else bytes(row.value) for row in rows] == [
        value for value, _ in VALUES
    ]
    assert [row.page for row in rows if not row.bad] == ["/a", "/a"]
    dead = form.diagnose(decoded.where("bad")).orderBy("offset")
    found = [(bytes(row.value) if row.value else row.value, row.reason) for row in dead.collect()]
    assert found == [(value, why) for value, why in VALUES if why is not None]


def test_a_tombstone_can_be_a_row_and_a_wrong_header_cannot(spark: SparkSession) -> None:
    form = headed(json_format("page STRING", tombstones="row"))
    decoded = form.decode(raw(spark, [None, b"{}", under(1, b"{}")]))
    assert [row.bad for row in decoded.orderBy("offset").collect()] == [False, True, False]
