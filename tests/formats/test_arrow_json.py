"""Arrow's parser and Spark's read the same of every value."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidegate.columns import schema_of
from tidegate.errors import ArgumentError
from tidegate.formats import json_format
from tidegate.formats.json._by_arrow import arrow_json

pytestmark = pytest.mark.usefixtures("spark")

SCHEMAS = {
    "flat": "s STRING, i INT, l BIGINT, d DOUBLE, b BOOLEAN, t TIMESTAMP",
    "odd": "y TINYINT, h SMALLINT, f FLOAT, m DECIMAL(10,2), w DECIMAL(38,0), u DATE",
    "required": "s STRING NOT NULL, t TIMESTAMP NOT NULL, l BIGINT",
    "nested": "o STRUCT<x: BIGINT, d: DOUBLE, a: ARRAY<STRING>>, a ARRAY<INT>, "
    "q ARRAY<STRUCT<m: DECIMAL(5,1)>>, s STRING",
}
CASES = [
    b'{"s":"a}b{"}',
    b'{"d":-0}',
    b'{"d":-0.0}',
    b'{"d":NaN}',
    b'{"z":NaN}',
    b'{"z":[-Infinity]}',
    b'{"d":1e400}',
    b'{"z":1e400}',
    b'{"d":1.7976931348623159e308}',
    b'{"d":1e-400}',
    b'{"f":1e39}',
    b'{"f":16777217}',
    b'{"f":0.1}',
    b'{"m":123456789}',
    b'{"m":12345678.12}',
    b'{"m":"1.5"}',
    b'{"m":1.555}',
    b'{"m":1e3}',
    b'{"w":123456789012345678901234567890}',
    b'{"w":1.5}',
    b'{"i":2147483648}',
    b'{"i":1.0}',
    b'{"i":01}',
    b'{"s":"x","s":"y"}',
    b'{"z":1,"z":2}',
    b'{"o":{"x":1,"x":2}}',
    b'{"o":{"d":-0}}',
    b'{"o":{"a":[null,"x"]}}',
    b'{"q":[{"m":12345.6}]}',
    b'{"a":[1,null,3]}',
    b'{"s":"\\ud83d\\ude00"}',
    b'{"s":"\\ud83d"}',
    b'{"z":"\\ud83d"}',
    b'{"s":"\\u0000"}',
    b'{"\\u0073":"x"}',
    b'{"s":"a\tb"}',
    b'{"s":"a\nb"}',
    b'{"s":\n"b"}',
    b'{"s":\r"b"}',
    b'{"s":"\xff"}',
    b'{"s":"\xed\xa0\x80"}',
    b'{"s":"x"}{"s":"y"}',
    b'{"s":"x"} {"s":"y"}',
    b'{"s":"x"}\n{"s":"y"}',
    b'{"s":"x"}}',
    b'{"s":"}',
    b'{"}',
    b'{"a":[{}',
    b"null",
    b"",
    b"{}",
    b" {}",
    b"{} ",
    b"\xef\xbb\xbf{}",
    b'{"z":' + b"[" * 997 + b"]" * 997 + b"}",
    b'{"z":' + b"[" * 998 + b"]" * 998 + b"}",
    b'{"z":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    b'{"z":' + b"9" * 999 + b"}",
    b'{"z":' + b"9" * 1_001 + b"}",
    b'{"z":0.' + b"9" * 2_000 + b"}",
    b'{"' + b"n" * 49_000 + b'":1}',
    b'{"' + b"n" * 60_000 + b'":1}',
    b'{"s":"' + b"x" * 100_000 + b'"}',
]
TIMES = [
    f"{day}{clock}{zone}"
    for day in ("2026-01-02", "0001-01-01", "9999-12-31", "0000-12-31", "1582-10-10", "2026-02-29")
    for clock in ("", "T03", " 03:04", "T03:04:05", " 03:04:05.1", "T23:59:59.123456", "T24:00:00")
    for zone in ("", "Z", "+02", "+02:00", "+0200", "-18:00", "+18:01", " UTC")
]
Draw = Callable[[random.Random], str]


def texts(rng: random.Random) -> str:
    """Return a JSON text, with what a text may hold."""
    parts = ["a", "é", "😀", "\\n", "\\u00e9", '\\"', "\\\\", "}", "{", "  ", "\\ud83d", "7", "NaN"]
    return '"' + "".join(rng.choices(parts, k=rng.randrange(5))) + '"'


def numbers(rng: random.Random) -> str:
    """Return a JSON number of one of many forms, or nearly one."""
    forms: list[Draw] = [
        lambda r: str(r.randrange(-300, 300)),
        lambda r: str(r.randrange(-(2**66), 2**66)),
        lambda r: repr(r.uniform(-1e3, 1e3)),
        lambda r: f"{r.uniform(-9, 9):.{r.randrange(20)}e}",
        lambda r: f"{r.randrange(-99999, 99999) / 100}",
        lambda r: r.choice(["-0", "-0.0", "0e0", "1E5", "1.", ".5", "+1", "00", "1e309", "NaN"]),
    ]
    return rng.choice(forms)(rng)


def values(rng: random.Random, depth: int = 0) -> str:
    """Return any JSON value, or nearly one."""
    forms: list[Draw] = [
        texts,
        numbers,
        lambda r: r.choice(["null", "true", "false"]),
        lambda r: f'"{r.choice(TIMES)}"',
    ]
    if depth < 3:
        forms += [
            lambda r: "[" + ",".join(values(r, depth + 1) for _ in range(r.randrange(3))) + "]",
            lambda r: objects(r, depth + 1),
        ]
    return rng.choice(forms)(rng)


def objects(rng: random.Random, depth: int = 0) -> str:
    """Return a JSON object with some of the names that the schemas have."""
    names = rng.choices(list("sildbtyhfmwuoaqxzS"), k=rng.randrange(5))
    space = rng.choice(["", "", "", " "])
    parts = [f'{space}"{name}"{space}:{space}{values(rng, depth)}' for name in names]
    return "{" + ",".join(parts) + "}"


def drawn(seed: int, count: int) -> list[bytes]:
    """Return values, a third of them with a byte changed, left out or put in."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        value = bytearray(objects(rng).encode("utf-8", "surrogatepass"))
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            value[at] = rng.randrange(256)
        elif rng.random() < 0.1:
            del value[at]
        elif rng.random() < 0.1:
            value.insert(at, rng.choice(b'{}[]",:\n 0'))
        found.append(bytes(value))
    return found


def different(spark: SparkSession, schema: str, given: list[bytes]) -> list[Row]:
    """Return the values of which the two parsers do not read the same."""
    raw = spark.createDataFrame(list(enumerate(given)), "id INT, value BINARY")
    # As text, in which 0.0 and -0.0 differ.
    told = F.when(~F.col("bad"), F.col("record").cast("string"))
    arrow = json_format(schema).decode(raw).select("id", "value", told.alias("arrow"))
    slow = json_format(schema, parser="spark").decode(raw).select("id", told.alias("spark"))
    both = arrow.join(slow, "id")
    return both.where(~F.col("arrow").eqNullSafe(F.col("spark"))).collect()


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_both_parsers_read_the_same_of_edge_cases(spark: SparkSession, schema: str) -> None:
    times = [f'{{"{name}":"{at}"}}'.encode() for name in "tu" for at in TIMES]
    assert different(spark, schema, [*CASES, *times]) == []


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.draws(
    ["seed", "count"], short=[(1, 5_000)], long=[(seed, 50_000) for seed in range(5)]
)
def test_both_parsers_read_the_same_of_drawn_values(
    spark: SparkSession, schema: str, seed: int, count: int
) -> None:
    assert different(spark, schema, drawn(seed, count)) == []


def test_good_values_are_read_by_arrow_and_a_bad_one_is_left_alone() -> None:
    reader = arrow_json(schema_of(SCHEMAS["flat"]))
    assert reader is not None
    good = [f'{{"s":"x","l":{n},"t":"2026-01-02T03:04:05Z"}}'.encode() for n in range(2_000)]
    good[700] = b'{"s":7}'
    read = reader.read(pa.array(good, pa.binary()))
    assert [at for at, record in enumerate(read.to_pylist()) if record is None] == [700]
    assert read[701].as_py()["l"] == 701


def test_many_values_that_are_no_objects_leave_the_good_ones_to_arrow() -> None:
    reader = arrow_json(schema_of(SCHEMAS["nested"]))
    assert reader is not None
    good = [f'{{"o":{{"x":{n}}}}}'.encode() for n in range(3_000)]
    given: list[bytes | None] = [*good]
    for at, odd in enumerate([None, b"", b'{"o":{"x":1', b" ", b"null", b"[1]"]):
        given[at * 7 :: 60] = [odd] * len(given[at * 7 :: 60])
    read = reader.read(pa.array(given, pa.binary())).to_pylist()
    for value, wanted, record in zip(given, range(3_000), read, strict=True):
        assert (record is not None) == (value == good[wanted])
        assert record is None or record["o"]["x"] == wanted


@pytest.mark.parametrize(
    "kind", ["MAP<STRING,INT>", "TIMESTAMP_NTZ", "ARRAY<DATE>", "STRUCT<x: INT NOT NULL>"]
)
def test_types_that_arrow_reads_differently_are_left_to_spark(kind: str) -> None:
    assert arrow_json(schema_of(f"v {kind}")) is None


def test_another_parser_is_refused() -> None:
    with pytest.raises(ArgumentError, match="parser is 'simd'"):
        json_format("s STRING", parser="simd")  # type: ignore[arg-type]


def test_a_filter_of_the_fields_stays_behind_the_decision_whether_a_value_is_good(
    spark: SparkSession,
) -> None:
    good = [f'{{"s":"x","t":"2026-01-01T00:00:{n:02}Z"}}'.encode() for n in range(40)]
    given = [*good, None, b"", b'{"s":1', b'{"s":7}']
    raw = spark.createDataFrame(list(enumerate(given)), "id INT, value BINARY")
    decoded = json_format("s STRING NOT NULL, t TIMESTAMP").decode(raw)
    flat = decoded.where("not bad").select("record.t")
    closes = F.window("t", "10 seconds")["end"]
    assert flat.where(closes <= F.lit("2026-01-01T00:00:30Z").cast("timestamp")).count() == 30
