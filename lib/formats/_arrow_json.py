"""JSON values read by Arrow's parser, a block at a time.

Arrow's parser refuses nearly everything that `from_json` refuses, and more. Where it takes more,
the block is looked through before and after, so that a value which is read here is read as
`from_json` reads it. A block in which a value does not pass is divided and read again, until that
value stands alone or among a few: these are left for `from_json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

_FEW = 128
"""A block that does not pass and is no longer than this is not divided."""
_MOST_FAILURES = 10
"""After so many blocks that did not pass, the rest of an Arrow batch is not tried: a call of the
parser costs as much as some hundred values."""
_ROW = re.compile(r"in row (\d+)$")
_LONG = 900
"""Bytes of a value within which neither 1,000 levels nor a number of 1,000 digits find room."""
_LONGEST = 50_000
"""Bytes of a value within which no name is longer than Spark's parser takes."""
_PLAIN: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    BooleanType(): pa.bool_(),
    ByteType(): pa.int8(),
    ShortType(): pa.int16(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    DoubleType(): pa.float64(),
    FloatType(): pa.float32(),
}
_DAY = r"^\d{4}-\d\d-\d\d$"
_ZONE = r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
_INSTANT = rf"^\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{{1,6}})?{_ZONE}?$"
_DAYS = (date.min, date.max)
_INSTANTS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class _NotPassedError(Exception):
    """A block holds a value that is left for `from_json`."""


@dataclass(frozen=True)
class _Block:
    """Values that are read at once, or are left."""

    values: Any
    left: bool = False

    def divided(self, error: Exception) -> list[_Block]:
        """Return the parts in which a block that does not pass is tried again.

        The parser often names the row that it refused.
        """
        count = len(self.values)
        named = _ROW.search(str(error))
        if named is not None and int(named[1]) < count:
            at = int(named[1])
            before = _Block(self.values.slice(0, at))
            refused = _Block(self.values.slice(at, 1), left=True)
            return [before, refused, _Block(self.values.slice(at + 1))]
        if count <= _FEW:
            return [_Block(self.values, left=True)]
        half = count // 2
        return [_Block(self.values.slice(0, half)), _Block(self.values.slice(half))]


@dataclass(frozen=True)
class _Field:
    """One field of the record: the type that the parser reads, and what is made of it."""

    name: str
    parsed: pa.DataType
    required: bool
    made: pa.DataType
    finish: Callable[[Any], Any]


@dataclass(frozen=True)
class ArrowJson:
    """Reads JSON objects of a schema; made by `arrow_json`."""

    fields: tuple[_Field, ...]

    def read(self, values: Any) -> Any:
        """Return the records of an array of bytes as structs; null where a value is left."""
        found = []
        failures = 0
        ahead = [_Block(values)]
        while ahead:
            block = ahead.pop()
            if block.left or failures >= _MOST_FAILURES:
                found.append(pa.nulls(len(block.values), self._type()))
                continue
            try:
                found.append(self._parsed(block.values))
            except (_NotPassedError, pa.ArrowException) as error:
                failures += 1
                ahead += reversed(block.divided(error))
        return pa.concat_arrays(found)

    def _parsed(self, block: Any) -> Any:
        if not len(block):
            return pa.nulls(0, self._type())
        text = _joined(block)
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 64),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(each.name, each.parsed) for each in self.fields]),
                unexpected_field_behavior="ignore",
            ),
        )
        # Each value gave at least one row, so that none gave two.
        _require(table.num_rows == len(block))
        made = [_finished(each, table.column(each.name)) for each in self.fields]
        return pa.StructArray.from_arrays(made, fields=list(self._type()))

    def _type(self) -> pa.DataType:
        return pa.struct([pa.field(each.name, each.made) for each in self.fields])


def arrow_json(schema: StructType) -> ArrowJson | None:
    """Return the reader of a schema; None for one with a type that Arrow reads differently.

    Such are maps, times without a zone, and dates, times and NOT NULL inside other types.
    """
    fields = []
    for field in schema.fields:
        kind = field.dataType
        known = _TEXTS.get(kind)
        if known is not None:
            made, finish = known
            fields.append(_Field(field.name, pa.string(), not field.nullable, made, finish))
            continue
        parsed = _arrow_type(kind)
        if parsed is None:
            return None
        fields.append(_Field(field.name, parsed, not field.nullable, parsed, _itself))
    return ArrowJson(tuple(fields)) if fields else None


def _arrow_type(kind: DataType) -> pa.DataType | None:
    """Return the type that is read as Spark reads it; None where there is none."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        element = _arrow_type(kind.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(kind, StructType):
        inner = [(field, _arrow_type(field.dataType)) for field in kind.fields]
        if not inner or any(found is None or not field.nullable for field, found in inner):
            return None
        return pa.struct([(field.name, found) for field, found in inner])
    return _PLAIN.get(kind)


def _joined(block: Any) -> bytes:
    """Return the values with a line end after each, and refuse those that hide more than one."""
    _require(block.null_count == 0)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(block)], block), b"\n")
    text: bytes = joined[0].as_py()
    between = len(block) - 1
    _require(text.startswith(b"{") and text.endswith(b"}"))
    _require(text.count(b"\n") == between and text.count(b"}\n{") == between)
    _require(b"\r" not in text)
    # The parser takes these as numbers, in fields that nobody asked for as well.
    _require(b"NaN" not in text and b"Inf" not in text)
    if not text.isascii():
        _require_utf8(text)
    longest = pc.max(pc.binary_length(block)).as_py()
    if longest > _LONG:
        _require(longest <= _LONGEST)
        levels = pc.add(pc.count_substring(block, "{"), pc.count_substring(block, "["))
        _require(pc.max(levels).as_py() <= _LONG)
        _require(not pc.any(pc.match_substring_regex(block, "[0-9]{300}")).as_py())
    return text


def _require_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise _NotPassedError from error


def _finished(field: _Field, column: Any) -> Any:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks)
    _require(not (field.required and found.null_count))
    _require_equal(found)
    return field.finish(found)


def _require_equal(found: Any) -> None:
    """Refuse numbers that Spark's parser reads as others: beyond the type, and -0 for a double."""
    kind = found.type
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(found, 1.0).to_numpy(zero_copy_only=False)
        _require(bool(np.isfinite(numbers).all()))
        _require(not np.signbit(numbers[numbers == 0]).any())
    elif pa.types.is_decimal(kind) and len(found) > found.null_count:
        beyond = Decimal(10) ** (kind.precision - kind.scale)
        least_and_most = pc.min_max(found).as_py()
        _require(all(abs(number) < beyond for number in least_and_most.values()))
    elif pa.types.is_struct(kind):
        for inner in found.flatten():
            _require_equal(inner)
    elif pa.types.is_list(kind):
        _require_equal(found.flatten())


def _itself(found: Any) -> Any:
    return found


def _instants(texts: Any) -> Any:
    _require_all(texts, _INSTANT)
    # Without an offset a time is one of UTC.
    zoned = pc.match_substring_regex(texts, f"{_ZONE}$")
    whole = pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))
    made = pc.cast(whole, pa.timestamp("us", "UTC"))
    _require_within(made, _INSTANTS)
    return made


def _days(texts: Any) -> Any:
    _require_all(texts, _DAY)
    made = pc.cast(texts, pa.date32())
    _require_within(made, _DAYS)
    return made


_TEXTS: dict[DataType, tuple[pa.DataType, Callable[[Any], Any]]] = {
    TimestampType(): (pa.timestamp("us", "UTC"), _instants),
    DateType(): (pa.date32(), _days),
}
"""Types whose values are read as texts first, so that their form can be looked at."""


def _require_all(texts: Any, pattern: str) -> None:
    _require(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _require_within(made: Any, bounds: tuple[Any, Any]) -> None:
    first, last = (pa.scalar(bound, made.type) for bound in bounds)
    within = pc.and_(pc.greater_equal(made, first), pc.less_equal(made, last))
    _require(pc.all(within, min_count=0).as_py())


def _require(passed: bool) -> None:
    if not passed:
        raise _NotPassedError
