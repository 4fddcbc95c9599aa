"""Reads Connect's JSON in batches: Arrow parses what it reads as `_values` does, column by column.

The records of a table have the same schema part, byte for byte. Each distinct one is parsed once,
and describes how the values of its records are encoded. Without one, the JSON types are those of a
sample of the values.

Values that Arrow rejects, and those that it would read differently, are read one by one, which also
gives the reasons of dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
)

from .._arrow.arrow_types import to_arrow_type
from .._arrow.cursors import Faults, child_path, combine_rows, make_cursors
from .._arrow.decode_udf import NO_VALUE
from .._casts import nullable_type
from .._connect_types import (
    DAYS,
    DECIMAL,
    FIRST_DAY,
    LAST_DAY,
    NANOS_PER_UNIT,
    NON_FINITE,
    PLAIN,
    VARIABLE_DECIMAL,
    bounded,
    cast_numbers,
    parse_numbers,
    parse_times,
    to_decimals,
    to_timestamps_of_unit,
)
from ..json._arrow_reader import (
    ArrowJsonReader,
    JsonField,
    Mask,
    shared_arrow_type,
    to_mask,
    with_odd_numbers,
)
from ._values import (
    BASE64,
    LOGICAL_TYPES,
    Encodings,
    UndecodableError,
    ValueReader,
    declared_fields,
    is_decimal,
    parse_object,
    value_kinds,
)

_START = b'{"schema":'
_MIDDLE = b',"payload":'
_SPACED_START = r'^\s*\{\s+"schema"|^\s*\{\s*"schema"(\s+:|:\s)'
_SPACED = (
    r'(?s)^\s*\{\s*"schema"\s*:\s*(?P<schema>\{.*?\}|null)'
    r'\s*,\s*"payload"\s*:\s*(?P<payload>.*?)\s*\}\s*$'
)
_MAX_SCHEMAS = 1_000
"""The number of distinct schema parts whose kinds a reader stores."""
_SAMPLE = 20
"""The number of values without a schema part whose JSON types are looked at in each batch."""
_VARIABLE_DECIMAL_TYPE = pa.struct([("scale", pa.int32()), ("value", pa.string())])

_Conversion = Callable[[Any], tuple[Any, Mask]]
"""Returns a column in its result type, and a mask of the values to read one by one."""
_Reading = tuple[pa.DataType, pa.DataType, _Conversion]
"""The parsed type, the type of the result, and the conversion."""


@dataclass(frozen=True)
class ConnectJsonReader:
    """Reads JSON objects with or without a schema part.

    schema: the fields of an object, some NOT NULL.
    """

    schema: StructType
    encodings: Encodings
    _by_schema: dict[bytes, _GroupReader | None] = field(default_factory=dict)
    _sampled: dict[str, pa.DataType] = field(default_factory=dict)

    def read(self, values: Any) -> tuple[Any, Any, Any]:
        """Return the records, null for invalid values; the reasons; the paths of placeholders."""
        if pa.types.is_large_binary(values.type):
            values = values.cast(pa.binary())
        parts: list[list[tuple[Any, Any]]] = [[], [], []]
        for rows, payloads, group in self._groups(values):
            for part, array in zip(parts, group.read(payloads), strict=True):
                part.append((rows, array))
        types = (self._record_type, pa.string(), pa.list_(pa.string()))
        records, reasons, unavailable = (
            combine_rows(part, len(values), arrow_type)
            for part, arrow_type in zip(parts, types, strict=True)
        )
        return records, reasons, unavailable

    @cached_property
    def _record_type(self) -> pa.DataType:
        return to_arrow_type(nullable_type(self.schema))

    def _groups(self, values: Any) -> Iterator[tuple[Any, Any, _GroupReader]]:
        """Yield the rows of each distinct schema part, their payloads and their reader."""
        rest = np.ones(len(values), bool)
        for rows, schemas, payloads in _split(values):
            encoded = schemas.dictionary_encode()
            codes = encoded.indices.to_numpy()
            for code, schema in enumerate(encoded.dictionary.to_pylist()):
                group = self._schema_reader(schema)
                if group is not None:
                    selected = np.flatnonzero(codes == code)
                    rest[rows[selected]] = False
                    yield rows[selected], payloads.take(pa.array(selected)), group
        others = np.flatnonzero(rest)
        if len(others):
            plain = values if len(others) == len(values) else values.take(pa.array(others))
            yield others, plain, self._sampled_reader(plain)

    def _schema_reader(self, schema: bytes) -> _GroupReader | None:
        """Return the reader of a schema part; None if it is not the JSON of one."""
        if schema not in self._by_schema:
            if len(self._by_schema) >= _MAX_SCHEMAS:
                self._by_schema.clear()
            self._by_schema[schema] = self._new_reader(schema)
        return self._by_schema[schema]

    def _new_reader(self, schema: bytes) -> _GroupReader | None:
        try:
            declaration = json.loads(schema)
        except (ValueError, RecursionError):
            return None
        if declaration is None:
            return _GroupReader(self.schema, self.encodings, None, {})
        kinds = dict(value_kinds(declaration, self.schema))
        types = dict(_declared_types(declaration, self.schema, kinds))
        return _GroupReader(self.schema, self.encodings, kinds, types)

    def _sampled_reader(self, values: Any) -> _GroupReader:
        for value in values.drop_null()[:_SAMPLE].to_pylist():
            try:
                found = json.loads(value)
                self._sampled.update(_sampled_types(found, self.schema, self.encodings))
            except (ValueError, RecursionError):
                continue
        return _GroupReader(self.schema, self.encodings, None, dict(self._sampled))


def _split(values: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield rows with a schema part, their schema parts and their payloads."""
    is_compact = pc.and_(pc.starts_with(values, _START), pc.ends_with(values, b"}"))
    compact = np.flatnonzero(to_mask(is_compact.fill_null(False)))
    if len(compact):
        selected = values.take(pa.array(compact))
        middle = pc.find_substring(selected, _MIDDLE).to_numpy().astype(np.int64)
        found = middle >= 0
        rows, middle = compact[found], middle[found]
        cursors = make_cursors(selected.filter(pa.array(found)), Faults(), "")
        schema_starts = cursors.position + len(_START)
        schemas = cursors.byte_array(schema_starts, middle - len(_START))
        payload_starts = cursors.position + middle + len(_MIDDLE)
        payloads = cursors.byte_array(payload_starts, cursors.end - 1 - payload_starts)
        yield rows, schemas, payloads
    is_spaced = pc.match_substring_regex(values, _SPACED_START).fill_null(False)
    spaced = np.flatnonzero(to_mask(is_spaced))
    if len(spaced):
        parts = pc.extract_regex(values.take(pa.array(spaced)), _SPACED)
        found = np.flatnonzero(to_mask(parts.is_valid()))
        schemas, payloads = parts.take(pa.array(found)).flatten()
        yield spaced[found], schemas, payloads


@dataclass(frozen=True)
class _GroupReader:
    """Reads the payloads of records with one schema part, or of records without one.

    kinds: the kinds of values by path; None without a schema part.
    types: the Arrow types of values with several encodings, by path.
    """

    schema: StructType
    encodings: Encodings
    kinds: Mapping[str, str] | None
    types: Mapping[str, pa.DataType]

    def read(self, payloads: Any) -> tuple[Any, Any, Any]:
        """Return the records, the reasons and the paths of their placeholders."""
        record_type = to_arrow_type(nullable_type(self.schema))
        count = len(payloads)
        records = pa.nulls(count, record_type)
        if self._reader is not None:
            records = self._reader.read(payloads)
        unread = np.flatnonzero(to_mask(records.is_null()))
        reasons: list[str | None] = [None] * len(unread)
        unavailable: list[list[str] | None] = [None] * len(unread)
        objects: list[Any] = [None] * len(unread)
        for number, payload in enumerate(payloads.take(pa.array(unread)).to_pylist()):
            paths: list[str] = []
            try:
                if payload is None:
                    raise UndecodableError(NO_VALUE)
                reader = ValueReader(self.kinds, self.encodings, paths)
                objects[number] = reader.read(parse_object(payload), self.schema)
                unavailable[number] = paths or None
            except UndecodableError as fault:
                reasons[number] = str(fault)
        if any(each is not None for each in objects):
            read = np.setdiff1d(np.arange(count), unread, assume_unique=True)
            records = combine_rows(
                [
                    (read, records.take(pa.array(read))),
                    (unread, pa.array(objects, record_type)),
                ],
                count,
                record_type,
            )
        path_type = pa.list_(pa.string())
        return (
            records,
            combine_rows([(unread, pa.array(reasons, pa.string()))], count, pa.string()),
            combine_rows([(unread, pa.array(unavailable, path_type))], count, path_type),
        )

    @cached_property
    def _reader(self) -> ArrowJsonReader | None:
        fields = []
        for each in self.schema:
            reading = self._reading(each.dataType, each.name)
            if reading is None:
                return None
            fields.append(JsonField(each.name, not each.nullable, *reading))
        return ArrowJsonReader(tuple(fields))

    def _reading(self, data_type: DataType, path: str) -> _Reading | None:
        """Return how Arrow reads a type; None if it cannot."""
        if self._has_encoding(data_type, path):
            return self._logical_reading(data_type, path)
        if isinstance(data_type, StructType):
            fields = []
            for each in data_type:
                reading = self._reading(each.dataType, child_path(path, each.name))
                if reading is None:
                    return None
                fields.append((each.name, not each.nullable, reading))
            return _struct_reading(fields)
        if isinstance(data_type, ArrayType):
            element = self._reading(data_type.elementType, path)
            if element is None:
                return None
            placeholder = self.encodings.placeholder or ""
            is_numbers = pa.types.is_integer(element[0])
            return _list_reading(element, placeholder.encode() if is_numbers else b"")
        shared_type = shared_arrow_type(data_type)
        if isinstance(data_type, StringType):
            return pa.string(), pa.string(), self._without_placeholders
        return None if shared_type is None else (shared_type, shared_type, with_odd_numbers)

    def _has_encoding(self, data_type: DataType, path: str) -> bool:
        """Return whether the JSON of a type is not that of its values."""
        if isinstance(data_type, FloatType | DoubleType):
            parsed = self.types.get(path)
            return parsed is not None and not pa.types.is_floating(parsed)
        kind = None if self.kinds is None else self.kinds.get(path)
        return isinstance(data_type, LOGICAL_TYPES) or (
            isinstance(data_type, StringType) and is_decimal(kind)
        )

    def _without_placeholders(self, texts: Any) -> tuple[Any, Mask]:
        return texts, self._is_placeholder(texts)

    def _is_placeholder(self, column: Any) -> Mask:
        if self.encodings.placeholder is None or not pa.types.is_string(column.type):
            return np.zeros(len(column), bool)
        return to_mask(pc.is_in(column, pa.array(self.encodings.placeholder_texts())))

    def _logical_reading(self, data_type: DataType, path: str) -> _Reading:
        kind = None if self.kinds is None else self.kinds.get(path)
        parsed_type = self.types.get(path, pa.string())
        output_type = to_arrow_type(data_type)
        convert = self._conversion(data_type, kind, parsed_type, output_type)

        def convert_values(column: Any) -> tuple[Any, Mask]:
            values = convert(column)
            differs = to_mask(column.is_valid()) & to_mask(values.is_null())
            return values, differs | self._is_placeholder(column)

        return parsed_type, output_type, convert_values

    def _conversion(
        self, data_type: DataType, kind: str | None, parsed: pa.DataType, output: pa.DataType
    ) -> Callable[[Any], Any]:
        """Return a function that returns null for values that it does not read."""
        is_text = pa.types.is_string(parsed)
        if isinstance(data_type, DecimalType | FloatType | DoubleType | StringType):
            decimals = self.encodings.decimals
            if pa.types.is_struct(parsed):
                return lambda column: _variable_decimals(column, output)
            if is_text and (kind or "").startswith(DECIMAL):
                scale = (kind or "").removeprefix(DECIMAL)
                return lambda column: _decimals(column, scale, output)
            if is_text and kind is None and decimals == "precise":
                scale = str(data_type.scale) if isinstance(data_type, DecimalType) else ""
                return lambda column: _decimals(column, scale, output)
            if is_text and (kind == PLAIN or (kind is None and decimals != "double")):
                is_number = kind == PLAIN or decimals == "string"
                return lambda column: _numbers(column, output, is_number=is_number)
            if pa.types.is_floating(parsed) and kind in (None, PLAIN):
                return lambda column: _numbers(column.cast(pa.string()), output, is_number=True)
        elif pa.types.is_struct(parsed):
            pass
        elif isinstance(data_type, BinaryType):
            if is_text:
                return _binaries
        elif pa.types.is_integer(parsed):
            is_date = isinstance(data_type, DateType)
            unit = self.encodings.timestamps if kind is None else kind
            if is_date and kind in (None, DAYS):
                return lambda column: bounded(column, FIRST_DAY, LAST_DAY, output)
            if not is_date and unit in NANOS_PER_UNIT:
                return lambda column: to_timestamps_of_unit(column, str(unit), output)
        elif is_text:
            return lambda column: parse_times(column, output)
        return lambda column: pa.nulls(len(column), output)


def _declared_types(
    declaration: Any, data_type: DataType, kinds: Mapping[str, str], path: str = ""
) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the types of the JSON values that a schema part declares, by path."""
    if not isinstance(declaration, Mapping):
        return
    if isinstance(data_type, LOGICAL_TYPES):
        type_name = str(declaration.get("type"))
        if kinds.get(path) == VARIABLE_DECIMAL:
            yield path, _VARIABLE_DECIMAL_TYPE
        elif isinstance(data_type, FloatType | DoubleType):
            if type_name in ("string", "bytes"):
                yield path, pa.string()
        elif type_name.startswith("int"):
            yield path, pa.int64()
        elif type_name in ("float", "double"):
            yield path, pa.float64()
    elif isinstance(data_type, StringType):
        if kinds.get(path) == VARIABLE_DECIMAL:
            yield path, _VARIABLE_DECIMAL_TYPE
    elif isinstance(data_type, ArrayType):
        yield from _declared_types(declaration.get("items"), data_type.elementType, kinds, path)
    elif isinstance(data_type, StructType):
        for name, each in declared_fields(declaration).items():
            if name in data_type.names:
                inner = data_type[name].dataType
                yield from _declared_types(each, inner, kinds, child_path(path, name))


def _sampled_types(
    value: Any, data_type: DataType, encodings: Encodings, path: str = ""
) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the types of the JSON values of a sample, by path.

    Decimals that are numbers stay text, which Arrow rejects, unless they are doubles: Arrow would
    accept texts as decimals as well, and round numbers that it reads as doubles.
    """
    if isinstance(data_type, LOGICAL_TYPES):
        is_float = isinstance(data_type, FloatType | DoubleType)
        if isinstance(value, str):
            if not is_float or value not in NON_FINITE:
                yield path, pa.string()
        elif isinstance(value, dict):
            yield path, _VARIABLE_DECIMAL_TYPE
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if is_float:
                yield path, to_arrow_type(data_type)
            elif not isinstance(data_type, DecimalType):
                yield path, pa.int64()
            elif encodings.decimals == "double":
                yield path, pa.float64()
    elif isinstance(data_type, ArrayType) and isinstance(value, list):
        for element in value[:1]:
            yield from _sampled_types(element, data_type.elementType, encodings, path)
    elif isinstance(data_type, StructType) and isinstance(value, dict):
        for each in data_type:
            inner = value.get(each.name)
            yield from _sampled_types(inner, each.dataType, encodings, child_path(path, each.name))


def _struct_reading(fields: Sequence[tuple[str, bool, _Reading]]) -> _Reading:
    parsed_type = pa.struct([(name, parsed) for name, _, (parsed, _, _) in fields])
    output_type = pa.struct([(name, output) for name, _, (_, output, _) in fields])

    def convert_struct(column: Any) -> tuple[Any, Mask]:
        is_present = to_mask(column.is_valid())
        arrays = []
        differs = np.zeros(len(column), bool)
        for (_, required, (_, _, convert)), inner in zip(fields, column.flatten(), strict=True):
            array, inner_differs = convert(inner)
            arrays.append(array)
            differs |= inner_differs
            if required:
                differs |= is_present & to_mask(array.is_null())
        structs = pa.StructArray.from_arrays(
            arrays, fields=list(output_type), mask=pa.array(~is_present)
        )
        return structs, differs

    return parsed_type, output_type, convert_struct


def _list_reading(element: _Reading, placeholder: bytes) -> _Reading:
    parsed_type, output_type, convert = element

    def convert_list(column: Any) -> tuple[Any, Mask]:
        values, element_differs = convert(column.flatten())
        lengths = pc.list_value_length(column).fill_null(0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), values, mask=column.is_null())
        differs = np.zeros(len(column), bool)
        differs[np.repeat(np.arange(len(column)), lengths)[element_differs]] = True
        if placeholder:
            differs |= lengths == len(placeholder)
        return lists, differs

    return pa.list_(parsed_type), pa.list_(output_type), convert_list


def _numbers(texts: Any, output: pa.DataType, *, is_number: bool) -> Any:
    """Return numbers in text in another type.

    is_number: whether each text is a number, and not base64.
    """
    if not is_number:
        is_base64 = pc.match_substring_regex(texts, BASE64)
        texts = pc.if_else(is_base64, pa.scalar(None, pa.string()), texts)
    return parse_numbers(texts, output)


def _decimals(texts: Any, scale: str, output: pa.DataType) -> Any:
    """Return the decimals of unscaled integers in base64."""
    try:
        digits = int(scale)
    except ValueError:
        return pa.nulls(len(texts), output)
    contents = _binaries(texts)
    lengths = pc.binary_length(contents).fill_null(0).to_numpy()
    # Sixteen bytes may exceed 38 digits.
    fits = (lengths > 0) & (lengths < 16)
    cursors = make_cursors(contents.fill_null(b""), Faults(), "")
    place = np.arange(16)
    indexes = (cursors.position + lengths)[:, None] - 1 - place
    data = cursors.data[np.maximum(indexes, 0)]
    is_negative = cursors.data[cursors.position] >= 0x80
    filling = np.where(is_negative, 0xFF, 0).astype(np.uint8)[:, None]
    little_endian = np.where(place < lengths[:, None], data, filling)
    return cast_numbers(to_decimals(little_endian, fits, digits), output)


def _variable_decimals(column: Any, output: pa.DataType) -> Any:
    scales, texts = column.flatten()
    parts = []
    for scale in scales.drop_null().unique().to_pylist():
        rows = np.flatnonzero(to_mask(pc.equal(scales, scale).fill_null(False)))
        parts.append((rows, _decimals(texts.take(pa.array(rows)), str(scale), output)))
    return combine_rows(parts, len(column), output)


_SEXTETS = np.zeros(256, np.uint32)
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SEXTETS[list(_ALPHABET)] = np.arange(64)


def _binaries(texts: Any) -> Any:
    """Return the bytes of base64 texts, all decoded together: each is a sequence of quads."""
    fits = pc.match_substring_regex(texts, BASE64)
    filled = pc.if_else(fits.fill_null(False), texts, "")
    cursors = make_cursors(filled.cast(pa.binary()), Faults(), "")
    starts, ends = cursors.position, cursors.end
    data = cursors.data[: int(ends.max(initial=0))]
    quads = _SEXTETS[data].reshape(-1, 4)
    joined = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    content = np.empty((len(joined), 3), np.uint8)
    for place, shift in enumerate((16, 8, 0)):
        content[:, place] = joined >> shift
    is_padding = np.concatenate([[0], np.cumsum(data == ord("="))])
    padded = is_padding[ends] - is_padding[starts]
    lengths = (ends - starts) // 4 * 3 - padded
    edges = np.empty(2 * len(starts) + 1, np.int32)
    edges[0:-1:2] = starts // 4 * 3
    edges[1::2] = starts // 4 * 3 + lengths
    edges[-1] = len(joined) * 3
    spans = pa.Array.from_buffers(
        pa.binary(),
        2 * len(starts),
        [None, pa.py_buffer(edges), pa.py_buffer(content.tobytes())],
    )
    found = spans.take(pa.array(np.arange(0, 2 * len(starts), 2)))
    return pc.if_else(fits, found, pa.scalar(None, pa.binary()))
