"""The fast path for JSON: Arrow's parser on blocks of values.

It reads a value only if `from_json` reads the same record, and leaves the other values to it.
Arrow's parser rejects nearly everything that `from_json` rejects, and more; what it accepts beyond
is checked before and after. A batch with a rejected value is read again in small blocks. Errors
name the value, so that a block is parsed again without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
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

from .._arrow.arrow_types import to_arrow_type

Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_BYTES = 50_000
"""The largest value that Arrow reads: Spark's parser rejects names above this length."""
_SAFE_BYTES = 900
"""Values up to this size cannot have 1,000 levels or a number of 1,000 digits."""
_BLOCK_SIZE = 256
"""The number of values that are parsed together, after the parser rejected a value of a batch."""
_MAX_ATTEMPTS = 12
"""How often a block is parsed before its values are left to Spark."""
_MAX_FAILED_BLOCKS = 4
"""The number of such blocks after which the rest of the batch is left to Spark."""
_REJECTED_ROW = re.compile(r"in row (\d+)$")
_REJECTED_TEXT = re.compile(r"couldn't parse:(.+)|Failed to convert .+: (\S+) requires")

_SAME_IN_BOTH_PARSERS = (
    StringType(),
    BooleanType(),
    ByteType(),
    ShortType(),
    IntegerType(),
    LongType(),
    DoubleType(),
    FloatType(),
)
"""Types that both parsers read identically, except for values that `odd_numbers` finds."""
_DATE_PATTERN = r"^\d{4}-\d\d-\d\d$"
_ZONE_PATTERN = r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
_TIMESTAMP_PATTERN = rf"^\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{{1,6}})?{_ZONE_PATTERN}?$"
_DATE_BOUNDS = (date.min, date.max)
_TIMESTAMP_BOUNDS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True)
class JsonField:
    """A field of the record.

    parsed_type: the type that the parser reads.
    convert: returns a column in `output_type`, and a mask of values that Spark reads differently.
    """

    name: str
    required: bool
    parsed_type: pa.DataType
    output_type: pa.DataType
    convert: Callable[[Any], tuple[Any, Mask]]


def arrow_json_reader(schema: StructType) -> ArrowJsonReader | None:
    """Return the reader of a schema; None if Arrow reads one of its types differently.

    These are maps, TIMESTAMP_NTZ, and dates, timestamps and NOT NULL inside nested types.
    """
    fields = []
    for field in schema.fields:
        shared_type = shared_arrow_type(field.dataType)
        conversion = _TEXT_TYPES.get(field.dataType, (shared_type, shared_type, with_odd_numbers))
        if conversion[0] is None:
            return None
        fields.append(JsonField(field.name, not field.nullable, *conversion))
    return ArrowJsonReader(tuple(fields))


def shared_arrow_type(data_type: DataType) -> pa.DataType | None:
    """Return the Arrow type that is read as Spark reads it, or None."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, ArrayType):
        element = shared_arrow_type(data_type.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(data_type, StructType):
        inner = [(field.name, shared_arrow_type(field.dataType)) for field in data_type.fields]
        is_required = not all(field.nullable for field in data_type.fields)
        is_unshared = not inner or any(field_type is None for _, field_type in inner)
        return None if is_required or is_unshared else pa.struct(inner)
    return to_arrow_type(data_type) if data_type in _SAME_IN_BOTH_PARSERS else None


@dataclass(frozen=True)
class ArrowJsonReader:
    """Reads JSON objects with the fields of a schema; see `arrow_json_reader`."""

    fields: tuple[JsonField, ...]

    def read(self, values: pa.Array) -> pa.Array:
        """Return the values as structs; null for the values that Spark must read."""
        if pa.types.is_large_binary(values.type):
            values = values.cast(pa.binary())
        is_readable = _is_readable(values)
        readable = values
        if not is_readable.all():
            # A row for each value, so that the columns need not be copied again.
            readable = pc.if_else(pa.array(is_readable), values, pa.scalar(b"{}", pa.binary()))
        return self._to_records(*self._parse_values(readable), ~is_readable)

    def _parse_values(self, values: Any) -> tuple[pa.Table, Mask]:
        """Return a row for each value, and a mask of the values that are left to Spark."""
        lines = _Lines(values)
        try:
            return self._parse(lines, 0, len(values)), lines.rejected
        except pa.ArrowException:
            failed_blocks = 0
        tables = []
        for start in range(0, len(values), _BLOCK_SIZE):
            stop = min(start + _BLOCK_SIZE, len(values))
            table = None
            if failed_blocks < _MAX_FAILED_BLOCKS:
                table = self._parse_accepted(lines, start, stop)
            if table is None:
                failed_blocks += 1
                lines.rejected[start:stop] = True
                table = self._schema.empty_table().take(pa.nulls(stop - start, pa.int64()))
            tables.append(table)
        return pa.concat_tables(tables), lines.rejected

    def _parse_accepted(self, lines: _Lines, start: int, stop: int) -> pa.Table | None:
        """Parse a block, with nulls for rejected values; None if these cannot be identified."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return self._parse(lines, start, stop)
            except pa.ArrowException as error:
                rejected = lines.find_rejected(str(error), start, stop)
            if rejected is None:
                break
            lines.reject(rejected)
        return None

    def _parse(self, lines: _Lines, start: int, stop: int) -> pa.Table:
        """Parse a block; raise ArrowException if the parser rejects a value."""
        if start == stop:
            return self._schema.empty_table()
        text = lines.block(start, stop)
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 64),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=self._schema, unexpected_field_behavior="ignore"
            ),
        )
        # Each value has at least one row, so that none has two.
        if table.num_rows != stop - start:
            raise pa.ArrowInvalid("two objects in a value")
        return table

    def _to_records(self, table: pa.Table, rejected: Mask, unreadable: Mask) -> Any:
        """Return the records; null for those that Spark's parser reads differently."""
        arrays = []
        differs = rejected | unreadable
        for field in self.fields:
            array, field_differs = field.convert(table.column(field.name).combine_chunks())
            differs = differs | field_differs
            if field.required and array.null_count:
                differs |= ~to_mask(array.is_valid())
            arrays.append(array)
        fields = [pa.field(field.name, field.output_type) for field in self.fields]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(differs))

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([(field.name, field.parsed_type) for field in self.fields])


class _Lines:
    """Values without line ends, as the lines of one text.

    rejected: a mask of the lines that are left to Spark.
    """

    def __init__(self, values: Any) -> None:
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")
        self._text: Any = joined[0].as_buffer()
        lengths = pc.binary_length(values).to_numpy().astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(lengths + 1)])
        self.rejected = np.zeros(len(values), bool)

    def block(self, start: int, stop: int) -> memoryview:
        return memoryview(self._text)[self._starts[start] : self._starts[stop] - 1]

    def find_rejected(self, message: str, start: int, stop: int) -> int | None:
        """Return the line of a block that an error of the parser is about, if it names one."""
        line = stop
        if row := _REJECTED_ROW.search(message):
            line = start + int(row[1])
        elif text := _REJECTED_TEXT.search(message):
            part = text[text.lastindex or 1].encode()
            position = self.block(start, stop).tobytes().find(part)
            if position >= 0:
                position += self._starts[start]
                line = int(np.searchsorted(self._starts, position, side="right")) - 1
        return line if line < stop and not self.rejected[line] else None

    def reject(self, line: int) -> None:
        """Replace a line by an empty object."""
        if not isinstance(self._text, bytearray):
            self._text = bytearray(self._text)
        self.rejected[line] = True
        span = slice(self._starts[line], self._starts[line + 1] - 1)
        self._text[span] = b"{}".ljust(span.stop - span.start)


def _is_readable(values: Any) -> Mask:
    """Return a mask of the values that Arrow's parser either rejects or reads as Spark does.

    They are in braces, in UTF-8, without line ends and without the numbers NaN and Inf, which the
    parser accepts even in fields outside the schema.
    """
    is_readable = to_mask(
        pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}")).fill_null(False)
    )
    data = _data_bytes(values)
    # A search for one byte costs a fiftieth of a search for three.
    if (
        b"\n" in data
        or b"\r" in data
        or (b"N" in data and b"NaN" in data)
        or (b"I" in data and b"Inf" in data)
    ):
        is_odd = pc.match_substring_regex(values, "[\n\r]|NaN|Inf").fill_null(True)
        is_readable &= ~to_mask(is_odd)
    if not data.isascii() and not _is_utf8(data):
        is_readable &= np.array([_is_utf8(value.as_py() or b"") for value in values], bool)
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is not None and longest > _SAFE_BYTES:
        levels = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
        is_long = pc.or_(
            pc.greater(pc.binary_length(values), MAX_BYTES),
            pc.or_(pc.greater(levels, _SAFE_BYTES), pc.match_substring_regex(values, "[0-9]{300}")),
        )
        is_readable &= ~to_mask(is_long.fill_null(True))
    return is_readable


def _data_bytes(values: Any) -> bytes:
    if not len(values):
        return b""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :]
    return bytes(memoryview(values.buffers()[2])[offsets[0] : offsets[len(values)]])


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def to_mask(flags: Any) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


def with_odd_numbers(column: Any) -> tuple[Any, Mask]:
    return column, odd_numbers(column)


def odd_numbers(column: Any) -> Mask:
    """Return a mask of numbers that Spark reads differently: out of range, and -0 as a double."""
    arrow_type = column.type
    odd = np.zeros(len(column), bool)
    if pa.types.is_floating(arrow_type):
        numbers = pc.fill_null(column, 1.0).to_numpy(zero_copy_only=False)
        odd = ~np.isfinite(numbers) | ((numbers == 0) & np.signbit(numbers))
    elif pa.types.is_decimal(arrow_type) and len(column) > column.null_count:
        limit = Decimal(10) ** (arrow_type.precision - arrow_type.scale)
        bounds = pc.min_max(column).as_py()
        if any(abs(number) >= limit for number in bounds.values()):
            numbers = column.to_pylist()
            odd = np.array([number is not None and abs(number) >= limit for number in numbers])
    elif pa.types.is_struct(arrow_type):
        for inner in column.flatten():
            odd |= odd_numbers(inner)
    elif pa.types.is_list(arrow_type):
        parents = pc.list_parent_indices(column).to_numpy()
        odd[parents[odd_numbers(column.flatten())]] = True
    return odd


def to_timestamps(texts: Any) -> tuple[Any, Mask]:
    fitting = _matching_texts(texts, _TIMESTAMP_PATTERN)
    # A time without an offset is UTC.
    has_zone = pc.match_substring_regex(fitting, f"{_ZONE_PATTERN}$")
    zoned_texts = pc.if_else(has_zone, fitting, pc.binary_join_element_wise(fitting, "Z", ""))
    timestamps = _cast_texts(zoned_texts, pa.timestamp("us", "UTC"))
    return timestamps, _is_lost(texts, timestamps, _TIMESTAMP_BOUNDS)


def to_dates(texts: Any) -> tuple[Any, Mask]:
    dates = _cast_texts(_matching_texts(texts, _DATE_PATTERN), pa.date32())
    return dates, _is_lost(texts, dates, _DATE_BOUNDS)


_TEXT_TYPES: dict[DataType, tuple[pa.DataType, pa.DataType, Callable[[Any], tuple[Any, Mask]]]] = {
    TimestampType(): (pa.string(), pa.timestamp("us", "UTC"), to_timestamps),
    DateType(): (pa.string(), pa.date32(), to_dates),
}
"""Types that are parsed as texts, so that their format can be checked before the cast."""


def _matching_texts(texts: Any, pattern: str) -> Any:
    """Return the texts, with null for those that do not match."""
    matches = pc.match_substring_regex(texts, pattern)
    all_match = pc.all(matches, min_count=0).as_py()
    return texts if all_match else pc.if_else(matches, texts, pa.scalar(None, texts.type))


def _cast_texts(texts: Any, arrow_type: pa.DataType) -> Any:
    """Return the texts in another type, with null for dates and times that do not exist."""
    try:
        return pc.cast(texts, arrow_type)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, arrow_type)
    half = len(texts) // 2
    return pa.concat_arrays(
        [_cast_texts(part, arrow_type) for part in (texts[:half], texts[half:])]
    )


def _is_lost(texts: Any, values: Any, bounds: tuple[Any, Any]) -> Mask:
    """Return a mask of the texts that have no value within bounds."""
    first, last = (pa.scalar(bound, values.type) for bound in bounds)
    in_bounds = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
    return to_mask(texts.is_valid()) & ~to_mask(in_bounds.fill_null(False))
