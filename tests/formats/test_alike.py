"""Values that are alike are read as Spark's parser reads them, and only those."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from tidegate.columns import schema_of
from tidegate.formats.json._arrow_fields import fields_of
from tidegate.formats.json._by_arrow import arrow_json
from tidegate.formats.json._cutting import read_alike
from tidegate.formats.json._template import Slot, template_of

from .test_arrow_json import SCHEMAS, TIMES, different, numbers, texts, values

pytestmark = pytest.mark.usefixtures("spark")

AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
SCHEMA = "s STRING, i INT, d DOUBLE, b BOOLEAN, t TIMESTAMP"
GOOD = b'{"s":"x}{","i":7,"d":0.5,"b":true,"t":"2026-01-02T03:04:05Z","z":1e5}'
LEFT = {
    "cut off": GOOD[:-1],
    "more behind it": GOOD + b" ",
    "a name of the same length": GOOD.replace(b'"i"', b'"I"'),
    "another order": b'{"i":7,"s":"x","d":0.5,"b":true,"t":"2026-01-02T03:04:05Z","z":1e5}',
    "a blank more before a text": GOOD.replace(b'"s":', b'"s": '),
    "a line end between": GOOD.replace(b":7", b":\n7"),
    "null for a text": GOOD.replace(b'"x}{"', b"null"),
    "null for a number": GOOD.replace(b"7", b"null"),
    "a text for a number": GOOD.replace(b"7", b'"7"'),
    "a number for a text": GOOD.replace(b'"x}{"', b"5"),
    "no number": GOOD.replace(b":7", b":"),
    "a field missing": GOOD.replace(b'"i":7,', b""),
    "a field more": GOOD.replace(b'"i":7,', b'"i":7,"j":8,'),
    "an escape": GOOD.replace(b"x", b"\\u0041"),
    "an escaped quotation mark": GOOD.replace(b"x", b'\\"'),
    "a control character": GOOD.replace(b"x", b"\x01"),
    "no UTF-8": GOOD.replace(b"x", b"\xc3"),
    "half a surrogate pair": GOOD.replace(b"x}", b"\xed\xa0\x80\xc3\xa9"),
    "a number of 400 digits": GOOD.replace(b":7", b":" + b"7" * 400),
    "a long value": GOOD.replace(b"x", b"x" * 60_000),
    "two marks for one": GOOD.replace(b'"i"', b"'i\""),
    "nothing": b"",
    "a tombstone": None,
    "a blank more": GOOD.replace(b":7", b": 7"),
    "an object": GOOD.replace(b":7", b":{}"),
    "a fraction": GOOD.replace(b":7", b":7.0"),
    "a zero before it": GOOD.replace(b":7", b":07"),
    "a sign before it": GOOD.replace(b":7", b":+7"),
    "minus zero": GOOD.replace(b":7", b":-0"),
    "a number of base 16": GOOD.replace(b":7", b":0x10"),
    "a negative number of base 16": GOOD.replace(b":7", b":-0x10"),
    "beyond the type": GOOD.replace(b":7", b":2147483648"),
    "an exponent": GOOD.replace(b":7", b":1e3"),
    "letters": GOOD.replace(b":7", b":7x"),
    "not a number": GOOD.replace(b"0.5", b"NaN"),
    "no digit after the point": GOOD.replace(b"0.5", b"5."),
    "no digit before the point": GOOD.replace(b"0.5", b".5"),
    "neither true nor false": GOOD.replace(b"true", b"true1"),
    "a number for true": GOOD.replace(b"true", b"1"),
    "no number, in a field that nobody reads": GOOD.replace(b"1e5", b"1e"),
    "no time": GOOD.replace(b"2026-01-02", b"yesterday "),
}
"""Values among those of one template that are not of it, or not to be read without a parser."""
ODD = {
    "minus zero, a double": (b"0.5", b"-0.0"),
    "infinite": (b"0.5", b"1e400"),
    "no time that there is": (b"03:04:05Z", b"24:00:00Z"),
}
"""Values of the template for which its whole block is left to the parser."""


def alike(seed: int, count: int) -> list[bytes]:
    """Return values of a few templates, a few of them with a byte changed, left out or put in."""
    rng = random.Random(seed)
    templates = [_template(rng) for _ in range(rng.randrange(1, 4))]
    found = []
    for _ in range(count):
        value = bytearray(rng.choice(templates)(rng).encode("utf-8", "surrogatepass"))
        at = rng.randrange(len(value))
        match rng.randrange(60):
            case 0:
                value[at] = rng.randrange(256)
            case 1:
                del value[at]
            case 2:
                value.insert(at, rng.choice(b'{}[]",:\n 0'))
        found.append(bytes(value))
    return found


def _template(rng: random.Random) -> Callable[[random.Random], str]:
    """Return what draws values whose fields have mostly values of their own kind."""
    names = rng.sample("sildbtyhfmuxzS", k=rng.randrange(1, 7))
    before, behind = rng.choice(["", "", " "]), rng.choice(["", " "])
    # How many of them are anything else.
    odd = rng.choice([0, 0, 0, 0.001, 0.1])

    def one(name: str, rng: random.Random) -> str:
        any_value = rng.random() < odd
        match name:
            case _ if rng.random() < odd:
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
        fields = [f'{before}"{name}"{behind}:{before}{one(name, rng)}{behind}' for name in names]
        return "{" + ",".join(fields) + "}"

    return draw


def differing(spark: SparkSession, schema: str, seeds: Sequence[int], count: int) -> list[Row]:
    """Return drawn values of which the two parsers do not read the same, those of a seed at once.

    seeds: as many for each of the session's tasks.
    """
    given = [value for seed in seeds for value in alike(seed, count)]
    before = spark.conf.get(AT_ONCE)
    spark.conf.set(AT_ONCE, str(count))
    try:
        return different(spark, schema, given)
    finally:
        spark.conf.set(AT_ONCE, str(before))


@pytest.mark.parametrize("schema", ["flat", "odd", "required"])
@pytest.mark.draws(
    ["seeds", "count"], short=[(range(40), 200)], long=[(range(n, n + 100), 500) for n in (0, 100)]
)
def test_values_that_are_alike_are_read_as_spark_reads_them(
    spark: SparkSession, schema: str, seeds: range, count: int
) -> None:
    assert differing(spark, SCHEMAS[schema], seeds, count) == []


def test_most_of_the_drawn_values_are_read_by_a_template() -> None:
    fields = fields_of(schema_of(SCHEMAS["flat"]))
    assert fields is not None
    drawn = [read_alike(pa.array(alike(seed, 200), pa.binary()), fields) for seed in range(40)]
    assert sum(found is not None for found in drawn) >= 15


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_a_value_that_is_not_alike_is_left_and_the_others_are_read(left: bytes | None) -> None:
    reader = arrow_json(schema_of(SCHEMA))
    assert reader is not None
    given = pa.array([*[GOOD] * 20, left, *[GOOD] * 20], pa.binary())
    for block, at in ((given, 20), (given[7:], 13)):
        found = read_alike(block, reader.fields)
        assert found is not None
        records, rows = found
        assert [n for n, alike in enumerate(rows) if not alike] == [at]
        assert records.to_pylist() == reader.read(pa.array([GOOD], pa.binary())).to_pylist() * (
            len(block) - 1
        )
        # All are put together in their order.
        assert reader.read(block).is_valid().to_pylist().count(False) <= 1
        assert reader.read(block)[at + 1].is_valid


@pytest.mark.parametrize(("part", "odd"), ODD.values(), ids=ODD)
def test_a_value_that_has_to_be_looked_at_by_itself_leaves_all_to_the_parser(
    part: bytes, odd: bytes
) -> None:
    reader = arrow_json(schema_of(SCHEMA))
    assert reader is not None
    given = pa.array([*[GOOD] * 20, GOOD.replace(part, odd)], pa.binary())
    assert read_alike(given[:20], reader.fields) is not None
    assert read_alike(given, reader.fields) is None


def test_texts_of_all_alphabets_are_read() -> None:
    reader = arrow_json(schema_of(SCHEMA))
    assert reader is not None
    texts = ["é", "漢字", "😀", "\x7f", "\x80"]
    given = [GOOD.replace(b"x", text.encode()) for text in texts]
    found = read_alike(pa.array(given, pa.binary()), reader.fields)
    assert found is not None
    assert found[0].field("s").to_pylist() == [text + "}{" for text in texts]


def test_values_of_several_templates_are_each_read_by_their_own() -> None:
    reader = arrow_json(schema_of("s STRING, i INT"))
    assert reader is not None
    kinds = [b'{"s":"a","i":1}', b'{"s":null,"i":2}', b'{"i":3}', b'{"s":"b","i":null}']
    given = [kinds[n % 4] for n in range(400)]
    read = reader.read(pa.array(given, pa.binary())).to_pylist()
    wanted = [("a", 1), (None, 2), (None, 3), ("b", None)] * 100
    assert [(each["s"], each["i"]) for each in read] == wanted


def test_where_few_are_alike_none_is_read_by_the_template() -> None:
    reader = arrow_json(schema_of("i INT"))
    assert reader is not None
    given = [b'{"i":1}', *(f'{{"i":[{n}]}}'.encode() for n in range(9))]
    assert read_alike(pa.array(given, pa.binary()), reader.fields) is None


def test_a_template_is_what_stands_between_the_values() -> None:
    found = template_of(b'{ "a": "x", "n":null,"b" :-1.5 , "c":true}')
    assert found is not None
    assert found.texts == (b'{ "a": "', b'", "n":null,"b" :', b' , "c":', b"}")
    assert found.slots == (Slot("a", True), Slot("b", False), Slot("c", False))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"a":1',
        b'{"a":1,}',
        b'{"a":1}}',
        b'{"a":1,"a":2}',
        b'{"a":1 "b":2}',
        b'{"a":{}}',
        b'{"a":null}',
        b'{"a":"x}',
        b'{"a":"\\n"}',
        b'{"a":\t1}',
        b'{"":1}',
        b"{a:1}",
    ],
)
def test_what_has_no_template(value: bytes) -> None:
    assert template_of(value) is None
