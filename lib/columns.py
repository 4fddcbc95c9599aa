"""Column helpers, and validation of the columns, schemas and conditions that callers pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache, reduce, wraps
from operator import and_
from types import UnionType
from typing import TypeAlias, TypeVar, TypeVarTuple, get_args

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
from pyspark.sql.utils import is_remote

from .errors import ArgumentError, ColumnError, ColumnTypeError, SetupError, WatermarkError

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

WATERMARK_KEY = "spark.watermarkDelayMs"

_UNSTORABLE_CHARACTERS = re.compile(r"[ ,;{}()\n\t=]")
_SPECIAL_DATE = re.compile(
    r"\b(?:date|timestamp\w*)\s*['\"]\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE
)
JSON_IN_UTC = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
"""Options of `to_json`: times in UTC to the microsecond, null fields included."""

_BYTE_COMPARABLE = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)


def cache_columns(make: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
    """Cache the columns that a function builds from names and numbers.

    Building a Column takes several calls to the JVM, a tenth of the time of a small batch. Spark
    Connect columns have a separate cache. Do not cache nondeterministic columns.
    """
    caches = {remote: lru_cache(maxsize=1_000)(make) for remote in (False, True)}

    @wraps(make)
    def cached_call(*arguments: *Arguments) -> Result:
        return caches[is_remote()](*arguments)

    return cached_call


def require_column_names(columns: str | Sequence[str], label: str = "by") -> list[str]:
    """Return a list of column names from one name or several.

    Raises ColumnError for a repeated name, ColumnTypeError for a value that is not text.

    >>> require_column_names("page"), require_column_names(["page", "user"])
    (['page'], ['page', 'user'])
    """
    if isinstance(columns, Column) or not isinstance(columns, Iterable):
        raise ColumnTypeError(
            f"invalid {label}: {columns!r} ({type(columns).__name__})",
            "a column name, or a list of column names",
            f"add an expression with withColumn, then pass its name in {label}",
        )
    column_names = [columns] if isinstance(columns, str) else list(columns)
    for name in column_names:
        if not isinstance(name, str):
            raise ColumnTypeError(
                f"invalid {label}: {name!r} ({type(name).__name__})",
                "column names as text",
                f"add the expression with withColumn, then pass its name in {label}",
            )
    repeated = sorted({name for name in column_names if column_names.count(name) > 1})
    if repeated:
        raise ColumnError(f"invalid {label}: repeated {', '.join(repeated)}", "each column once")
    return column_names


def require_integer(
    value: object, label: str, min_value: int, max_value: int, hint: str = ""
) -> None:
    """Raise ArgumentError unless the value is an integer from `min_value` to `max_value`."""
    if not isinstance(value, int) or isinstance(value, bool) or not min_value <= value <= max_value:
        raise ArgumentError(
            f"invalid {label}: {value!r}", f"an integer from {min_value:,} to {max_value:,}", hint
        )


def require_choice(value: object, label: str, choices: object) -> None:
    """Raise ArgumentError unless the value is one of the choices of a `Literal`."""
    allowed = get_args(choices)
    # A Column has no truth value, so values of other types are not compared.
    if type(value) not in {type(choice) for choice in allowed} or value not in allowed:
        names = list(map(repr, allowed))
        hint = closest_name(str(value), allowed) or names[0]
        raise ArgumentError(f"invalid {label}: {value!r}", ", ".join(names), f"{label}={hint}")


def require_flag(value: object, label: str) -> None:
    """Raise ColumnTypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise ColumnTypeError(f"invalid {label}: {value!r}", "True or False", f"{label}=True")


def require_instance(value: object, label: str, expected: type | UnionType, hint: str = "") -> None:
    """Raise ColumnTypeError unless the value is an instance of the expected class, or of one."""
    if not isinstance(value, expected):
        names = [each.__name__ for each in get_args(expected) or (expected,)]
        raise ColumnTypeError(f"invalid {label}: {value!r}", f"a {' or a '.join(names)}", hint)


def require_zoned_time(value: object, label: str) -> None:
    """Raise ArgumentError unless the value is a datetime with a time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ArgumentError(
            f"invalid {label}: {value!r}",
            "a datetime with a time zone",
            f"{label}=datetime(2026, 3, 2, tzinfo=UTC)",
        )


def as_column(value: str | Column, label: str = "value") -> Column:
    """Return a Column from a column or its name; dots in a name do not select a struct field.

    Raises ColumnTypeError for a value that is neither, and for an empty name.

    >>> clicks.select(as_column("page")).columns
    ['page']
    """
    require_column_or_name(value, label)
    return quoted_column(value) if isinstance(value, str) else value


def require_column_or_name(value: object, label: str = "value") -> None:
    """Raise ColumnTypeError unless the value is a column, or a name that is not empty."""
    if not isinstance(value, str | Column) or (isinstance(value, str) and not value):
        raise ColumnTypeError(
            f"invalid {label}: {value!r} ({type(value).__name__})",
            "a column, or its name",
            f'{label}="ms"',
        )


def require_dataframe(frame: object, label: str = "frame") -> None:
    """Raise ColumnTypeError unless the value is a DataFrame."""
    if not isinstance(frame, DataFrame):
        raise ColumnTypeError(
            f"invalid {label}: {type(frame).__name__}",
            "a Spark DataFrame",
            "spark.read.format('delta').load(path) for a table",
        )


def require_function(value: object, label: str, hint: str) -> None:
    """Raise ColumnTypeError unless the value can be called."""
    if not callable(value):
        raise ColumnTypeError(f"invalid {label}: {value!r}", "a function", hint)


@cache_columns
def quoted_column(name: str) -> Column:
    """Return the top-level column of exactly this name, including special characters.

    >>> clicks.select(quoted_column("page")).columns
    ['page']
    """
    return F.col(quote_name(name))


def quoted_column_in(alias: str, name: str) -> Column:
    """Return the top-level column of exactly this name in an aliased frame."""
    return F.col(f"{alias}.{quote_name(name)}")


def add_micros(time: Column, micros: int | Column) -> Column:
    """Return a timestamp plus a number of microseconds of any sign.

    >>> clicks.select(F.minute(add_micros(F.col("event_time"), 60_000_000))).first()[0]
    4
    """
    return F.timestamp_micros(F.unix_micros(time) + F.lit(micros))


def quote_name(name: str) -> str:
    """Return a name quoted with backticks for Spark SQL.

    >>> quote_name("a.b")
    '`a.b`'
    """
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def same_key(keys: Sequence[str], left: str = "old", right: str = "new") -> Column:
    """Return whether rows of two aliased frames have the same key; nulls are equal."""
    pairs = [(quoted_column_in(left, name), quoted_column_in(right, name)) for name in keys]
    return reduce(and_, [left_key.eqNullSafe(right_key) for left_key, right_key in pairs])


def first_line(fault: Exception) -> str:
    """Return the first line of a Spark error, without its plan and SQLSTATE."""
    return str(fault).strip().split("\n", 1)[0].split(" SQLSTATE", 1)[0]


def as_schema(schema: str | StructType, label: str = "schema") -> StructType:
    """Return the StructType of DDL text or of a StructType, which must have at least one field.

    Spark parses DDL text, so it requires a running session; a StructType does not.
    """
    example = f"{label}='page STRING, ms INT'"
    try:
        parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    except PySparkRuntimeError as fault:
        raise SetupError(
            f"cannot parse the DDL text of {label}: no Spark session is running",
            "Spark parses DDL text and requires a session.",
            f"create the session before this call, or pass {label} as a StructType.",
        ) from fault
    except AnalysisException as fault:
        raise ArgumentError(
            f"invalid {label}: {schema!r}: {first_line(fault)}",
            "DDL text: names and types, separated by commas",
            example,
        ) from fault
    if not isinstance(parsed, StructType) or not parsed.fields:
        expected = "at least one field, as DDL text or StructType"
        raise ArgumentError(f"invalid {label}: {schema!r}", expected, example)
    return parsed


def column_type(frame: DataFrame, value: str | Column, label: str) -> DataType:
    """Return the type of a column or an expression; raise an error if it cannot be resolved."""
    try:
        if isinstance(value, str):
            # Spark logs a page of JSON for an unknown name, so unknown names are caught here.
            if value.lower() not in {name.lower() for name in frame.columns}:
                require_columns(frame, [value], label)
            value = quoted_column(value)
        return frame.select(value).schema[0].dataType
    except ParseException as fault:
        raise ArgumentError(
            f"invalid {label}: {first_line(fault)}", "a Spark SQL expression"
        ) from fault
    except AnalysisException as fault:
        raise ColumnError(
            f"invalid {label}: {first_line(fault)}",
            f"an expression of the columns {', '.join(frame.columns)}",
            closest_column(fault, frame.columns),
        ) from fault


def require_columns(frame: DataFrame, column_names: Iterable[str], label: str = "by") -> None:
    """Raise an error for a name that the frame lacks or has twice, and for a non-DataFrame."""
    require_dataframe(frame)
    existing = frame.columns
    for name in column_names:
        if not isinstance(name, str):
            problem = f"{name!r} ({type(name).__name__})"
            raise ColumnTypeError(f"invalid {label}: {problem}", "a column name as text")
        number = existing.count(name)
        if not number:
            raise ColumnError(
                f"invalid {label}: no column {name!r}",
                f"one of {', '.join(existing)}",
                closest_name(name, existing),
            )
        if number > 1:
            problem = f"the frame has {number} columns {name!r}"
            raise ColumnError(f"invalid {label}: {problem}", "one column of this name")


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the quoted name that `name` is probably meant to be, or an empty text.

    >>> closest_name("pages", ["user", "page"]), closest_name("country", ["user", "page"])
    ("'page'", '')
    """
    by_lowered = {each.lower(): each for each in names}
    matches = get_close_matches(name.lower(), by_lowered, 1, 0.6)
    return repr(by_lowered[matches[0]]) if matches else ""


def closest_column(fault: AnalysisException, names: Iterable[str]) -> str:
    """Return the quoted name of the column that Spark has not found, or an empty text."""
    if not str(fault.getCondition()).startswith("UNRESOLVED_COLUMN"):
        return ""
    unknown = (fault.getMessageParameters() or {}).get("objectName", "")
    return closest_name(unknown.strip("`"), names)


def is_byte_comparable(data_type: DataType) -> bool:
    """Return whether equal values have equal bytes, and Arrow orders values as Spark does.

    >>> is_byte_comparable(StringType()), is_byte_comparable(StringType("UNICODE_CI"))
    (True, False)
    """
    return isinstance(data_type, _BYTE_COMPARABLE) or data_type == StringType()


def is_collated(data_type: DataType) -> bool:
    """Return whether a type contains strings with a collation other than UTF8_BINARY.

    >>> is_collated(StringType()), is_collated(StringType("UNICODE_CI"))
    (False, True)
    """
    if isinstance(data_type, StructType):
        return any(is_collated(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return is_collated(data_type.elementType)
    if isinstance(data_type, MapType):
        return is_collated(data_type.keyType) or is_collated(data_type.valueType)
    return isinstance(data_type, StringType) and data_type != StringType()


def require_event_time(frame: DataFrame, time: str) -> None:
    """Raise an error unless `time` is a timestamp and, on a stream, has a watermark."""
    require_timestamp(frame, time, "time")
    if frame.isStreaming and WATERMARK_KEY not in (frame.schema[time].metadata or {}):
        raise WatermarkError(
            f"invalid stream: no watermark on {time!r}, so its state would grow without bound",
            f"a stream with a watermark on {time!r}",
            f"withWatermark({time!r}, '10 seconds') before the transform",
        )


def require_timestamp(frame: DataFrame, name: str, label: str) -> None:
    """Raise an error unless a column is a timestamp with time zone."""
    require_columns(frame, [name], label)
    data_type = frame.schema[name].dataType
    if not isinstance(data_type, TimestampType):
        raise ColumnTypeError(
            f"invalid {label}: column {name!r} has type {data_type.simpleString()}",
            "a timestamp with time zone (not timestamp_ntz)",
            f"withColumn({name!r}, F.to_timestamp({name!r})), or F.timestamp_millis for epoch "
            "milliseconds",
        )


def require_no_name_clash(
    existing: Iterable[str], new_names: Iterable[str], label: str = "aggs"
) -> None:
    """Raise ColumnError if result names clash; Spark compares names case-insensitively."""
    names = list(existing)
    new_names = new_names if isinstance(new_names, Mapping) else list(new_names)
    for name in new_names:
        if not isinstance(name, str) or not name:
            raise ColumnTypeError(
                f"invalid {label}: {name!r} as the name of a column", "text that is not empty"
            )
    lowered = {name.lower() for name in names}
    for name in new_names:
        if name.lower() in lowered:
            remedy = f"withColumnRenamed({name!r}, '{name}_value') on the input"
            if isinstance(new_names, Mapping):
                remedy = f"{label}={{'{name}_value': ...}}"
            raise ColumnError(
                f"invalid {label}: duplicate result column {name!r}",
                f"names that differ from each other and from {', '.join(names)}, ignoring case",
                remedy,
            )
        lowered.add(name.lower())


def nested_names(data_type: DataType) -> list[str]:
    """Return the names of all fields of a type, including those of nested structs.

    >>> nested_names(as_schema("a int, b struct<c: int>"))
    ['a', 'b', 'c']
    """
    if isinstance(data_type, StructType):
        return [name for field in data_type for name in (field.name, *nested_names(field.dataType))]
    if isinstance(data_type, ArrayType):
        return nested_names(data_type.elementType)
    if isinstance(data_type, MapType):
        return nested_names(data_type.keyType) + nested_names(data_type.valueType)
    return []


def require_storable_names(column_names: Iterable[str], label: str) -> None:
    """Raise ColumnError for a name that a Delta table column cannot have."""
    for name in column_names:
        if _UNSTORABLE_CHARACTERS.search(name):
            suggestion = _UNSTORABLE_CHARACTERS.sub("_", name)
            raise ColumnError(
                f"invalid {label}: {name!r} cannot be the name of a Delta table column",
                "names without spaces, tabs, line breaks and the characters , ; { } ( ) =",
                f"withColumnRenamed({name!r}, {suggestion!r})",
            )


def require_condition_text(condition: object, label: str = "where") -> None:
    """Raise ArgumentError for a condition that is neither text nor None."""
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise ArgumentError(
            f"invalid {label}: {condition!r}",
            "a condition as text, or None",
            _condition_example(label),
        )


def require_no_special_date(text: str, label: str) -> None:
    """Raise ArgumentError for an expression with a literal such as timestamp 'now'."""
    special_date = _SPECIAL_DATE.search(text)
    if special_date is not None:
        raise nondeterministic_error(text, special_date[0], label)


def nondeterministic_error(text: str, part: str, label: str) -> ArgumentError:
    """Return the error for an expression that can change when a row is computed again."""
    return ArgumentError(
        f"invalid {label}: {text!r} is not deterministic: {part}",
        "an expression of the columns of a row alone, because a batch can run again after a crash, "
        "and a replay or a comparison computes it again",
        "a column of the event, such as its event_time, or a literal",
    )


def parse_condition(rows: DataFrame, condition: str, label: str = "where") -> Column:
    """Return the Column of a row condition written in Spark SQL.

    Raises ArgumentError, ColumnError and ColumnTypeError for a condition that does not apply to
    single rows of this frame.
    """
    require_no_special_date(condition, label)
    predicate = F.expr(condition)
    data_type = column_type(rows, predicate, label)
    if not isinstance(data_type, BooleanType):
        raise ColumnTypeError(
            f"invalid {label}: {condition!r} has type {data_type.simpleString()}",
            "a boolean condition",
            _condition_example(label),
        )
    try:
        _ = rows.where(predicate).schema
    except AnalysisException as fault:
        raise ArgumentError(
            f"invalid {label}: {condition!r}: {first_line(fault)}",
            "a condition on the columns of one row, without aggregates",
            _condition_example(label),
        ) from fault
    return predicate


def _condition_example(label: str) -> str:
    return f"{label}='ms > 100'" if label.isidentifier() else "'ms > 100'"


Fault: TypeAlias = tuple[Column, str]
"""The condition that a row cannot be used or stored, and the reason."""


def first_reason(faults: Sequence[Fault]) -> Column | None:
    """Return the reason of the first fault of a row, null without one; None without faults.

    >>> reason = first_reason([(F.col("ms") > 7, "too slow")])
    >>> [row[0] for row in clicks.select(reason).collect()].count("too slow")
    1
    """
    if not faults:
        return None
    condition, reason = faults[0]
    cases = F.when(condition, F.lit(reason))
    return reduce(lambda chain, fault: chain.when(fault[0], F.lit(fault[1])), faults[1:], cases)


def null_faults(rows: DataFrame, names: Sequence[str], label: str) -> list[Fault]:
    """Return the faults of rows with a null in one of the columns, by those of the rows."""
    fields = {field.name.lower(): field for field in rows.schema}
    return [
        (quoted_column(field.name).isNull(), f"the {label} {name!r} is null")
        for name in names
        if (field := fields.get(name.lower())) is not None and field.nullable
    ]
