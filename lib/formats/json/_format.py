"""JSON values with a declared schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import ClassVar, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...arrow_function import arrow_function
from ...columns import schema_of
from ...errors import ArgumentError, ColumnError
from .._fitting import narrowed, nullable, unfit
from ._by_arrow import ArrowJson, arrow_json
from ._objects import faulty, read_as, required
from ._options import CORRUPT, PLAIN
from ._reasons import reason
from ._texts import has_times, lone_surrogate, odd_times, times_as_text

_PARSED = "__tidegate_parsed"
_FAULTY = "__tidegate_faulty"
_QUICK = "__tidegate_quick"
_SLOW = "__tidegate_slow"
_TIMES = "__tidegate_times"
_OF_TEXT = (_PARSED, _FAULTY, _TIMES)


def json_format(
    schema: str | StructType,
    *,
    tombstones: Literal["dead", "row"] = "dead",
    parser: Literal["arrow", "spark"] = "arrow",
) -> JsonFormat:
    """Read each value as one JSON object (RFC 8259, UTF-8) of this schema.

    `schema` is DDL text or a StructType. A field may be missing or null unless it is NOT NULL;
    fields that the schema does not name are ignored, but must be well-formed. Names count with
    their capitals. Of a field that is there twice the last one holds. A number or an object in a
    STRING field is taken as its text. A DATE is text such as 2026-03-02, and a TIMESTAMP is ISO
    8601 text that begins with such a date (UTC if without an offset; with one there are seconds;
    digits of a second beyond the sixth are left out) or whole seconds since 1970; read epoch
    milliseconds as BIGINT and convert them. NOT NULL is checked through structs, not inside arrays
    and maps.

    | value | reason |
    |---|---|
    | no value (a tombstone) | "null value"; with tombstones="row" a good row of nulls |
    | no bytes, or white space alone | "empty value" |
    | bytes that are no UTF-8 | "invalid UTF-8" |
    | array, number, text, null, or a byte-order mark before the object | "not a JSON object" |
    | cut off, unquoted or single-quoted names, NaN, comments | "malformed JSON" |
    | nested deeper than 998 (arrays alone: 1000) | "malformed JSON" |
    | text after the object, a second object | "text after the JSON object" |
    | text for a number, number out of range, fraction for an integer | "wrong type: <fields>" |
    | digits beyond a DECIMAL's scale | "wrong type: <fields>" |
    | date that is none, or outside the years 1 to 9999 | "wrong type: <fields>" |
    | time without a whole date: "05:00", "2026", "2026-03" | "wrong type: <fields>" |
    | half a surrogate pair, as an escape, in a field's text | "lone surrogate" |
    | a key that is twice in a MAP | "wrong type: <fields>" |
    | NOT NULL field missing or null | "missing field: <fields>" |

    A DECIMAL of 38 digits leaves no room in which more digits could be seen: it is rounded.

    Flat objects that are written alike, with the same names in the same order, are cut out of their
    bytes as whole columns; others are read by Arrow's parser, in blocks. Values that neither reads
    as these rules ask are read by Spark's parser, one by one: so a good block costs little, and a
    bad value costs itself. All give the same rows; parser="spark" takes Spark's parser alone, which
    is slower. So does a schema with maps, with times that have no zone, or with dates, times or NOT
    NULL inside of other types.
    """
    given = schema_of(schema)
    lowered = [name.lower() for name in given.fieldNames()]
    twice = sorted({name for name in lowered if lowered.count(name) > 1})
    if twice:
        raise ColumnError(
            f"schema has {', '.join(twice)} more than once.",
            "names that differ by more than capitals.",
        )
    if tombstones not in ("dead", "row"):
        raise ArgumentError(f"tombstones is {tombstones!r}.", '"dead" or "row".')
    if parser not in ("arrow", "spark"):
        raise ArgumentError(f"parser is {parser!r}.", '"arrow" or "spark".')
    return JsonFormat(given, tombstones, parser)


@dataclass(frozen=True)
class JsonFormat:
    """JSON objects of a schema; made by `json_format`, where its rules stand."""

    schema: StructType
    tombstones: Literal["dead", "row"] = "dead"
    parser: Literal["arrow", "spark"] = "arrow"
    needs: ClassVar[tuple[str, ...]] = ()

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        reader = arrow_json(self.schema) if self.parser == "arrow" else None
        if reader is None:
            read = raw.withColumns(self._of_text())
            record = _struct(self._fields(F.col))
            return read.withColumns({"record": record, "bad": self._bad(F.col)}).drop(*_OF_TEXT)
        slow, found = self._after_arrow
        read = raw.withColumn(_QUICK, self._read_quickly(reader)).withColumn(_SLOW, slow)
        return read.withColumns(found).drop(_QUICK, _SLOW)

    @cached_property
    def _after_arrow(self) -> tuple[Column, dict[str, Column]]:
        """What Spark's parser reads where Arrow's has left a value, and what `decode` adds.

        Kept, since Python makes these columns by some thousand calls of the JVM, which would take
        longer than a small batch.
        """
        left = F.col(_QUICK).isNull()
        # Within one condition, nothing of Spark's parser runs for a value that Arrow's has read.
        slow = F.when(left, _struct(self._of_text()))
        record = F.when(left, _struct(self._fields(F.col(_SLOW).getField))).otherwise(F.col(_QUICK))
        # Spark would move a filter of the fields down to its parser, take a record for one that is
        # there whenever its text is, and fail where it is null. It moves no filter through columns
        # of which one is not deterministic; the number of a partition counts as such.
        bad = left & self._bad(F.col(_SLOW).getField) & (F.spark_partition_id() >= 0)
        return slow, {"record": record, "bad": bad}

    def _read_quickly(self, reader: ArrowJson) -> Column:
        """Return the records that Arrow's parser reads; null where a value is left."""

        def read(values: pa.Array) -> pa.Array:
            return reader.read(values)

        return arrow_function(read, nullable(self.schema), stays=True)(F.col("value"))

    def _fields(self, of_text: Callable[[str], Column]) -> dict[str, Column]:
        """Return the record's fields as Spark's parser has read them."""
        parsed = of_text(_PARSED)
        return {
            field.name: narrowed(parsed.getField(field.name), field.dataType)
            for field in self.schema
        }

    def _of_text(self) -> dict[str, Column]:
        """Return the fields of a value, and what has to be known of its text beside them.

        So the text itself is not carried on from row to row. The names are those of _OF_TEXT.
        """
        value = F.col("value")
        text = value.cast("string")
        found = {
            _PARSED: read_as(text, self.schema),
            _FAULTY: faulty(value) | lone_surrogate(text, self.schema, PLAIN),
        }
        if has_times(self.schema):
            found[_TIMES] = times_as_text(text, self.schema, PLAIN)
        return found

    def _bad(self, of_text: Callable[[str], Column]) -> Column:
        parsed = of_text(_PARSED)
        passed_by = of_text(_FAULTY)
        checks = [
            parsed.isNull(),
            parsed.getField(CORRUPT).isNotNull(),
            F.coalesce(passed_by, F.lit(True)),
            unfit(parsed, self.schema),
            *[field.isNull() for _, field in required(self.schema, parsed)],
        ]
        if has_times(self.schema):
            checks.append(odd_times(parsed, of_text(_TIMES), self.schema))
        bad = reduce(or_, checks)
        return bad if self.tombstones == "dead" else passed_by.isNotNull() & bad

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        parsed, told = self._diagnosis
        return dead.withColumn(_PARSED, parsed).withColumn("reason", told).drop(_PARSED)

    @cached_property
    def _diagnosis(self) -> tuple[Column, Column]:
        """What Spark's parser makes of a value, and why that is no record; kept as above."""
        text = F.col("value").cast("string")
        return read_as(text, self.schema), reason(F.col("value"), F.col(_PARSED), self.schema)


def _struct(fields: Mapping[str, Column]) -> Column:
    return F.struct(*[field.alias(name) for name, field in fields.items()])
