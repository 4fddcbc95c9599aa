"""The rows of a data subject in a Delta table: matched by columns, counted and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

from ...columns import quoted_column
from ...delta.commit_options import CommitOptions
from ...jvm import run_before_commit, with_settings
from .subject import CONTROL_CHARACTERS, DataSubject

ERASURE_METADATA = '{"tidegate":"erasure"}'
"""The commit metadata of erasures."""
_DEAD_LETTER_COLUMNS = {"topic", "partition", "offset", "key", "value", "headers", "reason"}
_NON_TEXT_COLUMNS = {"topic", "stage"}
_COMPARABLE_TYPES = (
    *(StringType, BinaryType, NumericType),
    *(DateType, TimestampType, TimestampNTZType),
)
_DELETION_VECTORS = "spark.databricks.delta.delete.deletionVectors.persistent"


def subject_condition(
    frame: DataFrame, subject: DataSubject, *, in_any_text: bool = False
) -> Column | None:
    """Return whether a row belongs to the subject; None if no column can match.

    A row matches if a column of an identifier, at any depth, has its value. A dead letter also
    matches if any text or bytes of its record, or its reason, contain an identifier.

    in_any_text: match the text and bytes of all columns of any table.
    """
    is_dead_letter = set(frame.columns) >= _DEAD_LETTER_COLUMNS
    conditions: list[Column] = []
    for field in frame.schema.fields:
        value = quoted_column(field.name)
        conditions += _value_conditions(value, field.dataType, field.name, subject)
        if in_any_text or (is_dead_letter and field.name not in _NON_TEXT_COLUMNS):
            conditions += _text_conditions(value, field.dataType, subject)
    known = [F.coalesce(each, F.lit(False)) for each in conditions]
    return reduce(Column.__or__, known) if known else None


def count_subject_rows(frame: DataFrame, subject: DataSubject, *, in_any_text: bool = False) -> int:
    """Return the number of rows that match `subject_condition`."""
    condition = subject_condition(frame, subject, in_any_text=in_any_text)
    return 0 if condition is None else frame.where(condition).count()


def delete_subject_rows(
    spark: SparkSession, path: str, subject: DataSubject, check_lease: Callable[[], None]
) -> None:
    """Delete the subject's rows in one commit, rewriting their files.

    check_lease: called within Delta's transaction, right before the commit.
    """
    condition = subject_condition(spark.read.format("delta").load(path), subject)
    if condition is None:
        return
    with (
        with_settings(spark, {_DELETION_VECTORS: "false"}),
        CommitOptions.commit_metadata(spark, ERASURE_METADATA),
        run_before_commit(spark, check_lease),
    ):
        DeltaTable.forPath(spark, path).delete(condition)


def _value_conditions(
    value: Column, data_type: DataType, path: str, subject: DataSubject
) -> Iterator[Column]:
    """Return whether a column, or a part of it, has a value of the subject."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            part_path = f"{path}.{field.name}"
            yield from _value_conditions(value[field.name], field.dataType, part_path, subject)
    elif isinstance(data_type, ArrayType):
        part = data_type.elementType
        yield from _any_element(value, lambda each: _value_conditions(each, part, path, subject))
    elif isinstance(data_type, MapType):
        entries = F.map_entries(value)
        yield from _any_element(
            entries, lambda each: _map_entry_conditions(each, data_type, path, subject)
        )
    elif isinstance(data_type, _COMPARABLE_TYPES):
        own_values = subject.values_for_column(path)
        yield from (value == F.lit(each).try_cast(data_type) for each in own_values)


def _map_entry_conditions(
    entry: Column, map_type: MapType, path: str, subject: DataSubject
) -> Iterator[Column]:
    """Return whether an entry of a map, whose key acts as a column name, has such a value."""
    yield from _value_conditions(entry["value"], map_type.valueType, path, subject)
    if isinstance(map_type.keyType, StringType):
        for each in subject.identifiers:
            key_matches = F.lower(entry["key"]) == each.name.lower()
            yield from (
                key_matches & condition
                for condition in _value_conditions(
                    entry["value"], map_type.valueType, each.column, subject
                )
            )


def _text_conditions(value: Column, data_type: DataType, subject: DataSubject) -> Iterator[Column]:
    """Return whether text or bytes, at any depth, contain an identifier."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _text_conditions(value[field.name], field.dataType, subject)
    elif isinstance(data_type, ArrayType):
        part = data_type.elementType
        yield from _any_element(value, lambda each: _text_conditions(each, part, subject))
    elif isinstance(data_type, StringType):
        yield _is_in_text(value, subject)
    elif isinstance(data_type, BinaryType):
        text = value.cast("string")
        yield _is_in_text(text, subject)
        is_binary = ~F.is_valid_utf8(text) | text.rlike(CONTROL_CHARACTERS.pattern)
        yield from (is_binary & F.contains(value, F.lit(each)) for each in subject.raw_byte_values)


def _is_in_text(text: Column, subject: DataSubject) -> Column:
    exact_matches = [text == F.lit(each.value) for each in subject.identifiers]
    return reduce(Column.__or__, exact_matches, text.rlike(f"(?U){subject.pattern}"))


def _any_element(
    values: Column, conditions_of: Callable[[Column], Iterator[Column]]
) -> Iterator[Column]:
    """Return whether an element of an array matches one of the conditions, if there are any."""
    if list(conditions_of(F.lit(None))):
        yield F.exists(
            values,
            lambda each: F.coalesce(reduce(Column.__or__, conditions_of(each)), F.lit(False)),
        )
