"""Fields of JSON objects as Arrow's parser reads them: types, and what becomes of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from .._arrow.types import arrow_of

_PLAIN = (
    StringType(),
    BooleanType(),
    ByteType(),
    ShortType(),
    IntegerType(),
    LongType(),
    DoubleType(),
    FloatType(),
)
"""Types whose values both parsers read alike, but for those that `finished` refuses."""
_DAY = r"^\d{4}-\d\d-\d\d$"
_ZONE = r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
_INSTANT = rf"^\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{{1,6}})?{_ZONE}?$"
NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?"
BOOLEAN = "true|false"
_DAYS = (date.min, date.max)
_INSTANTS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class NotPassedError(Exception):
    """A block holds a value that is left for `from_json`."""


@dataclass(frozen=True)
class Field:
    """One field of the record: the type that the parser reads, and what is made of it.

    form: a pattern of values that are read with hardly an exception; None where all are.
    """

    name: str
    parsed: pa.DataType
    required: bool
    made: pa.DataType
    finish: Callable[[Any], Any]
    form: str | None


def fields_of(schema: StructType) -> tuple[Field, ...] | None:
    """Return the fields of a schema; None where one has a type that Arrow reads differently."""
    fields = []
    for field in schema.fields:
        name, kind, required = field.name, field.dataType, not field.nullable
        if kind in _TEXTS:
            fields.append(Field(name, pa.string(), required, *_TEXTS[kind]))
            continue
        parsed = _arrow_type(kind)
        if parsed is None:
            return None
        fields.append(Field(name, parsed, required, parsed, _itself, _form(parsed)))
    return tuple(fields)


def _form(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind):
        # With a digit more some would be beyond the type.
        more = len(str(2 ** (kind.bit_width - 1))) - 2
        return rf"^(0|-?[1-9]\d{{0,{more}}})$"
    if pa.types.is_floating(kind):
        return f"^{NUMBER}$"
    return f"^({BOOLEAN})$" if pa.types.is_boolean(kind) else None


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
    return arrow_of(kind) if kind in _PLAIN else None


def struct_of(fields: Sequence[Field]) -> pa.StructType:
    """Return the type of a record."""
    return pa.struct([pa.field(each.name, each.made) for each in fields])


def records_of(fields: Sequence[Field], columns: Mapping[str, Any], count: int) -> Any:
    """Return records as structs; refuse values that Spark's parser would read otherwise.

    columns: by name those that there are, of the types that are `parsed`; others are null.
    """
    made = []
    for field in fields:
        found = columns.get(field.name)
        made.append(_finished(field, pa.nulls(count, field.parsed) if found is None else found))
    return pa.StructArray.from_arrays(made, fields=list(struct_of(fields)))


def _finished(field: Field, found: Any) -> Any:
    require(not (field.required and found.null_count))
    _require_equal(found)
    return field.finish(found)


def _require_equal(found: Any) -> None:
    """Refuse numbers that Spark's parser reads as others: beyond the type, and -0 for a double."""
    kind = found.type
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(found, 1.0).to_numpy(zero_copy_only=False)
        require(bool(np.isfinite(numbers).all()))
        require(not np.signbit(numbers[numbers == 0]).any())
    elif pa.types.is_decimal(kind) and len(found) > found.null_count:
        beyond = Decimal(10) ** (kind.precision - kind.scale)
        least_and_most = pc.min_max(found).as_py()
        require(all(abs(number) < beyond for number in least_and_most.values()))
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


_TEXTS: dict[DataType, tuple[pa.DataType, Callable[[Any], Any], str]] = {
    TimestampType(): (pa.timestamp("us", "UTC"), _instants, _INSTANT),
    DateType(): (pa.date32(), _days, _DAY),
}
"""Types whose values are read as texts first, so that their form can be looked at."""


def _require_all(texts: Any, pattern: str) -> None:
    require(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _require_within(made: Any, bounds: tuple[Any, Any]) -> None:
    first, last = bounds
    begun = pc.greater_equal(made, pa.scalar(first, made.type))
    within = pc.and_(begun, pc.less_equal(made, pa.scalar(last, made.type)))
    require(pc.all(within, min_count=0).as_py())


def require(passed: bool) -> None:
    """Leave a block to `from_json` where something does not pass."""
    if not passed:
        raise NotPassedError
