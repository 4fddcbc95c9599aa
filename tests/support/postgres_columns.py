"""A column of each PostgreSQL type: random values, and how a table stores what Debezium writes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

SETUP = (
    "CREATE EXTENSION IF NOT EXISTS hstore",
    "CREATE TYPE mood AS ENUM ('calm', 'très gai', 'it''s over')",
)
"""The statements that create the types of the columns."""
_TEXTS = ("", "a", "Łódź", "it's", 'say "hi"', "tab\tand\nline", "\\x00", "🌊 tide", " space ")
_LARGE_BYTES = 3_000


@dataclass(frozen=True)
class SourceColumn:
    """A column of the source.

    name, type: in the source. stored: the type in the Delta table.
    draw: returns a random value as an SQL literal.
    expected: the SQL expression of the stored value; {0} is the column.
    draw_large: returns a value that PostgreSQL stores apart; it does not log one that an update
        leaves as it is. None for a type without such values.
    """

    name: str
    type: str
    stored: str
    draw: Callable[[Random], str]
    expected: str = "{0}"
    draw_large: Callable[[Random], str] | None = None

    def random_value(self, random: Random) -> str:
        """Return a random value as an SQL literal, sometimes a large one."""
        is_large = self.draw_large is not None and random.random() < 0.3
        return (self.draw_large if is_large and self.draw_large else self.draw)(random)


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _integer(low: int, high: int) -> Callable[[Random], str]:
    return lambda random: str(random.choice((low, high, 0, random.randint(low, high))))


def _one_of(*values: object) -> Callable[[Random], str]:
    return lambda random: _text(random.choice(values))


def _array(elements: Iterable[str]) -> str:
    return _text("{" + ",".join(elements) + "}")


def _hex(random: Random) -> str:
    return random.randbytes(_LARGE_BYTES).hex()


def _number(digits: int, scale: int) -> str:
    return str(Decimal(digits).scaleb(-scale))


def _moment(random: Random, step: timedelta) -> datetime:
    """Return a time before, in or after the years that 64-bit nanoseconds can represent."""
    start = random.choice((datetime(2, 1, 1), datetime(1500, 2, 28), datetime(2026, 3, 1)))
    return start + random.randint(0, 10**7) * step


_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)
_MICROS = "(extract(epoch FROM {0}) * 1000000)::bigint"
# Debezium counts 30.4375 days to a month.
_INTERVAL_MICROS = (
    "((((extract(year FROM {0}) * 12 + extract(month FROM {0})) * 30.4375 + extract(day FROM {0}))"
    " * 24 + extract(hour FROM {0})) * 3600 + extract(minute FROM {0}) * 60"
    " + extract(second FROM {0})) * 1000000"
)

COLUMNS = (
    SourceColumn("any_number", "numeric", "DECIMAL(38, 9)",
                 lambda random: _number(random.randint(-(10**15), 10**15), random.randint(0, 9))),
    SourceColumn("amount", "numeric(12, 2)", "DECIMAL(12, 2)",
                 lambda random: _number(random.randint(-(10**12) + 1, 10**12 - 1), 2)),
    SourceColumn("price", "money", "DECIMAL(19, 2)",
                 lambda random: _text(_number(random.randint(-(10**9), 10**9), 2)), "{0}::numeric"),
    SourceColumn("small", "smallint", "SMALLINT", _integer(-(2**15), 2**15 - 1)),
    SourceColumn("medium", "integer", "INT", _integer(-(2**31), 2**31 - 1)),
    SourceColumn("large", "bigint", "BIGINT", _integer(-(2**63), 2**63 - 1)),
    SourceColumn("ratio", "real", "FLOAT",
                 _one_of("1.1", "-3e38", "1e-37", "0.3", "NaN", "Infinity", "-Infinity"),
                 "{0}::float8"),
    SourceColumn("exact", "double precision", "DOUBLE",
                 lambda random: _text(random.choice(
                     (random.uniform(-1e9, 1e9), 5e-324, "NaN", "Infinity", "-Infinity")))),
    SourceColumn("flag", "boolean", "BOOLEAN", _one_of("true", "false")),
    SourceColumn("code", "char(6)", "STRING", _one_of("", "ab", "ü", "sixsix"),
                 "rpad({0}::text, 6)"),
    SourceColumn("title", "varchar(40)", "STRING", _one_of(*_TEXTS)),
    SourceColumn("body", "text", "STRING", _one_of(*_TEXTS),
                 draw_large=lambda random: _text(_hex(random))),
    SourceColumn("content", "bytea", "BINARY", _one_of("\\x", "\\x00ff"),
                 draw_large=lambda random: _text("\\x" + _hex(random))),
    SourceColumn("day", "date", "DATE",
                 lambda random: _text(date.fromordinal(random.randint(1, date.max.toordinal())))),
    SourceColumn("clock", "time", "BIGINT",
                 lambda random: _text(_moment(random, _MICROSECOND).time()), _MICROS),
    SourceColumn("short_clock", "time(3)", "INT",
                 lambda random: _text(_moment(random, _MILLISECOND).time()),
                 "(extract(epoch FROM {0}) * 1000)::bigint"),
    SourceColumn("zoned_clock", "timetz", "STRING",
                 _one_of("10:00:00.123456+05:30", "23:59:59.000001-08", "00:00:00.120003Z"),
                 "to_char(({0} AT TIME ZONE 'UTC')::time, 'HH24:MI:SS.US') || 'Z'"),
    SourceColumn("moment", "timestamp", "TIMESTAMP_NTZ",
                 lambda random: _text(_moment(random, _MICROSECOND))),
    SourceColumn("short_moment", "timestamp(3)", "TIMESTAMP_NTZ",
                 lambda random: _text(_moment(random, _MILLISECOND))),
    SourceColumn("instant", "timestamptz", "TIMESTAMP",
                 lambda random: _text(f"{_moment(random, _MICROSECOND)}+05:30")),
    SourceColumn("span", "interval", "BIGINT",
                 _one_of("1 year 2 mons 3 days 04:05:06.5", "-3 days", "250 ms", "0"),
                 f"({_INTERVAL_MICROS})::bigint"),
    SourceColumn("document", "json", "STRING", _one_of('{"a":  [1, 2.50, null]}', "[]", '"é"'),
                 "{0}::text"),
    SourceColumn("binary_document", "jsonb", "STRING",
                 lambda random: _text(json.dumps({"b": random.random(), "a": ["ü", None]})),
                 "{0}::text", lambda random: _text(json.dumps({"b": _hex(random)}))),
    SourceColumn("identifier", "uuid", "STRING",
                 lambda random: _text(uuid.UUID(int=random.getrandbits(128))), "{0}::text"),
    SourceColumn("host", "inet", "STRING", _one_of("10.0.0.1", "10.1.0.0/16", "2001:db8::1"),
                 "abbrev({0})"),
    SourceColumn("network", "cidr", "STRING", _one_of("10.0.0.0/8", "::/0"), "{0}::text"),
    SourceColumn("feeling", "mood", "STRING", _one_of("calm", "très gai", "it's over"),
                 "{0}::text"),
    SourceColumn("numbers", "integer[]", "ARRAY<INT>", _one_of("{}", "{1,NULL,-3}", "{7}"),
                 draw_large=lambda random: _array(map(str, random.randbytes(4_000)))),
    SourceColumn("words", "text[]", "ARRAY<STRING>", _one_of("{}", '{"a b",NULL,"é"}', '{""}'),
                 draw_large=lambda random: _array([_hex(random), "é"])),
    SourceColumn("amounts", "numeric(8, 3)[]", "ARRAY<DECIMAL(8, 3)>", _one_of("{1.5,-2.125}")),
    SourceColumn("days", "date[]", "ARRAY<DATE>", _one_of("{1500-01-01,2026-03-01}", "{}")),
    SourceColumn("identifiers", "uuid[]", "ARRAY<STRING>", _one_of(f"{{{uuid.UUID(int=7)}}}"),
                 "{0}::text[]"),
    SourceColumn("place", "point", "STRUCT<x: DOUBLE, y: DOUBLE>", _one_of("(1.5,-2)", "(0,1e9)"),
                 "CASE WHEN {0} IS NOT NULL THEN ARRAY[({0})[0], ({0})[1]] END"),
    SourceColumn("bit_flag", "bit", "BOOLEAN", _one_of("0", "1"), "{0}::int = 1"),
    SourceColumn("bits", "bit(10)", "BINARY",
                 lambda random: _text(f"{random.randrange(1024):010b}"),
                 "rtrim(set_byte(set_byte('\\x0000', 0, {0}::int & 255), 1, {0}::int >> 8),"
                 " '\\x00')"),
    SourceColumn("pairs", "hstore", "STRING", _one_of('"a"=>"1"', '"é"=>"x y"', ""),
                 "replace(hstore_to_json({0})::text, ': ', ':')"),
    SourceColumn("range", "int4range", "STRING", _one_of("[1,5)", "empty", "(,3)"), "{0}::text"),
)  # fmt: skip


def definitions(columns: Iterable[SourceColumn] = COLUMNS) -> str:
    """Return the definitions of the columns in the source."""
    return ", ".join(f'"{column.name}" {column.type}' for column in columns)


def stored_schema(columns: Iterable[SourceColumn] = COLUMNS) -> str:
    """Return the definitions of the columns in the Delta table."""
    return ", ".join(f"`{column.name}` {column.stored}" for column in columns)


def random_values(random: Random, columns: Iterable[SourceColumn] = COLUMNS) -> dict[str, str]:
    """Return an SQL literal for each column, an eighth of them NULL."""
    return {
        column.name: "NULL" if random.random() < 0.125 else column.random_value(random)
        for column in columns
    }


def expected_values(columns: Iterable[SourceColumn] = COLUMNS) -> str:
    """Return the SQL expressions of the stored values."""
    return ", ".join(column.expected.format(f'"{column.name}"') for column in columns)


def comparable(row: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of a row, equal for equal values whatever reader has read them."""
    values = row.values() if isinstance(row, Mapping) else row
    return tuple(map(_comparable, values))


def _comparable(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Mapping | list):
        return comparable(value)
    return value
