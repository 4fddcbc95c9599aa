"""The rows of one person in a Delta table: told by their columns, counted and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...columns import quoted
from ...commit.options import CommitOptions
from ...jvm import at_the_commit
from .person import CONTROL, Person

NOTE = '{"tidegate":"forget"}'
"""What the commits bear that forget a person."""
_LETTER = {"topic", "partition", "offset", "key", "value", "headers", "reason"}
_NO_TEXT = {"topic", "stage"}
_COMPARED = (NumericType, DateType, TimestampType, TimestampNTZType)
_VECTORS = "spark.databricks.delta.delete.deletionVectors.persistent"


def of_person(frame: DataFrame, person: Person) -> Column | None:
    """Return whether a row is the person's; None where no column can say so.

    A row is the person's where a column of that name, at any depth, has the value. A dead letter is
    where any text or bytes of its record, or its reason, tell of the person.
    """
    letter = set(frame.columns) >= _LETTER
    found: list[Column] = []
    for field in frame.schema.fields:
        value = quoted(field.name)
        found += _equal(value, field.dataType, field.name, person)
        if letter and field.name not in _NO_TEXT:
            found += _tells(value, field.dataType, person)
    return _either(found) if found else None


def count(frame: DataFrame, person: Person) -> int:
    """Return how many rows are the person's."""
    own = of_person(frame, person)
    return 0 if own is None else frame.where(own).count()


def count_told(frame: DataFrame, person: Person) -> int:
    """Return how many rows tell of the person, by a column, or by any text or bytes."""
    found: list[Column] = []
    for field in frame.schema.fields:
        value = quoted(field.name)
        found += _equal(value, field.dataType, field.name, person)
        found += _tells(value, field.dataType, person)
    return frame.where(_either(found)).count() if found else 0


def delete(spark: SparkSession, path: str, person: Person, look: Callable[[], None]) -> None:
    """Delete the person's rows in one commit, with the files that held them written anew.

    look: called within Delta's transaction, right before its commit.
    """
    own = of_person(spark.read.format("delta").load(path), person)
    if own is None:
        return
    before = spark.conf.get(_VECTORS, None)
    spark.conf.set(_VECTORS, "false")
    try:
        with CommitOptions.noted(spark, NOTE), at_the_commit(spark, look):
            DeltaTable.forPath(spark, path).delete(own)
    finally:
        spark.conf.unset(_VECTORS) if before is None else spark.conf.set(_VECTORS, before)


def _equal(value: Column, kind: DataType, path: str, person: Person) -> Iterator[Column]:
    """Return whether a column, or a part of it, has a value of the person."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _equal(value[field.name], field.dataType, f"{path}.{field.name}", person)
    elif isinstance(kind, ArrayType):
        part = kind.elementType
        yield from _any(value, lambda each: _equal(each, part, path, person))
    elif isinstance(kind, MapType):
        entries = F.map_entries(value)
        yield from _any(entries, lambda each: _entry(each, kind, path, person))
    elif isinstance(kind, StringType):
        yield from (value == F.lit(each) for each in person.at(path))
    elif isinstance(kind, BinaryType):
        yield from (value == F.lit(each.encode()) for each in person.at(path))
    elif isinstance(kind, _COMPARED):
        yield from (value == F.lit(each).try_cast(kind) for each in person.at(path))


def _entry(entry: Column, kind: MapType, path: str, person: Person) -> Iterator[Column]:
    """Return whether an entry of a map, whose key is like a column's name, has such a value."""
    yield from _equal(entry["value"], kind.valueType, path, person)
    if isinstance(kind.keyType, StringType):
        for each in person.identifiers:
            named = F.lower(entry["key"]) == each.name.lower()
            yield from (
                named & one for one in _equal(entry["value"], kind.valueType, each.column, person)
            )


def _tells(value: Column, kind: DataType, person: Person) -> Iterator[Column]:
    """Return whether text or bytes, at any depth, tell of the person."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _tells(value[field.name], field.dataType, person)
    elif isinstance(kind, ArrayType):
        part = kind.elementType
        yield from _any(value, lambda each: _tells(each, part, person))
    elif isinstance(kind, StringType):
        yield _spoken(value, person)
    elif isinstance(kind, BinaryType):
        yield _spoken(value.cast("string"), person)
        raw = ~F.is_valid_utf8(value.cast("string")) | value.cast("string").rlike(CONTROL.pattern)
        yield from (raw & F.contains(value, F.lit(each)) for each in person.naked)


def _spoken(text: Column, person: Person) -> Column:
    whole = [text == F.lit(each.value) for each in person.identifiers]
    return reduce(Column.__or__, whole, text.rlike(f"(?U){person.pattern}"))


def _any(values: Column, test: Callable[[Column], Iterator[Column]]) -> Iterator[Column]:
    """Return whether a part of an array passes one of the tests, if there are any."""
    if list(test(F.lit(None))):
        yield F.exists(
            values, lambda each: F.coalesce(reduce(Column.__or__, test(each)), F.lit(False))
        )


def _either(tests: Sequence[Column]) -> Column:
    return reduce(Column.__or__, [F.coalesce(each, F.lit(False)) for each in tests])
