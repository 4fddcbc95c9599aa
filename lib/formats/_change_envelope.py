"""The common part of the changelog formats: turns envelopes into changes or dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, ClassVar

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructType,
)

from ..changelogs.change_schema import (
    DELETE,
    POSITION_TYPE,
    ROW_OPS,
    SNAPSHOT,
    TOMBSTONE,
    TRUNCATE,
    change_type,
    is_unavailable,
    renamed_columns,
)
from ..columns import quoted_column
from ..event_time.timestamps import epoch_to_timestamp
from ._arrow.cursors import NumpyArray, child_path
from ._arrow.decode_udf import DECODED_KEY, UNAVAILABLE, RecordFormat
from .format import AmbiguousFormat, Format

_PREFIX = "__tidegate_change_"


@dataclass(frozen=True)
class Dialect:
    """The envelope of one change data capture tool.

    plan_name: the name in the fingerprint of a job, which determines the other attributes.
    envelope: the fields of the value of a record.
    key_schema: the fields of the key of a record.
    extract_parts: returns the parts of the change in an envelope, null if missing: skipped, whether
        it is not of a row; code, the operation as the envelope spells it; before and after, the
        rows; micros, the time of the change in microseconds since 1970; source_position and server,
        its position in the log of the database and the identity of that log; from_snapshot, whether
        it was read from the table instead.
    extract_key: returns a key column from the key of a record.
    op_by_code: the operations by code.
    row_path: the field with the row after the change in the envelope; "" if the envelope is the
        row.
    null_as_json: whether a tombstone can be the JSON null, also as the payload of a schema part.
    """

    plan_name: str
    envelope: StructType = field(compare=False)
    key_schema: StructType = field(compare=False)
    extract_parts: Callable[[Column], dict[str, Column]] = field(compare=False)
    extract_key: Callable[[Column, str], Column] = field(compare=False)
    op_by_code: Mapping[str, str] = field(compare=False)
    row_path: str = field(default="after", compare=False)
    null_as_json: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class ChangeFormat:
    """The format that `debezium_format` and `maxwell_format` return; see there for its rules.

    columns, keys: those of the source.
    rename: the names of columns in changes, by their names in the source.
    passes_unavailable: whether a change with values that were not sent is a good row; see
        `passing_unavailable`, which a job calls by its sink.
    """

    plan_name: ClassVar[str] = "change"
    columns: StructType
    keys: tuple[str, ...]
    dialect: Dialect
    value_format: Callable[[StructType], Format]
    placeholder: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    passes_unavailable: bool = field(default=False, compare=False, repr=False)
    required_columns: ClassVar[Sequence[str]] = ("topic", "partition", "offset", "timestamp", "key")

    @cached_property
    def schema(self) -> StructType:
        """The fields of a change."""
        keys = [self.rename.get(name, name) for name in self.keys]
        return change_type(renamed_columns(self.columns, self.rename), keys)

    def passing_unavailable(self) -> ChangeFormat:
        """Return the format for a sink that stores the values of the row before."""
        return replace(self, passes_unavailable=True)

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, the change, and the flags `bad` and `skipped`."""
        is_readable = ~_part("is_tombstone") & ~_part("unreadable")
        skipped = is_readable & F.coalesce(_part("skipped"), F.lit(False))
        bad = _part("unreadable") | self._fault().isNotNull() | skipped
        added_columns = [
            column.alias(name)
            for name, column in {"record": self._change(), "bad": bad, "skipped": skipped}.items()
        ]
        return self._parse_envelope(raw).select(*map(quoted_column, raw.columns), *added_columns)

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`, and drop `record` and `bad`."""
        columns = [name for name in dead_letters.columns if name not in ("record", "bad")]
        parsed = self._parse_envelope(dead_letters.select(*map(quoted_column, columns)))
        unreadable = _part("unreadable") & F.col("value").isNotNull()
        reason = F.when(unreadable, F.col("reason")).otherwise(self._fault())
        return self._envelope_format.explain_failures(parsed).select(
            *map(quoted_column, columns), reason.alias("reason")
        )

    @cached_property
    def _envelope_format(self) -> Format:
        # A table stores neither the fields of the envelope nor a null in a key.
        columns = StructType([each for each in self.columns if each.name not in self.keys])
        return self._make_format(self.dialect.envelope, columns)

    @cached_property
    def _key_format(self) -> Format:
        return self._make_format(self.dialect.key_schema, StructType())

    def _make_format(self, schema: StructType, checked_columns: StructType) -> Format:
        value_format = self.value_format(schema)
        if isinstance(value_format, AmbiguousFormat):
            return value_format.checking_nulls(checked_columns, self.dialect.row_path)
        return value_format

    def _parse_envelope(self, raw: DataFrame) -> DataFrame:
        """Add the parts of the envelope, whether it is unreadable, and the key of the record."""
        decoded = self._decode_envelope(raw)
        is_tombstone = F.col("value").isNull()
        if self.dialect.null_as_json:
            # Not with "&", whose right side Spark evaluates in advance if it occurs several times.
            is_json_null = F.when(F.col("bad"), _is_json_null(F.col("value")))
            is_tombstone = is_tombstone | is_json_null.otherwise(F.lit(False))
        parts = self.dialect.extract_parts(F.col("record"))
        parts["is_tombstone"] = is_tombstone
        parts["unreadable"] = F.coalesce(F.col("bad") & ~is_tombstone, F.lit(True))
        if UNAVAILABLE in decoded.columns:
            paths = F.coalesce(F.col(UNAVAILABLE), F.array().cast("array<string>"))
        else:
            paths = F.array_compact(F.array(*self._placeholders(parts["after"])))
        parts["unavailable"] = self._column_names(paths)
        if DECODED_KEY in decoded.columns:
            parts["decoded_key"] = F.col(DECODED_KEY)
        added_columns = [part.alias(f"{_PREFIX}{name}") for name, part in parts.items()]
        return self._with_key(decoded.select(*map(quoted_column, raw.columns), *added_columns))

    def _decode_envelope(self, raw: DataFrame) -> DataFrame:
        """Decode the values; also the keys that may be needed, if both take one pass."""
        values, keys = self._envelope_format, self._key_format
        if isinstance(values, RecordFormat) and isinstance(keys, RecordFormat):
            needs_key = partial(_lacks_key, self.dialect.row_path, self.keys)
            return values.decode_with_keys(raw, keys, needs_key)
        return values.decode(raw)

    def _with_key(self, parsed: DataFrame) -> DataFrame:
        """Add the key of deletes and tombstones, decoded with the format of the values."""
        has_record_key = self._operation().isin(DELETE, TOMBSTONE)
        if f"{_PREFIX}decoded_key" in parsed.columns:
            key = _part("decoded_key")
            record_key = F.when(has_record_key & key.isNotNull(), self._extract_key(key))
            return parsed.withColumn(f"{_PREFIX}record_key", record_key)
        key_bytes = F.when(has_record_key, F.col("key"))
        key_input = parsed.withColumns({f"{_PREFIX}value": F.col("value"), "value": key_bytes})
        record_key = F.when(~F.col("bad"), self._extract_key(F.col("record")))
        record_key = record_key.alias(f"{_PREFIX}record_key")
        columns = [
            _part(name).alias(name) if name == "value" else quoted_column(name)
            for name in parsed.columns
        ]
        return self._key_format.decode(key_input).select(*columns, record_key)

    def _extract_key(self, record: Column) -> Column:
        extract_key = self.dialect.extract_key
        return F.struct(*[extract_key(record, name).alias(name) for name in self.keys])

    def _operation(self) -> Column:
        texts = [F.lit(text) for pair in self.dialect.op_by_code.items() for text in pair]
        op = F.try_element_at(F.create_map(*texts), _part("code"))
        return F.when(_part("is_tombstone"), F.lit(TOMBSTONE)).otherwise(op)

    def _key_column(self, name: str) -> Column:
        """Return a key column of the row after the change, before it, or of the record key."""
        sources = ("after", "before", "record_key")
        return F.coalesce(*[_part(source).getField(name) for source in sources])

    def _position(self) -> Column:
        """Return the position of the change; a row of a snapshot has none in the database's log."""
        is_streamed = (self._operation() != F.lit(SNAPSHOT)) & ~_part("from_snapshot")
        has_source = ~_part("is_tombstone") & F.coalesce(is_streamed, F.lit(True))
        source = F.when(has_source, _part("source_position"))
        changed_at = epoch_to_timestamp(_part("micros"), "microseconds")
        in_topic = [F.col(name) for name in ("topic", "partition", "offset", "timestamp")]
        in_log = [
            F.when(source.isNotNull(), part) for part in (_part("server"), source, changed_at)
        ]
        values = zip([*in_topic, *in_log], POSITION_TYPE, strict=True)
        return F.struct(*[value.cast(field.dataType).alias(field.name) for value, field in values])

    def _change(self) -> Column:
        op = self._operation()
        key = F.struct(*[self._key_column(name).alias(name) for name in self.keys])
        changed_at = epoch_to_timestamp(_part("micros"), "microseconds")
        fields = {
            "op": F.coalesce(op, F.lit("")),
            "key": F.when(op != F.lit(TRUNCATE), key),
            "before": _part("before"),
            "after": F.when(op.isin(*ROW_OPS), self._sent_row()),
            "unavailable": self._unavailable_columns(),
            "position": self._position(),
            "event_time": F.when(op == F.lit(TOMBSTONE), F.col("timestamp")).otherwise(changed_at),
        }
        return F.struct(
            *[fields[each.name].cast(each.dataType).alias(each.name) for each in self.schema]
        )

    def _fault(self) -> Column:
        """Return why a record is a dead letter.

        Null for valid changes, and for unreadable envelopes, whose format has the reason.
        """
        op, code, after = self._operation(), _part("code"), _part("after")
        is_tombstone = _part("is_tombstone")
        has_row = op.isin(*ROW_OPS)
        missing = {name: self._key_column(name).isNull() for name in self.keys}
        no_key = (op != F.lit(TRUNCATE)) & _any(missing.values())
        unavailable = _part("unavailable")
        has_placeholders = F.size(unavailable) > 0
        if self.passes_unavailable:
            unavailable = F.array_intersect(unavailable, F.array(*map(F.lit, self.keys)))
            has_placeholders = has_placeholders & (F.size(unavailable) > 0)
        nulls = {
            column.name: after.getField(column.name).isNull()
            & ~is_unavailable(column.name, _part("unavailable"))
            for column in self.columns
            if not column.nullable
        }
        placeholders = _with_value("unavailable value: ", F.array_join(unavailable, ", "))
        return (
            F.when(is_tombstone & F.col("key").isNull(), "no key and no value")
            .when(is_tombstone & _part("record_key").isNull(), "tombstone with an unreadable key")
            .when(_part("unreadable"), F.lit(None))
            .when(~is_tombstone & code.isNull(), "missing operation")
            .when(op.isNull(), _with_value("unknown operation: ", F.substring(code, 1, 40)))
            .when(has_row & after.isNull(), "missing row after the change")
            .when(no_key, _with_value("missing key: ", _join_names(missing)))
            .when(has_row & has_placeholders, placeholders)
            .when(
                has_row & _any(nulls.values()), _with_value("missing field: ", _join_names(nulls))
            )
        )

    def _placeholders(self, row: Column) -> Iterable[Column]:
        """Yield the path of each column that holds the placeholder, else null."""
        if self.placeholder is None:
            return
        content = self.placeholder.encode()
        numbers = F.array(*[F.lit(byte) for byte in content])
        of_type: dict[type[DataType], Column] = {
            StringType: F.lit(self.placeholder),
            BinaryType: F.lit(content),
        }
        for column in self.columns:
            value = row.getField(column.name)
            data_type = column.dataType
            expected = of_type.get(type(data_type))
            if isinstance(data_type, ArrayType):
                expected = of_type.get(type(data_type.elementType))
                expected = None if expected is None else F.array(expected)
                if isinstance(data_type.elementType, IntegralType):
                    expected = numbers.cast(data_type)
            if expected is not None:
                path = child_path(self.dialect.row_path, column.name)
                yield F.when(value == expected, F.lit(path))

    def _unavailable_columns(self) -> Column:
        """Return the names in changes of the columns whose values were not sent; null for none."""
        if not self.passes_unavailable:
            return F.lit(None)
        names = _part("unavailable")
        if self.rename:
            new_names = F.create_map(
                *[F.lit(text) for pair in self.rename.items() for text in pair]
            )
            names = F.transform(
                names, lambda name: F.coalesce(F.try_element_at(new_names, name), name)
            )
        return F.when(self._operation().isin(*ROW_OPS) & (F.size(names) > 0), names)

    def _sent_row(self) -> Column:
        """Return the row after the change, with a null for each value that was not sent."""
        after = _part("after")
        if not self.passes_unavailable:
            return after
        sent = [
            F.when(~is_unavailable(name, _part("unavailable")), after.getField(name)).alias(name)
            for name in self.columns.names
        ]
        return F.when(F.size(_part("unavailable")) > 0, F.struct(*sent)).otherwise(after)

    def _column_names(self, paths: Column) -> Column:
        """Return the columns of the row after the change that have these paths in the envelope."""
        prefix = F.lit(child_path(self.dialect.row_path, ""))
        nested = [
            column.name
            for column in self.columns
            if isinstance(column.dataType, ArrayType | StructType)
        ]

        def has_path(name: Column) -> Column:
            column_path = F.concat(prefix, name)
            is_nested = name.isin(*nested)
            return F.exists(
                paths,
                lambda path: (
                    (path == column_path)
                    | (is_nested & path.startswith(F.concat(column_path, F.lit("."))))
                ),
            )

        found = F.filter(F.array(*map(F.lit, self.columns.names)), has_path)
        return F.when(F.size(paths) > 0, found).otherwise(F.array().cast("array<string>"))


def _is_json_null(value: Column) -> Column:
    """Return whether a value is null as the JSON converter of Kafka Connect writes it."""
    schema, payload = F.lit(b'{"schema":'), F.lit(b',"payload":null}')
    is_null_payload = F.startswith(value, schema) & F.endswith(value, payload)
    return (value == F.lit(b"null")) | is_null_payload


def _lacks_key(row_path: str, keys: Sequence[str], records: Any) -> NumpyArray:
    """Return a mask of the records without a complete key in the row at this path."""
    rows = records.field(row_path) if row_path else records
    columns = [rows, *[rows.field(name) for name in keys]]
    missing = [column.is_null() for column in (records, *columns)]
    return reduce(pc.or_, missing).to_numpy(zero_copy_only=False)


def _with_value(text: str, value: Column) -> Column:
    return F.concat(F.lit(text), value)


def _any(conditions: Iterable[Column]) -> Column:
    """Return whether a condition is true, which is cheaper than to join names."""
    return reduce(or_, conditions, F.lit(False))


def _join_names(conditions: Mapping[str, Column]) -> Column:
    """Return the names whose conditions are true, joined by commas."""
    return F.concat_ws(", ", *[F.when(holds, name) for name, holds in conditions.items()])


def _part(name: str) -> Column:
    """Return a column that `_parse_envelope` adds."""
    return quoted_column(f"{_PREFIX}{name}")
