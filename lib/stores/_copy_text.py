"""Rows as the text that PostgreSQL's COPY reads, made by Spark's expressions.

The format is that of PostgreSQL's documentation, "COPY", "Text Format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..columns import JSON_IN_UTC, quoted
from ..errors import ColumnTypeError
from ._within_json import has_odd_number, has_odd_text

UNFIT = "a value that PostgreSQL cannot hold"
_NULL = "\\N"
_ROWS = 5_000
_BYTES = 8 << 20
"""What comes to the driver as one text: so many rows, or fewer of rows that are large."""
_FIRST = -62_135_596_800_000_000
_LAST = 253_402_300_799_999_999
"""The years 1 to 9999 in UTC, in microseconds since 1970."""
_NOTHING = r"(?<!\\)(\\\\)*\\u0000"
"""The character U+0000 as JSON writes it, and not a backslash with the same digits behind it."""


def _as_text(value: Column) -> Column:
    return value.cast("string")


def _bytes(value: Column) -> Column:
    return F.concat(F.lit("\\x"), F.hex(value))


def _of_the_calendar(value: Column) -> Column:
    return _of_our_years(F.year(value).between(1, 9999), value.cast("string"))


def _of_our_years(ours: Column, text: Column) -> Column:
    """Return the text, and an error in the place of a year that both do not write alike."""
    return F.when(~ours, _unfit("a year outside 1 to 9999")).otherwise(text)


def _instant(value: Column) -> Column:
    # To JSON, and not to text, since that would be in the session's zone, as the year would.
    told = F.get_json_object(F.to_json(F.struct(value.alias("at")), JSON_IN_UTC), "$.at")
    return _of_our_years(F.unix_micros(value).between(_FIRST, _LAST), told)


def _text(value: Column) -> Column:
    odd = F.when(~F.is_valid_utf8(value), _unfit("text that is no UTF"))
    return odd.when(F.contains(value, F.lit("\0")), _unfit("the character U+0000")).otherwise(value)


def _json(value: Column, kind: DataType) -> Column:
    made = F.to_json(value, JSON_IN_UTC)
    checked = F.when(F.rlike(made, F.lit(_NOTHING)), _unfit("the character U+0000"))
    number = has_odd_number(value, kind)
    if number is not None:
        checked = checked.when(number, _unfit("NaN or an infinite number within JSON"))
    text = has_odd_text(value, kind)
    if text is not None:
        checked = checked.when(text, _unfit("text that is no UTF"))
    return checked.otherwise(made)


def _numbers(value: Column) -> Column:
    return F.concat(F.lit("{"), F.array_join(value.cast("array<string>"), ",", "NULL"), F.lit("}"))


def _unfit(what: str) -> Column:
    return F.raise_error(F.lit(f"{UNFIT}: {what}")).cast("string")


_PLAIN: dict[type[DataType], tuple[str, Callable[[Column], Column]]] = {
    BooleanType: ("boolean", _as_text),
    ByteType: ("smallint", _as_text),
    ShortType: ("smallint", _as_text),
    IntegerType: ("integer", _as_text),
    LongType: ("bigint", _as_text),
    FloatType: ("real", _as_text),
    DoubleType: ("double precision", _as_text),
    StringType: ("text", _text),
    BinaryType: ("bytea", _bytes),
    DateType: ("date", _of_the_calendar),
    TimestampType: ("timestamp with time zone", _instant),
    TimestampNTZType: ("timestamp without time zone", _of_the_calendar),
}
_NESTED = (StructType, MapType, ArrayType)


def type_of(name: str, kind: DataType) -> str:
    """Return PostgreSQL's type for a column, as `format_type` names it.

    Raises ColumnTypeError for a type that PostgreSQL has not.
    """
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if kind == ArrayType(LongType()) or kind == ArrayType(LongType(), containsNull=False):
        return "bigint[]"
    if isinstance(kind, _NESTED):
        return "jsonb"
    if type(kind) not in _PLAIN:
        raise ColumnTypeError(
            f"{name} is {kind.simpleString()}, for which PostgreSQL has no type.",
            "numbers, text, bytes, dates, times, booleans, and what JSON can hold.",
            f"cast it in the job's transform, or leave {name} out.",
        )
    return _PLAIN[type(kind)][0]


def _written(name: str, kind: DataType) -> Column:
    value = quoted(name)
    if type_of(name, kind) == "bigint[]":
        return _numbers(value)
    if isinstance(kind, DecimalType):
        return _as_text(value)
    if isinstance(kind, _NESTED):
        return _json(value, kind)
    return _PLAIN[type(kind)][1](value)


def _escaped(text: Column) -> Column:
    for character, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = F.replace(text, F.lit(character), F.lit(written))
    return F.coalesce(text, F.lit(_NULL))


@dataclass(frozen=True)
class Texts:
    """Rows as text, one line each, which Spark keeps until `close`."""

    lines: DataFrame

    @classmethod
    def of(cls, rows: DataFrame) -> Texts:
        """Return the rows as text, which is not made yet."""
        fields = [_escaped(_written(each.name, each.dataType)) for each in rows.schema]
        line = F.concat(F.concat_ws("\t", *fields), F.lit("\n"))
        return cls(rows.select(line.alias("line")).persist())

    def close(self) -> None:
        """Let go of the text."""
        self.lines.unpersist()

    def longest(self) -> int:
        """Make the text of all rows, and return how many bytes the longest line has."""
        found = self.lines.agg(F.max(F.octet_length("line")).alias("bytes")).head()
        return 0 if found is None else int(found["bytes"] or 0)

    def chunks(self, longest: int) -> Iterator[bytes]:
        """Yield the text in some thousand lines, or as many as a chunk's bytes allow.

        The driver has the chunks of one partition at a time.
        """
        number = max(1, min(_ROWS, _BYTES // max(1, longest)))
        place = F.floor(F.monotonically_increasing_id() / number)
        parts = self.lines.groupBy(place.alias("place")).agg(
            F.array_join(F.collect_list("line"), "").alias("text")
        )
        for row in parts.select("text").toLocalIterator():
            yield row["text"].encode()
