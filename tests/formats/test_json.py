"""JSON values become typed rows or dead letters with a reason."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from tests.support.raw_records import raw
from tidegate.errors import ArgumentError, ColumnError
from tidegate.formats.json import json_format

SCHEMA = "page STRING, ms BIGINT, at TIMESTAMP, where STRUCT<city: STRING NOT NULL>"

GOOD: list[tuple[bytes, tuple[object, ...]]] = [
    (b'{"page":"/a","ms":1}', ("/a", 1)),
    (b' \n{"page":"/a","ms":1}\r\n ', ("/a", 1)),
    (b"{}", (None, None)),
    (b'{"page":null}', (None, None)),
    (b'{"page":7,"ms":1}', ("7", 1)),
    (b'{"page":{"x":[1]},"ms":1}', ('{"x":[1]}', 1)),
    (b'{"page":"a}b{","ms":1}', ("a}b{", 1)),
    (b'{"page":"/a","page":"/b"}', ("/b", None)),
    (b'{"page":"/a","unknown":{"deep":[{}]}}', ("/a", None)),
    ('{"page":"é\\u00e9\\ufffd\ufffd"}'.encode(), ("éé\ufffd\ufffd", None)),
    (b'{"where":{"city":"x"}}', (None, None)),
    (b'{"where":null}', (None, None)),
    (b'{"PAGE":"/a"}', (None, None)),
    (b'{"at":"2024-05-01T12:00:00Z"}', (None, None)),
    (b'{"at":12}', (None, None)),
]

BAD: list[tuple[bytes | None, str]] = [
    (None, "null value"),
    (b"", "empty value"),
    (b" \n", "empty value"),
    (b'{"page":"\xff\xfe"}', "invalid UTF-8"),
    (b"\xff", "invalid UTF-8"),
    (b"null", "not a JSON object"),
    (b"5", "not a JSON object"),
    (b'"text"', "not a JSON object"),
    (b'[{"page":"/a"}]', "not a JSON object"),
    (b'\xef\xbb\xbf{"page":"/a"}', "not a JSON object"),
    (b'{"page":"/a"', "malformed JSON"),
    (b'{"page":"/a","ms":', "malformed JSON"),
    (b"{page:1}", "malformed JSON"),
    (b"{'page':1}", "malformed JSON"),
    (b'{"ms":NaN}', "malformed JSON"),
    (b'{"page":"/a"/* no */}', "malformed JSON"),
    (b'{"page":"a\x01b"}', "malformed JSON"),
    (b'{"page":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "malformed JSON"),
    (b'{"unknown":' + b"[" * 100_000 + b"}", "malformed JSON"),
    (b'{"a":' * 999 + b"1" + b"}" * 999, "malformed JSON"),
    (b'{"page":"/a"} xyz', "text after the JSON object"),
    (b'{"page":"/a"}{"page":"/b"}', "text after the JSON object"),
    (b'{"page":"/a"},{"page":"/b"}', "text after the JSON object"),
    (b'{"page":"/a"}\n{"page":"/b"}', "text after the JSON object"),
    (b'{"page":"/a"}}', "text after the JSON object"),
    (b'{"page":"/a"}]', "text after the JSON object"),
    (b'{"page":"/a"},', "text after the JSON object"),
    (b'{"ms":"1"}', "wrong type: ms"),
    (b'{"ms":1.5}', "wrong type: ms"),
    (b'{"ms":99999999999999999999}', "wrong type: ms"),
    (b'{"at":"yesterday","ms":[]}', "wrong type: ms, at"),
    (b'{"where":[1]}', "wrong type: where"),
    (b'{"where":{}}', "missing field: where.city"),
    (b'{"where":{"city":null}}', "missing field: where.city"),
]


def test_each_value_is_a_record_or_has_the_documented_reason(spark: SparkSession) -> None:
    value_format = json_format(SCHEMA)
    values = [*[value for value, _ in GOOD], *[value for value, _ in BAD]]
    decoded = value_format.decode(raw(spark, values))
    rows = decoded.orderBy("offset").select("record.page", "record.ms", "bad").collect()
    assert [row[:2] for row in rows[: len(GOOD)]] == [expected for _, expected in GOOD]
    assert [row.bad for row in rows] == [False] * len(GOOD) + [True] * len(BAD)
    reasons = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in reasons] == [reason for _, reason in BAD]


NUMBERS = (
    "price DECIMAL(10, 2), whole DECIMAL(38, 0), d DOUBLE, f FLOAT, day DATE, at TIMESTAMP, "
    "here TIMESTAMP_NTZ, m MAP<STRING, DOUBLE>, many ARRAY<STRUCT<p: DECIMAL(5, 1) NOT NULL>>"
)

FITS: list[tuple[bytes, str]] = [
    (b'{"price":12.34}', "12.34"),
    (b'{"price":"12.34"}', "12.34"),
    (b'{"price":1.234e1}', "12.34"),
    (b'{"price":12.340000}', "12.34"),
    (b'{"price":-99999999.99}', "-99999999.99"),
    (b'{"price":null,"whole":12345678901234567890123456789012345678}', "None"),
    (b'{"d":1e308,"f":3e38,"day":"9999-12-31","at":"9999-12-31T23:59:59.999999Z"}', "None"),
    (b'{"day":"0001-01-01","at":"0001-01-01T00:00:00Z","here":"0001-01-01T00:00:00"}', "None"),
    (b'{"m":{"a":1.5,"b":null},"many":[{"p":1.5},{"p":null},null]}', "None"),
]

UNFIT: list[tuple[bytes, str]] = [
    (b'{"price":12.345}', "wrong type: price"),
    (b'{"price":"12.345"}', "wrong type: price"),
    (b'{"price":1.2345e1}', "wrong type: price"),
    (b'{"price":99999999.995}', "wrong type: price"),
    (b'{"price":100000000}', "wrong type: price"),
    (b'{"d":1e400,"f":1e39}', "wrong type: d, f"),
    (b'{"d":-1e400}', "wrong type: d"),
    (b'{"day":"12026-01-01","at":"+12026-01-01T00:00:00Z"}', "wrong type: day, at"),
    (b'{"here":"+12026-01-01T00:00:00"}', "wrong type: here"),
    (b'{"m":{"a":1,"a":2}}', "wrong type: m"),
    (b'{"m":{"a":1e400}}', "wrong type: m"),
    (b'{"many":[{"p":1.5},{"p":1.55}]}', "wrong type: many"),
]


def test_a_number_or_date_that_its_type_cannot_represent_is_a_dead_letter(
    spark: SparkSession,
) -> None:
    value_format = json_format(NUMBERS)
    decoded = value_format.decode(raw(spark, [value for value, _ in FITS + UNFIT]))
    assert decoded.select("record.price").schema[0].dataType == DecimalType(10, 2)
    price = F.col("record.price").cast("string")
    rows = decoded.orderBy("offset").select(price.alias("price"), "bad").collect()
    assert [row.bad for row in rows] == [False] * len(FITS) + [True] * len(UNFIT)
    assert [str(row.price) for row in rows[: len(FITS)]] == [price for _, price in FITS]
    reasons = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in reasons] == [reason for _, reason in UNFIT]


TIMES = (
    "at TIMESTAMP, here TIMESTAMP_NTZ, day DATE, many ARRAY<TIMESTAMP>, "
    "by MAP<STRING, DATE>, inside STRUCT<at: TIMESTAMP>, list ARRAY<STRUCT<day: DATE>>"
)
NAMED = "at TIMESTAMP, here TIMESTAMP_NTZ, day DATE, inside STRUCT<at: TIMESTAMP>"
"""Times in named fields only, for which the text is searched."""

TIMELY = [
    b'{"at":"2024-05-01T12:00:00Z"}',
    b'{"at":"2024-05-01 12:00:00.123456789+02:00","here":"2024-05-01T12:00:00"}',
    b'{"at":"2024-05-01","day":"2024-05-01","here":"2024-05-01"}',
    b'{"at":2026}',
    b'{"at":-62135596800}',
    b'{"\\u0061t":"2024-05-01T12:00:00Z"}',
    b'{"at" : "\\u0032024-05-01"}',
    b'{"unknown":{"at":"05:00"},"at":null}',
    b'{"many":["2024-05-01",12,null],"by":{"a":"2024-05-01","b":null}}',
    b'{"inside":{"at":12},"list":[{"day":"2024-05-01"},{},null]}',
]

UNTIMELY: list[tuple[bytes, str]] = [
    (b'{"at":"05:00:00"}', "at"),
    (b'{"at":"2026-05-01T05:00Z"}', "at"),
    (b'{"at":"2026-05-01 05:00+02:00"}', "at"),
    (b'{"at":"T05:00"}', "at"),
    (b'{"at" :\n"5:1"}', "at"),
    (b'{"at":" 05:00"}', "at"),
    (b'{"at":"\\u00305:00"}', "at"),
    (b'{"\\u0061t":"05:00"}', "at"),
    (b'{"at":"2026"}', "at"),
    (b'{"at":"2026-05"}', "at"),
    (b'{"at":"12"}', "at"),
    (b'{"at":1714564800000}', "at"),
    (b'{"at":18446744073709552}', "at"),
    (b'{"here":"2026","day":"2026-05"}', "here, day"),
    (b'{"day":"12"}', "day"),
    (b'{"day":"2026-05-01T05:00:00Z"}', "day"),
    (b'{"day":"2026-05-01 and more"}', "day"),
    (b'{"inside":{"at":"05:00"}}', "inside.at"),
    (b'{"many":["2026-05-01","05:00"]}', "many"),
    (b'{"by":{"a":"2026"}}', "by"),
    (b'{"list":[{"day":"2026"}]}', "list"),
]


@pytest.mark.parametrize("schema", [TIMES, NAMED])
@pytest.mark.slow
def test_a_time_without_a_complete_date_is_a_dead_letter(spark: SparkSession, schema: str) -> None:
    """Spark dates a time without a date to the day on which it runs."""
    value_format = json_format(schema)
    untimely = UNTIMELY if schema is TIMES else UNTIMELY[:-3]
    decoded = value_format.decode(raw(spark, [*TIMELY, *[value for value, _ in untimely]]))
    rows = decoded.orderBy("offset").select("offset", "bad").collect()
    assert [row.offset for row in rows if not row.bad] == list(range(len(TIMELY)))
    reasons = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("reason")
        .collect()
    )
    assert [row.reason for row in reasons] == [f"wrong type: {names}" for _, names in untimely]


PAIRED = [
    b'{"page":"\\ud83d\\ude00"}',
    b'{"page":"\\\\ud83d"}',
    b'{"page":"?","unknown":"\\ud83d"}',
]
HALVED = [
    b'{"page":"\\ud83d"}',
    b'{"page":"\\uDE00\\ud83d"}',
    b'{"page":"\\\\ud83d\\ude00"}',
    b'{"page":"\\ud83d\\\\\\ude00"}',
    b'{"page":{"a":"\\ud83d"}}',
    b'{"m":{"\\ud83d":"b"}}',
]


def test_half_a_surrogate_pair_in_a_field_is_a_dead_letter(spark: SparkSession) -> None:
    value_format = json_format("page STRING, m MAP<STRING, STRING>")
    decoded = value_format.decode(raw(spark, [*PAIRED, *HALVED]))
    rows = decoded.orderBy("offset").select("record.page", "bad").collect()
    assert [row.page for row in rows if not row.bad] == ["\U0001f600", "\\ud83d", "?"]
    dead = (
        value_format.explain_failures(decoded.where("bad"))
        .orderBy("offset")
        .select("offset", "reason")
    )
    reasons = [(row.offset, row.reason) for row in dead.collect()]
    assert reasons == [(3 + index, "lone surrogate") for index in range(len(HALVED))]


def test_a_required_field_that_is_missing_is_named(spark: SparkSession) -> None:
    value_format = json_format("page STRING NOT NULL, ms BIGINT NOT NULL, x INT")
    decoded = value_format.decode(
        raw(spark, [b'{"x":1}', b'{"page":"/a"}', b'{"page":"/a","ms":1}'])
    )
    assert [row.bad for row in decoded.orderBy("offset").collect()] == [True, True, False]
    reasons = [
        row.reason
        for row in value_format.explain_failures(decoded.where("bad")).orderBy("offset").collect()
    ]
    assert reasons == ["missing field: page, ms", "missing field: ms"]


def test_a_tombstone_can_be_a_row(spark: SparkSession) -> None:
    decoded = json_format("page STRING", tombstones="row").decode(raw(spark, [None, b""]))
    assert [row.bad for row in decoded.orderBy("offset").collect()] == [False, True]


@pytest.mark.slow
def test_ten_megabytes_are_read_and_ten_truncated_ones_are_a_dead_letter(
    spark: SparkSession,
) -> None:
    large = b'{"page":"' + b"x" * 10_000_000 + b'"'
    decoded = json_format("page STRING").decode(raw(spark, [large + b"}", large]))
    rows = (
        decoded.select(F.length("record.page").alias("n"), "bad")
        .orderBy(F.desc_nulls_last("n"))
        .collect()
    )
    assert rows[0] == (10_000_000, False)
    assert rows[1].bad


def test_a_wrong_type_is_detected_in_an_unused_field(spark: SparkSession) -> None:
    """The optimizer may prune unused fields, which must not change which values are malformed."""
    decoded = json_format("page STRING, ms BIGINT").decode(raw(spark, [b'{"page":"/a","ms":"x"}']))
    assert decoded.where("not bad").select("record.page").count() == 0
    assert decoded.where("not bad").count() == 0


def test_a_value_is_parsed_once_in_the_plan(spark: SparkSession) -> None:
    decoded = json_format("page STRING, ms BIGINT, at TIMESTAMP").decode(raw(spark, [b"{}"]))
    used = decoded.select("record.page", "record.ms", "record.at", "bad", F.col("record.ms") + 1)
    plan = used._jdf.queryExecution().executedPlan().toString()
    assert plan.count("columnNameOfCorruptRecord") == 1


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_the_session_time_zone_does_not_change_a_timestamp_without_offset(
    spark: SparkSession, zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        decoded = json_format("at TIMESTAMP").decode(raw(spark, [b'{"at":"1970-01-02T00:00:00"}']))
        row = decoded.select(F.unix_seconds("record.at")).head()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert row == (86_400,)


def test_duplicate_fields_and_invalid_tombstones_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(ColumnError, match="duplicate fields in schema: page"):
        json_format("page STRING, PAGE STRING")
    with pytest.raises(ArgumentError, match="invalid tombstones: 'drop'"):
        json_format("page STRING", tombstones="drop")  # type: ignore[arg-type]
