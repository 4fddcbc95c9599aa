"""Kafka Connect's logical types, which records carry: their encodings and special values.

Kafka Connect and Debezium name the logical type of a field, in JSON as `name` in the schema part,
in Avro as the attribute `connect.name`; in Protobuf, some are messages. A kind says how the values
of such a type are encoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType

from ._arrow.cursors import wrong_type_fault
from .json._arrow_reader import to_dates, to_timestamps

DAYS = "days"
VARIABLE_DECIMAL = "variable_decimal"
PLAIN = "plain"
"""The kind of a text or number whose value is its own encoding."""
BYTES = "bytes"
DECIMAL = "decimal:"
"""The beginning of the kind of a decimal; its scale follows."""
DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
MICRO_TIMESTAMP_NAME = "io.debezium.time.MicroTimestamp"
ZONED_TIMESTAMP_NAME = "io.debezium.time.ZonedTimestamp"
CONNECT_TIME_NAME = "org.apache.kafka.connect.data.Time"
CONNECT_TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
VARIABLE_DECIMAL_NAME = "io.debezium.data.VariableScaleDecimal"
_KINDS = {
    DATE_NAME: DAYS,
    CONNECT_TIMESTAMP_NAME: "milliseconds",
    "io.debezium.time.Date": DAYS,
    "io.debezium.time.Timestamp": "milliseconds",
    MICRO_TIMESTAMP_NAME: "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
    "io.debezium.time.IsoDate": PLAIN,
    "io.debezium.time.IsoTimestamp": PLAIN,
    ZONED_TIMESTAMP_NAME: PLAIN,
    VARIABLE_DECIMAL_NAME: VARIABLE_DECIMAL,
}
"""The kinds of the types that dates, times and decimals are decoded from, by their names."""

NANOS_PER_UNIT = {"milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, since 1970."""
MICROS_PER_DAY = 86_400_000_000
FIRST_MICROS, LAST_MICROS = FIRST_DAY * MICROS_PER_DAY, (LAST_DAY + 1) * MICROS_PER_DAY - 1
_INFINITE_TIMES = {
    ("milliseconds", 9_223_372_036_825_200): "infinity",
    ("milliseconds", -9_223_372_036_832_400): "-infinity",
    ("microseconds", 9_223_372_036_825_200_000): "infinity",
    ("microseconds", -9_223_372_036_832_400_000): "-infinity",
    ("nanoseconds", 2**63 - 1): "infinity",
    ("nanoseconds", -(2**63)): "-infinity",
}
"""The numbers that Debezium sends for the infinite times of PostgreSQL."""
_INFINITE_TEXTS = {
    "infinity": "infinity",
    "-infinity": "-infinity",
    "+294247-01-10T04:00:25.2Z": "infinity",
    "-290308-12-21T19:59:27.6Z": "-infinity",
}
"""The texts that Debezium sends for them: of times with a zone, and with
time.precision.mode=isostring of those without one."""
NON_FINITE = {
    "NaN": "nan",
    "NAN": "nan",
    "Infinity": "inf",
    "POSITIVE_INFINITY": "inf",
    "-Infinity": "-inf",
    "NEGATIVE_INFINITY": "-inf",
}
"""The texts of numbers that are not finite: of JSON, and of decimal.handling.mode=string."""

EXACT = Context(prec=100)
"""A decimal context that rounds no number of a DECIMAL column."""
_SHORT_NUMBER = r"^[+-]?[0-9]{1,38}(\.[0-9]{1,38})?$"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)Z?")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(Z|[+-](?:0\d|1[0-8]):?[0-5]\d)?"
)
_OTHER_YEAR = re.compile(r"([+-]\d{4,10}|0000)-\d\d-\d\d([T ].*)?Z?")
"""An ISO 8601 date or timestamp whose year is not one of 1 to 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def kind_of(name: Any, parameters: Any = None) -> str | None:
    """Return the kind of a logical type by its name; None for a name without special values."""
    if name == DECIMAL_NAME:
        scale = parameters.get("scale") if isinstance(parameters, Mapping) else None
        return f"{DECIMAL}{scale}"
    return _KINDS.get(str(name))


def infinite_time(number: int, unit: str | None) -> str | None:
    """Return "infinity" or "-infinity" for a number in a unit that stands for it, else None."""
    return _INFINITE_TIMES.get((str(unit), number))


def not_finite_fault(path: str, text: str) -> str:
    """Return the fault of a number or time that is not finite, in a column that cannot store it."""
    return f"not finite: {path} = {text}"


def out_of_range_fault(path: str, value: Any) -> str:
    """Return the fault of a number or time that its column cannot store."""
    return f"out of range: {path} = {value}"


def time_text_fault(path: str, text: str) -> str:
    """Return the fault of a text that is not a date or timestamp of the years 1 to 9999."""
    if text in _INFINITE_TEXTS:
        return not_finite_fault(path, _INFINITE_TEXTS[text])
    is_time = _OTHER_YEAR.fullmatch(text) is not None
    return out_of_range_fault(path, text[:40]) if is_time else wrong_type_fault(path)


def parse_number(text: str) -> Decimal | None:
    """Return the decimal number of a text; None if it is not one."""
    return Decimal(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else None


def fit_decimal(number: Decimal, output: DecimalType | pa.Decimal128Type) -> Decimal | None:
    """Return a number with the scale of a decimal type; None if it has more digits."""
    try:
        with localcontext(EXACT):
            fitting = number.quantize(Decimal(1).scaleb(-output.scale))
    except InvalidOperation:
        return None
    is_small = abs(fitting) < Decimal(10) ** (output.precision - output.scale)
    return fitting if is_small and fitting == number else None


def parse_date(text: str) -> int | None:
    """Return the days since 1970 of an ISO 8601 date; None if it is not one."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return (date.fromisoformat(match[1]) - _EPOCH.date()).days
    except ValueError:
        return None


def parse_timestamp(text: str) -> int | None:
    """Return the microseconds since 1970 of an ISO 8601 timestamp; None if it is not one."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    zoned = f"{day}T{time}.{(fraction or '').ljust(6, '0')}{zone or '+00:00'}"
    try:
        micros = (datetime.fromisoformat(zoned) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micros if FIRST_MICROS <= micros <= LAST_MICROS else None


def to_decimals(little_endian: Any, fits: Any, scale: int) -> Any:
    """Return the decimals of unscaled integers, with null for those that do not fit.

    little_endian: a row of sixteen bytes for each integer.
    """
    has_scale = abs(scale) <= 38
    return pa.Array.from_buffers(
        pa.decimal128(38, scale if has_scale else 0),
        len(fits),
        [
            pa.array(fits & has_scale).buffers()[1],
            pa.py_buffer(np.ascontiguousarray(little_endian)),
        ],
    )


def cast_numbers(numbers: Any, output: pa.DataType) -> Any:
    """Return decimals, or their texts, in another type, with null for those that do not fit."""
    if pa.types.is_floating(output):
        # The cast of a decimal to a double would not round to the nearest.
        doubles = _cast_fitting(numbers.cast(pa.string()), pa.float64())
        return doubles.cast(output, safe=False)
    values = _cast_fitting(numbers, output)
    if pa.types.is_string(output):
        # Arrow writes small decimals with an exponent.
        has_exponent = pc.match_substring(values, "E")
        values = pc.if_else(has_exponent, pa.scalar(None, output), values)
    return values


def parse_numbers(texts: Any, output: pa.DataType) -> Any:
    """Return decimal numbers in text in another type, with null for those that do not fit."""
    fits = pc.match_substring_regex(texts, _SHORT_NUMBER)
    return cast_numbers(pc.if_else(fits, texts, pa.scalar(None, pa.string())), output)


def parse_times(texts: Any, output: pa.DataType) -> Any:
    """Return ISO 8601 dates or timestamps in text in their type; null for others, and for some."""
    read = to_dates if pa.types.is_date(output) else to_timestamps
    values, is_lost = read(texts)
    values = pc.if_else(pa.array(~is_lost), values, pa.scalar(None, values.type))
    return values if values.type == output else values.cast(pa.int64()).view(output)


def _cast_fitting(values: Any, output: pa.DataType) -> Any:
    try:
        return values.cast(output)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, output)
    half = len(values) // 2
    return pa.concat_arrays(
        [_cast_fitting(values[:half], output), _cast_fitting(values[half:], output)]
    )


def bounded(numbers: Any, first: int, last: int, output: pa.DataType) -> Any:
    """Return integers in a type of the same width, with null for those out of bounds."""
    in_bounds = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    narrowed = pc.if_else(in_bounds, numbers, pa.scalar(None, numbers.type))
    narrow = pa.int32() if output == pa.date32() else pa.int64()
    return narrowed.cast(narrow).view(output)


def to_timestamps_of_unit(numbers: Any, unit: str, output: pa.DataType) -> Any:
    """Return the timestamps of numbers in a unit, with null for those that do not fit."""
    nanos = NANOS_PER_UNIT[unit]
    # In nanoseconds the least and the greatest number are infinite.
    first = FIRST_MICROS * 1_000 // nanos if nanos > 1 else -(2**63) + 1
    last = LAST_MICROS * 1_000 // nanos if nanos > 1 else 2**63 - 2
    fitting = bounded(numbers, first, last, pa.int64())
    counts = fitting.fill_null(0).to_numpy()
    micros = counts * (nanos // 1_000) if nanos >= 1_000 else counts // 1_000
    mask = fitting.is_null().to_numpy(zero_copy_only=False)
    return pa.array(micros, pa.int64(), mask=mask).view(output)
