"""The one place where what a caller gives is checked: names, columns and schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

from pyspark.errors import AnalysisException, ParseException, PySparkRuntimeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .errors import ArgumentError, ColumnError, ColumnTypeError, SetupError, WatermarkError
from .made_once import made_once

WATERMARK_KEY = "spark.watermarkDelayMs"

_NOT_STORED = frozenset(" ,;{}()\n\t=")
JSON_IN_UTC = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
"""How rows are written as JSON: times in UTC to the microsecond, and null fields too."""

_PLAIN = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)


def names(columns: str | Sequence[str], what: str = "by") -> list[str]:
    """Return a list of column names from one name or several."""
    if not isinstance(columns, Iterable):
        raise ColumnTypeError(
            f"{what} is {columns!r}, a {type(columns).__name__}.",
            "a column's name, or a list of names.",
        )
    given = [columns] if isinstance(columns, str) else list(columns)
    for name in given:
        if not isinstance(name, str):
            raise ColumnTypeError(
                f"{what} holds {name!r}, a {type(name).__name__}.",
                "column names as text.",
                f"add the expression with withColumn first, then name it in {what}.",
            )
    repeated = sorted({name for name in given if given.count(name) > 1})
    if repeated:
        raise ColumnError(
            f"{what} names {', '.join(repeated)} more than once.", "each column once."
        )
    return given


def require_whole(value: object, what: str, least: int, most: int, hint: str = "") -> None:
    """Refuse what is no whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ArgumentError(f"{what} is {value!r}.", f"{least:,} to {most:,}.", hint)


def column(value: str | Column) -> Column:
    """Return a Column from a column or its name; a name is taken whole, dots and all."""
    return quoted(value) if isinstance(value, str) else value


@made_once
def quoted(name: str) -> Column:
    """Return the top-level column of just this name, whatever characters are in it."""
    return F.col(escaped(name))


def quoted_in(alias: str, name: str) -> Column:
    """Return the top-level column of just this name in an aliased frame."""
    return F.col(f"{alias}.{escaped(name)}")


def escaped(name: str) -> str:
    """Return a name as text that Spark reads as just this name."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def same_key(keys: Sequence[str], left: str = "old", right: str = "new") -> Column:
    """Return whether rows of two aliased frames have the same key; nulls are equal."""
    return reduce(and_, [quoted_in(left, name).eqNullSafe(quoted_in(right, name)) for name in keys])


def first_line(fault: Exception) -> str:
    """Return what one of Spark's errors says, without its plan and its SQLSTATE."""
    return str(fault).strip().split("\n", 1)[0].split(" SQLSTATE", 1)[0]


def schema_of(given: str | StructType, what: str = "schema") -> StructType:
    """Return a schema that was given as DDL text or as a StructType, and has a field at least.

    Only Spark can read DDL text, so this needs a running session; a StructType needs none.
    """
    found = _read_ddl(given, what) if isinstance(given, str) else given
    if not isinstance(found, StructType) or not found.fields:
        raise ArgumentError(
            f"{what} is {given!r}.",
            "at least one field, as DDL text or StructType.",
            f"{what}='page STRING, ms INT'",
        )
    return found


def _read_ddl(text: str, what: str) -> DataType:
    try:
        return StructType.fromDDL(text)
    except PySparkRuntimeError as fault:
        raise SetupError(
            f"{what} is DDL text, which Spark reads, and no Spark session is running.",
            "DDL text once there is a session; a StructType at any time.",
            f"make the session before this call, or write {what} as a StructType.",
        ) from fault
    except AnalysisException as fault:
        raise ArgumentError(
            f"{what} is {text!r}, which cannot be read: {first_line(fault)}",
            "DDL text: names and types, parted by commas.",
            f"{what}='page STRING, ms INT'",
        ) from fault


def type_of(frame: DataFrame, value: str | Column, what: str) -> DataType:
    """Return the type of a column or an expression, and refuse one that cannot be computed."""
    try:
        if isinstance(value, str):
            # Spark logs a page of JSON for a name that it does not find, so it is not asked.
            if value.lower() not in {name.lower() for name in frame.columns}:
                require(frame, [value], what)
            value = quoted(value)
        return frame.select(value).schema[0].dataType
    except ParseException as fault:
        raise ArgumentError(
            f"{what} cannot be read: {first_line(fault)}", "an expression of Spark's SQL."
        ) from fault
    except AnalysisException as fault:
        raise ColumnError(
            f"{what} cannot be computed: {first_line(fault)}",
            f"the columns are {', '.join(frame.columns)}.",
        ) from fault


def require(frame: DataFrame, wanted: Iterable[str], what: str = "by") -> None:
    """Refuse names that the frame does not have, or has twice, and what is no frame."""
    if not isinstance(frame, DataFrame):
        raise ColumnTypeError(
            f"the rows are {type(frame).__name__}, and no DataFrame.", "a DataFrame of Spark."
        )
    have = frame.columns
    for name in wanted:
        if not isinstance(name, str):
            raise ColumnTypeError(
                f"{what} is {name!r}, a {type(name).__name__}.", "the name of a column, as text."
            )
        if name not in have:
            raise ColumnError(f"{what} names {name!r}.", f"the columns are {', '.join(have)}.")
        if have.count(name) > 1:
            raise ColumnError(
                f"{what} names {name!r}, which is there {have.count(name)} times.",
                "one such column.",
            )


def is_plain(kind: DataType) -> bool:
    """Return whether values are equal where their bytes are, and ordered by Arrow as by Spark."""
    return isinstance(kind, _PLAIN) or (isinstance(kind, StringType) and kind == StringType())


def is_collated(kind: DataType) -> bool:
    """Return whether values hold a text that can equal one of other bytes."""
    if isinstance(kind, StructType):
        return any(is_collated(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return is_collated(kind.elementType)
    if isinstance(kind, MapType):
        return is_collated(kind.keyType) or is_collated(kind.valueType)
    return isinstance(kind, StringType) and kind != StringType()


def require_event_time(frame: DataFrame, time: str) -> None:
    """Refuse a time column that is no timestamp, and a stream that has no watermark on it."""
    require(frame, [time], "time")
    field = frame.schema[time]
    if not isinstance(field.dataType, TimestampType):
        raise ColumnTypeError(
            f"time={time!r} is of type {field.dataType.simpleString()}.",
            "a timestamp (an instant; timestamp_ntz has no zone and is none).",
            f"withColumn({time!r}, F.to_timestamp({time!r})), or F.timestamp_millis for epoch "
            "milliseconds.",
        )
    if frame.isStreaming and WATERMARK_KEY not in (field.metadata or {}):
        raise WatermarkError(
            f"the stream has no watermark on {time!r}, so no window could close, and its state "
            "would grow.",
            f"a watermark on {time!r}: how late a row may be.",
            f"withWatermark({time!r}, '10 seconds') before the transform.",
        )


def require_free(taken: Iterable[str], wanted: Iterable[str], what: str = "aggs") -> None:
    """Refuse result names that would clash, as Spark compares them: without regard to case."""
    seen = {name.lower() for name in taken}
    for name in wanted:
        if name.lower() in seen:
            raise ColumnError(
                f"{what} would make a second column {name!r}.",
                "names other than 'window', the by columns and each other, capitals or not.",
                f"{what}={{'{name}_value': ...}}",
            )
        seen.add(name.lower())


def nested_names(kind: DataType) -> list[str]:
    """List the names of all fields of a type, of structs inside as well."""
    if isinstance(kind, StructType):
        return [name for field in kind for name in (field.name, *nested_names(field.dataType))]
    if isinstance(kind, ArrayType):
        return nested_names(kind.elementType)
    if isinstance(kind, MapType):
        return nested_names(kind.keyType) + nested_names(kind.valueType)
    return []


def require_storable(wanted: Iterable[str], what: str) -> None:
    """Refuse names that no column of a Delta table can have."""
    for name in wanted:
        if _NOT_STORED.intersection(name):
            better = "".join("_" if sign in _NOT_STORED else sign for sign in name)
            raise ColumnError(
                f"{what} has the name {name!r}, which no column of a Delta table can have.",
                "names without spaces, tabs, line breaks and the signs , ; { } ( ) =",
                f"withColumnRenamed({name!r}, {better!r})",
            )
