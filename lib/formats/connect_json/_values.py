"""Values in Connect's JSON, one by one: logical types, and the reasons of values without a type.

The kind of a value is how the schema part of its record says that it is encoded; None without one.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .._arrow.cursors import child_path, wrong_type_fault
from .._connect_types import (
    BYTES,
    DAYS,
    DECIMAL,
    EXACT,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    NANOS_PER_UNIT,
    NON_FINITE,
    PLAIN,
    VARIABLE_DECIMAL,
    fit_decimal,
    infinite_time,
    kind_of,
    not_finite_fault,
    out_of_range_fault,
    parse_date,
    parse_number,
    parse_timestamp,
    time_text_fault,
)

Decimals: TypeAlias = Literal["string", "precise", "double"]
Timestamps: TypeAlias = Literal["milliseconds", "microseconds", "nanoseconds"]

LOGICAL_TYPES = (
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
    BinaryType,
    FloatType,
    DoubleType,
)
"""The types of columns whose values have several encodings."""
_LARGEST_FLOAT = 3.4028234663852886e38

BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_BASE64 = re.compile(BASE64)
_LONG = LongType()


@dataclass(frozen=True)
class Encodings:
    """How values are encoded in records without a schema part; None if that is not known.

    placeholder: the text that stands for a value that was not sent.
    """

    plan_name: ClassVar[str] = "json_encodings"
    decimals: Decimals | None = None
    timestamps: Timestamps | None = None
    placeholder: str | None = None

    def placeholder_texts(self) -> tuple[str, ...]:
        """Return the placeholder as text and as base64 of its bytes."""
        if self.placeholder is None:
            return ()
        return self.placeholder, base64.b64encode(self.placeholder.encode()).decode()

    def is_placeholder(self, value: Any) -> bool:
        """Return whether a value, as JSON has it, stands for one that was not sent.

        That of an array is its only element; in an array of numbers each byte is an element.
        """
        if self.placeholder is None:
            return False
        if isinstance(value, list):
            numbers = [str(byte) for byte in self.placeholder.encode()]
            return value == numbers or (len(value) == 1 and self.is_placeholder(value[0]))
        if isinstance(value, dict):
            return list(value) == [self.placeholder]
        return not isinstance(value, JsonNumber) and value in self.placeholder_texts()


class JsonNumber(str):
    """A number, as JSON spells it."""


class UndecodableError(ValueError):
    """A value that is not of the type of its column; the text is the reason."""


def value_kinds(declaration: Any, data_type: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the kind of the values that a schema part declares."""
    if not isinstance(declaration, Mapping):
        return
    kind = _kind(declaration)
    if isinstance(data_type, LOGICAL_TYPES) or (
        isinstance(data_type, StringType) and is_decimal(kind)
    ):
        yield path, kind
    elif isinstance(data_type, ArrayType):
        yield from value_kinds(declaration.get("items"), data_type.elementType, path)
    elif isinstance(data_type, StructType):
        for name, field in declared_fields(declaration).items():
            if name in data_type.names:
                yield from value_kinds(field, data_type[name].dataType, child_path(path, name))


def declared_fields(declaration: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of a struct in a schema part, by name."""
    fields = declaration.get("fields")
    return {
        str(field.get("field")): field
        for field in (fields if isinstance(fields, list) else [])
        if isinstance(field, Mapping)
    }


def is_decimal(kind: str | None) -> bool:
    """Return whether values of a kind are the bytes of decimals."""
    return kind is not None and (kind == VARIABLE_DECIMAL or kind.startswith(DECIMAL))


def _kind(declaration: Mapping[str, Any]) -> str:
    plain = BYTES if declaration.get("type") == "bytes" else PLAIN
    return kind_of(declaration.get("name"), declaration.get("parameters")) or plain


@dataclass
class ValueReader:
    """Reads one record: a JSON value as Python objects of the declared types.

    kinds: the kinds of values by path; None without a schema part.
    unavailable: the paths of the values that are placeholders, which are read as None.
    """

    kinds: Mapping[str, str] | None
    encodings: Encodings
    unavailable: list[str]

    def read(self, value: Any, data_type: DataType, path: str = "", required: bool = False) -> Any:
        """Return a value; raise UndecodableError if it is not of its type."""
        if value is None:
            if required:
                raise UndecodableError(f"missing field: {path}")
            return None
        if self.encodings.is_placeholder(value):
            self.unavailable.append(path)
            return None
        if isinstance(data_type, StructType):
            return self._read_struct(value, data_type, path)
        if isinstance(data_type, ArrayType) and isinstance(value, list):
            return [self.read(element, data_type.elementType, path) for element in value]
        kind = None if self.kinds is None else self.kinds.get(path, PLAIN)
        found = self._read_scalar(value, data_type, kind, path)
        if found is None:
            raise UndecodableError(self._fault(value, data_type, kind, path))
        return found

    def _fault(self, value: Any, data_type: DataType, kind: str | None, path: str) -> str:
        """Return why a value is not of its type; numbers and times are named."""
        is_number = isinstance(value, JsonNumber)
        is_time = isinstance(data_type, DateType | TimestampType | TimestampNTZType)
        if isinstance(data_type, DecimalType | FloatType | DoubleType):
            if isinstance(value, str) and not is_number and value in NON_FINITE:
                return not_finite_fault(path, value)
            number = self._to_decimal(value, kind, data_type, path)
            if number is not None:
                is_spelled = is_number or (isinstance(value, str) and self._is_number_text(kind))
                return out_of_range_fault(path, value[:40] if is_spelled else _plain_text(number))
        elif is_time and is_number:
            unit = self.encodings.timestamps if kind is None else kind
            if isinstance(data_type, DateType):
                unit = DAYS if kind is None else kind
            count = _to_whole_number(value)
            infinite = None if count is None else infinite_time(count, unit)
            if infinite is not None:
                return not_finite_fault(path, infinite)
            units = (DAYS,) if isinstance(data_type, DateType) else tuple(NANOS_PER_UNIT)
            if count is not None and unit in units:
                return out_of_range_fault(path, value)
        elif is_time and isinstance(value, str):
            return time_text_fault(path, value)
        return wrong_type_fault(path)

    def _read_struct(self, value: Any, data_type: StructType, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise UndecodableError(wrong_type_fault(path))
        return {
            field.name: self.read(
                value.get(field.name),
                field.dataType,
                child_path(path, field.name),
                required=not field.nullable,
            )
            for field in data_type
        }

    def _read_scalar(self, value: Any, data_type: DataType, kind: str | None, path: str) -> Any:
        """Return a value; None if it is not of its type."""
        is_number = isinstance(value, JsonNumber)
        if isinstance(data_type, StringType):
            if is_decimal(kind):
                number = self._to_decimal(value, kind, data_type, path)
                return None if number is None else _plain_text(number)
            return _to_text(value, path)
        if isinstance(data_type, BooleanType):
            return value if isinstance(value, bool) else None
        if isinstance(data_type, IntegralType):
            return _to_integer(value, data_type) if is_number else None
        if isinstance(data_type, FloatType | DoubleType):
            return self._to_float(value, kind, data_type, path)
        if isinstance(data_type, DecimalType):
            number = self._to_decimal(value, kind, data_type, path)
            return None if number is None else fit_decimal(number, data_type)
        if isinstance(data_type, BinaryType):
            return None if is_number else _from_base64(value)
        if isinstance(data_type, DateType):
            return _to_date(value, kind)
        if isinstance(data_type, TimestampType | TimestampNTZType):
            return self._to_micros(value, kind, path)
        return None

    def _to_float(
        self, value: Any, kind: str | None, data_type: FloatType | DoubleType, path: str
    ) -> float | None:
        if isinstance(value, JsonNumber):
            number = float(value)
        elif isinstance(value, str) and value in NON_FINITE and kind in (None, PLAIN):
            # The number of a DOUBLE of the source, also where decimals are bytes.
            return float(NON_FINITE[value])
        else:
            decimal = self._to_decimal(value, kind, data_type, path)
            if decimal is None:
                return None
            number = float(decimal)
        largest = _LARGEST_FLOAT if isinstance(data_type, FloatType) else sys.float_info.max
        return number if abs(number) <= largest else None

    def _is_number_text(self, kind: str | None) -> bool:
        """Return whether a text is the decimal number itself, and not base64 of its bytes."""
        return kind == PLAIN or (kind is None and self.encodings.decimals != "precise")

    def _to_decimal(
        self, value: Any, kind: str | None, data_type: DataType, path: str
    ) -> Decimal | None:
        """Return the number of a value in any encoding; None if it is not one."""
        decimals = self.encodings.decimals
        if isinstance(value, dict) and kind in (None, VARIABLE_DECIMAL):
            return _from_unscaled(value.get("value"), value.get("scale"))
        if isinstance(value, JsonNumber):
            return None if kind is not None and kind != PLAIN else parse_number(value)
        if not isinstance(value, str):
            return None
        if kind is not None and kind.startswith(DECIMAL):
            return _from_unscaled(value, kind.removeprefix(DECIMAL))
        if kind is None and decimals == "precise":
            if not isinstance(data_type, DecimalType):
                raise UndecodableError(f"scale not known: {path}; declare a DECIMAL column")
            return _from_unscaled(value, data_type.scale)
        if value in NON_FINITE:
            return None
        if kind is None and decimals is None and _BASE64.fullmatch(value):
            raise UndecodableError(
                f"encoding not known: {path}; set decimals to 'precise' or 'string'"
            )
        is_number = kind == PLAIN or (kind is None and decimals != "double")
        return parse_number(value) if is_number else None

    def _to_micros(self, value: Any, kind: str | None, path: str) -> int | None:
        if isinstance(value, JsonNumber):
            unit = self.encodings.timestamps if kind is None else kind
            if unit is None:
                units = ", ".join(map(repr, NANOS_PER_UNIT))
                raise UndecodableError(f"unit not known: {path}; set timestamps to one of {units}")
            number = _to_whole_number(value)
            if number is None or unit not in NANOS_PER_UNIT or infinite_time(number, unit):
                return None
            micros = number * NANOS_PER_UNIT[unit] // 1_000
            return micros if FIRST_MICROS <= micros <= LAST_MICROS else None
        return parse_timestamp(value) if isinstance(value, str) else None


def parse_object(value: bytes) -> Any:
    """Return the value of a JSON object, its numbers as `JsonNumber`; raise UndecodableError."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise UndecodableError("invalid UTF-8") from None
    if not text.strip(" \t\r\n"):
        raise UndecodableError("empty value")
    if not text.lstrip(" \t\r\n").startswith("{"):
        raise UndecodableError("not a JSON object")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as fault:
        is_trailing = fault.msg == "Extra data"
        raise UndecodableError(
            "text after the JSON object" if is_trailing else "malformed JSON"
        ) from None
    except (ValueError, RecursionError):
        raise UndecodableError("malformed JSON") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


_DECODER = json.JSONDecoder(
    parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_refuse_constant
)


def _to_text(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return _to_json(value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UndecodableError(f"lone surrogate: {path}") from None
    return str(value)


def _to_json(value: Any) -> str:
    """Return the text of a JSON value, with its numbers as they were spelled."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_to_json, value)) + "]"
    return value if isinstance(value, JsonNumber) else json.dumps(value, ensure_ascii=False)


def _to_integer(text: str, data_type: IntegralType) -> int | None:
    if not text.lstrip("-").isdigit() or len(text) > 20:
        return None
    number = int(text)
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[data_type.simpleString()]
    return number if -(2**bits) <= number < 2**bits else None


def _to_whole_number(text: str) -> int | None:
    number = parse_number(text)
    return int(number) if number is not None and number == int(number) else None


def _plain_text(number: Decimal) -> str:
    return format(number, "f")


def _from_unscaled(text: Any, scale: Any) -> Decimal | None:
    """Return the decimal of an unscaled integer in base64; None if it is not one."""
    content = _from_base64(text)
    try:
        digits = int(str(scale))
    except ValueError:
        return None
    if not content or len(content) > 16 or abs(digits) > 38:
        return None
    return Decimal(int.from_bytes(content, "big", signed=True)).scaleb(-digits, EXACT)


def _from_base64(text: Any) -> bytes | None:
    if not isinstance(text, str) or not _BASE64.fullmatch(text):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _to_date(value: Any, kind: str | None) -> int | None:
    """Return the days since 1970; None if the value is not a date."""
    if isinstance(value, JsonNumber):
        days = _to_integer(value, _LONG) if kind in (None, DAYS) else None
        return days if days is not None and FIRST_DAY <= days <= LAST_DAY else None
    return parse_date(value) if isinstance(value, str) else None
