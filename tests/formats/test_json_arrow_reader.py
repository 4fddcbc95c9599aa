"""Arrow's parser and Spark's parser read every value identically."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidegate.columns import as_schema
from tidegate.errors import ArgumentError
from tidegate.formats import json_format
from tidegate.formats.json._arrow_reader import arrow_json_reader

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
ARROW_BATCH_SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch"
SCHEMA = "s STRING, i INT, d DOUBLE, b BOOLEAN, t TIMESTAMP"
GOOD = b'{"s":"x}{","i":7,"d":0.5,"b":true,"t":"2026-01-02T03:04:05Z","z":1e5}'
FAULTS = {
    "truncated": GOOD[:-1],
    "trailing space": GOOD + b" ",
    "a name of the same length": GOOD.replace(b'"i"', b'"I"'),
    "another order": b'{"i":7,"s":"x","d":0.5,"b":true,"t":"2026-01-02T03:04:05Z","z":1e5}',
    "an additional space before a text": GOOD.replace(b'"s":', b'"s": '),
    "a line end between": GOOD.replace(b":7", b":\n7"),
    "null for a text": GOOD.replace(b'"x}{"', b"null"),
    "null for a number": GOOD.replace(b"7", b"null"),
    "a text for a number": GOOD.replace(b"7", b'"7"'),
    "a number for a text": GOOD.replace(b'"x}{"', b"5"),
    "no number": GOOD.replace(b":7", b":"),
    "a field missing": GOOD.replace(b'"i":7,', b""),
    "an additional field": GOOD.replace(b'"i":7,', b'"i":7,"j":8,'),
    "an escape": GOOD.replace(b"x", b"\\u0041"),
    "an escaped quotation mark": GOOD.replace(b"x", b'\\"'),
    "a control character": GOOD.replace(b"x", b"\x01"),
    "invalid UTF-8": GOOD.replace(b"x", b"\xc3"),
    "half a surrogate pair": GOOD.replace(b"x}", b"\xed\xa0\x80\xc3\xa9"),
    "a number of 400 digits": GOOD.replace(b":7", b":" + b"7" * 400),
    "a long value": GOOD.replace(b"x", b"x" * 60_000),
    "two quotation marks": GOOD.replace(b'"i"', b"'i\""),
    "empty": b"",
    "a tombstone": None,
    "an additional space": GOOD.replace(b":7", b": 7"),
    "an object": GOOD.replace(b":7", b":{}"),
    "a fraction": GOOD.replace(b":7", b":7.0"),
    "a leading zero": GOOD.replace(b":7", b":07"),
    "a leading plus": GOOD.replace(b":7", b":+7"),
    "minus zero": GOOD.replace(b":7", b":-0"),
    "a hexadecimal number": GOOD.replace(b":7", b":0x10"),
    "a negative hexadecimal number": GOOD.replace(b":7", b":-0x10"),
    "out of range": GOOD.replace(b":7", b":2147483648"),
    "an exponent": GOOD.replace(b":7", b":1e3"),
    "letters": GOOD.replace(b":7", b":7x"),
    "not a number": GOOD.replace(b"0.5", b"NaN"),
    "no digit after the point": GOOD.replace(b"0.5", b"5."),
    "no digit before the point": GOOD.replace(b"0.5", b".5"),
    "neither true nor false": GOOD.replace(b"true", b"true1"),
    "a number for true": GOOD.replace(b"true", b"1"),
    "no number in an unused field": GOOD.replace(b"1e5", b"1e"),
    "an invalid time": GOOD.replace(b"2026-01-02", b"yesterday "),
}
"""Values among GOOD ones; each is invalid, or needs Spark's parser, or is read by Arrow's."""
ODD_FIELDS = {
    "minus zero, a double": (b"0.5", b"-0.0"),
    "infinite": (b"0.5", b"1e400"),
    "a nonexistent time": (b"03:04:05Z", b"24:00:00Z"),
}
"""Values that the parser accepts, and that Spark reads differently."""


Draw = Callable[[random.Random], str]


def texts(rng: random.Random) -> str:
    """Return a JSON text with escapes and special characters."""
    parts = ["a", "é", "😀", "\\n", "\\u00e9", '\\"', "\\\\", "}", "{", "  ", "\\ud83d", "7", "NaN"]
    return '"' + "".join(rng.choices(parts, k=rng.randrange(5))) + '"'


def numbers(rng: random.Random) -> str:
    """Return a JSON number in one of many forms, or an invalid one."""
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
    """Return a JSON value, or an invalid one."""
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
    """Return a JSON object with fields of the schemas."""
    names = rng.choices(list("sildbtyhfmwuoaqxzS"), k=rng.randrange(5))
    space = rng.choice(["", "", "", " "])
    parts = [f'{space}"{name}"{space}:{space}{values(rng, depth)}' for name in names]
    return "{" + ",".join(parts) + "}"


def random_values(seed: int, count: int) -> list[bytes]:
    """Return values, a third of them with a byte replaced, deleted or inserted."""
    rng = random.Random(seed)
    drawn = []
    for _ in range(count):
        value = bytearray(objects(rng).encode("utf-8", "surrogatepass"))
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            value[at] = rng.randrange(256)
        elif rng.random() < 0.1:
            del value[at]
        elif rng.random() < 0.1:
            value.insert(at, rng.choice(b'{}[]",:\n 0'))
        drawn.append(bytes(value))
    return drawn


def parser_differences(spark: SparkSession, schema: str, drawn: list[bytes]) -> list[Row]:
    """Return the values that the two parsers read differently."""
    raw = spark.createDataFrame(list(enumerate(drawn)), "id INT, value BINARY")
    # Texts distinguish 0.0 from -0.0.
    record_text = F.when(~F.col("bad"), F.col("record").cast("string"))
    arrow = json_format(schema).decode(raw).select("id", "value", record_text.alias("arrow"))
    spark_records = (
        json_format(schema, parser="spark").decode(raw).select("id", record_text.alias("spark"))
    )
    both = arrow.join(spark_records, "id")
    return both.where(~F.col("arrow").eqNullSafe(F.col("spark"))).collect()


def uniform_values(seed: int, count: int) -> list[bytes]:
    """Return flat objects of a few kinds, a few with a byte replaced, deleted or inserted."""
    rng = random.Random(seed)
    kinds = [_object_kind(rng) for _ in range(rng.randrange(1, 4))]
    drawn = []
    for _ in range(count):
        value = bytearray(rng.choice(kinds)(rng).encode("utf-8", "surrogatepass"))
        at = rng.randrange(len(value))
        match rng.randrange(60):
            case 0:
                value[at] = rng.randrange(256)
            case 1:
                del value[at]
            case 2:
                value.insert(at, rng.choice(b'{}[]",:\n 0'))
        drawn.append(bytes(value))
    return drawn


def _object_kind(rng: random.Random) -> Callable[[random.Random], str]:
    """Return a generator of objects with the same names in one order, mostly of the field types."""
    names = rng.sample("sildbtyhfmuxzS", k=rng.randrange(1, 7))
    before, behind = rng.choice(["", "", " "]), rng.choice(["", " "])
    # The share of values of other types.
    odd_share = rng.choice([0, 0, 0, 0.001, 0.1])

    def field_value(name: str, rng: random.Random) -> str:
        any_value = rng.random() < odd_share
        match name:
            case _ if rng.random() < odd_share:
                return values(rng, depth=3)
            case "s" | "x":
                return texts(rng) if any_value else f'"{rng.randrange(9**9)}é}}{{,:"'
            case "t" | "u":
                return f'"{rng.choice(TIMES) if any_value else "2026-01-02T03:04:05.5Z"}"'
            case "b":
                return rng.choice(["true", "false"])
            case "d" | "f":
                return numbers(rng) if any_value else repr(rng.uniform(-9, 9))
        return numbers(rng) if any_value else str(rng.randrange(-99, 100) or 1)

    def draw(rng: random.Random) -> str:
        fields = [
            f'{before}"{name}"{behind}:{before}{field_value(name, rng)}{behind}' for name in names
        ]
        return "{" + ",".join(fields) + "}"

    return draw


def uniform_value_differences(
    spark: SparkSession, schema: str, seeds: Sequence[int], count: int
) -> list[Row]:
    """Return random values that are read differently; each seed is one Arrow batch.

    seeds: a multiple of the number of tasks.
    """
    drawn = [value for seed in seeds for value in uniform_values(seed, count)]
    before = spark.conf.get(ARROW_BATCH_SIZE)
    spark.conf.set(ARROW_BATCH_SIZE, str(count))
    try:
        return parser_differences(spark, schema, drawn)
    finally:
        spark.conf.set(ARROW_BATCH_SIZE, str(before))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_both_parsers_read_edge_cases_identically(spark: SparkSession, schema: str) -> None:
    times = [f'{{"{name}":"{at}"}}'.encode() for name in "tu" for at in TIMES]
    assert parser_differences(spark, schema, [*CASES, *times]) == []


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.draws(
    ["seed", "count"], short=[(1, 5_000)], long=[(seed, 50_000) for seed in range(5)]
)
def test_both_parsers_read_random_values_identically(
    spark: SparkSession, schema: str, seed: int, count: int
) -> None:
    assert parser_differences(spark, schema, random_values(seed, count)) == []


@pytest.mark.parametrize("schema", ["flat", "odd", "required"])
@pytest.mark.draws(
    ["seeds", "count"], short=[(range(40), 200)], long=[(range(n, n + 100), 500) for n in (0, 100)]
)
def test_both_parsers_read_values_of_the_same_names_identically(
    spark: SparkSession, schema: str, seeds: range, count: int
) -> None:
    assert uniform_value_differences(spark, SCHEMAS[schema], seeds, count) == []


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_invalid_value_is_left_and_the_others_are_read(fault: bytes | None) -> None:
    reader = arrow_json_reader(as_schema(SCHEMA))
    assert reader is not None
    (good,) = reader.read(pa.array([GOOD], pa.binary())).to_pylist()
    value_array = pa.array([*[GOOD] * 20, fault, *[GOOD] * 20], pa.binary())
    for values_in_block, index in ((value_array, 20), (value_array[7:], 13)):
        records = reader.read(values_in_block).to_pylist()
        assert records[:index] + records[index + 1 :] == [good] * (len(values_in_block) - 1)


@pytest.mark.parametrize(("part", "odd"), ODD_FIELDS.values(), ids=ODD_FIELDS)
def test_only_values_that_spark_reads_differently_are_left(part: bytes, odd: bytes) -> None:
    reader = arrow_json_reader(as_schema(SCHEMA))
    assert reader is not None
    value_array = pa.array([*[GOOD] * 20, GOOD.replace(part, odd), GOOD], pa.binary())
    assert reader.read(value_array).is_valid().to_pylist() == [*[True] * 20, False, True]


def test_texts_in_all_alphabets_are_read() -> None:
    reader = arrow_json_reader(as_schema(SCHEMA))
    assert reader is not None
    alphabets = ["é", "漢字", "😀", "\x7f", "\x80"]
    value_array = [GOOD.replace(b"x", text.encode()) for text in alphabets]
    records = reader.read(pa.array(value_array, pa.binary()))
    assert records.field("s").to_pylist() == [text + "}{" for text in alphabets]


def test_objects_with_different_names_are_read_in_their_order() -> None:
    reader = arrow_json_reader(as_schema("s STRING, i INT"))
    assert reader is not None
    kinds = [b'{"s":"a","i":1}', b'{"s":null,"i":2}', b'{"i":3}', b'{"s":"b","i":null}']
    read = reader.read(pa.array([kinds[n % 4] for n in range(400)], pa.binary())).to_pylist()
    expected = [("a", 1), (None, 2), (None, 3), ("b", None)] * 100
    assert [(each["s"], each["i"]) for each in read] == expected


@pytest.mark.parametrize(
    "fault",
    [
        b'{"s":7}',
        b'{"l":1.5}',
        b'{"l":}',
        b'{"t":"2026-02-29T00:00:00Z"}',
        b'{"s":"\xff"}',
        b'{"d":NaN}',
        b'{"s":"a\nb"}',
    ],
)
def test_one_invalid_value_in_a_hundred_leaves_no_other_value_to_spark(fault: bytes) -> None:
    reader = arrow_json_reader(as_schema(SCHEMAS["flat"]))
    assert reader is not None
    drawn = [f'{{"s":"x","l":{n}}}'.encode() for n in range(5_000)]
    drawn[::100] = [fault] * 50
    read = reader.read(pa.array(drawn, pa.binary())).to_pylist()
    assert [n for n, record in enumerate(read) if record is None] == list(range(0, 5_000, 100))
    assert all(record["l"] == n for n, record in enumerate(read) if record is not None)


def test_arrow_reads_valid_values_and_leaves_an_invalid_one() -> None:
    reader = arrow_json_reader(as_schema(SCHEMAS["flat"]))
    assert reader is not None
    good = [f'{{"s":"x","l":{n},"t":"2026-01-02T03:04:05Z"}}'.encode() for n in range(2_000)]
    good[700] = b'{"s":7}'
    read = reader.read(pa.array(good, pa.binary()))
    assert [index for index, record in enumerate(read.to_pylist()) if record is None] == [700]
    assert read[701].as_py()["l"] == 701


def test_arrow_reads_valid_values_among_many_other_ones() -> None:
    reader = arrow_json_reader(as_schema(SCHEMAS["nested"]))
    assert reader is not None
    good = [f'{{"o":{{"x":{n}}}}}'.encode() for n in range(3_000)]
    values_in_batch: list[bytes | None] = [*good]
    for index, odd in enumerate([None, b"", b'{"o":{"x":1', b" ", b"null", b"[1]"]):
        values_in_batch[index * 7 :: 60] = [odd] * len(values_in_batch[index * 7 :: 60])
    read = reader.read(pa.array(values_in_batch, pa.binary())).to_pylist()
    for value, number, record in zip(values_in_batch, range(3_000), read, strict=True):
        assert (record is not None) == (value == good[number])
        assert record is None or record["o"]["x"] == number


@pytest.mark.parametrize(
    "column_type", ["MAP<STRING,INT>", "TIMESTAMP_NTZ", "ARRAY<DATE>", "STRUCT<x: INT NOT NULL>"]
)
def test_types_that_arrow_reads_differently_are_left_to_spark(column_type: str) -> None:
    assert arrow_json_reader(as_schema(f"v {column_type}")) is None


def test_an_unknown_parser_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="invalid parser: 'simd'"):
        json_format("s STRING", parser="simd")  # type: ignore[arg-type]


def test_a_filter_on_fields_is_not_pushed_below_the_parser(
    spark: SparkSession,
) -> None:
    good = [f'{{"s":"x","t":"2026-01-01T00:00:{n:02}Z"}}'.encode() for n in range(40)]
    values_in_batch = [*good, None, b"", b'{"s":1', b'{"s":7}']
    raw = spark.createDataFrame(list(enumerate(values_in_batch)), "id INT, value BINARY")
    decoded = json_format("s STRING NOT NULL, t TIMESTAMP").decode(raw)
    flat = decoded.where("not bad").select("record.t")
    window_end = F.window("t", "10 seconds")["end"]
    assert flat.where(window_end <= F.lit("2026-01-01T00:00:30Z").cast("timestamp")).count() == 30
