"""Values at the edges of each column type, as SQL literals."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

_DAYS = (
    "0001-01-01",
    "1582-10-04",
    "1582-10-15",
    "1600-02-29",
    "1677-09-20",
    "1900-01-01",
    "1970-01-01",
    "2262-04-12",
    "9999-12-31",
)
_TIMES = (
    *(f"{day} 00:00:00" for day in _DAYS),
    "1969-12-31 23:59:59.999999",
    "2026-03-29 02:30:00.000001",
    "9999-12-31 23:59:59.999999",
)
_TEXTS = ("", " ", "null", "NULL", "a/b=c%25&d", "..", "straße 🚰", "é", "a\\nb", "'' ", "\\\\")


def _whole(bits: int) -> tuple[str, ...]:
    return (f"-{2 ** (bits - 1)}", "-1", "0", f"{2 ** (bits - 1) - 1}")


EXTREMES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": _whole(64),
    "FLOAT": ("NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1.4E-45", "3.4028235E38"),
    "DOUBLE": ("NaN", "Infinity", "-Infinity", "-0.0", "0.0", "4.9E-324", "1.7976931348623157E308"),
    "DECIMAL(9,2)": ("-9999999.99", "0.00", "0.01"),
    "DECIMAL(18,18)": (f"0.{'9' * 18}", f"-0.{'9' * 18}", "0"),
    "DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38, "1"),
    "DECIMAL(38,38)": (f"0.{'9' * 38}", f"-0.{'9' * 38}", "0"),
    "STRING": _TEXTS,
    "BINARY": ("", "00", "FF", "7F80FFFE00", "E282"),
    "DATE": _DAYS,
    "TIMESTAMP": tuple(f"{time}Z" for time in _TIMES),
    "TIMESTAMP_NTZ": _TIMES,
}
"""The values of each type; each also has null."""


def literals(type_name: str) -> list[str]:
    """Return the values of a type as SQL expressions, with null."""
    source = "X'{}'" if type_name == "BINARY" else "'{}'"
    values = [f"cast({source.format(each)} as {type_name})" for each in EXTREMES[type_name]]
    return [*values, f"cast(null as {type_name})"]


def column_name(type_name: str) -> str:
    """Return the name of the column of a type."""
    return re.sub(r"\W+", "_", type_name.lower()).strip("_")


def extreme_rows(spark: SparkSession, types: Iterable[str] = EXTREMES) -> DataFrame:
    """Return a column for each type; its values repeat in the rows."""
    columns = [literals(each) for each in types]
    rows = [
        f"({number}, {', '.join(column[number % len(column)] for column in columns)})"
        for number in range(max(map(len, columns)))
    ]
    names = ", ".join(map(column_name, types))
    return spark.sql(f"select * from values {', '.join(rows)} as t(id, {names})")
