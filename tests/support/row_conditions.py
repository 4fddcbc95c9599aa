"""SQL conditions that are drawn, and the outcome of each for a row by itself."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.jvm import with_settings

OPERATORS = ["+", "-", "*", "/", "%", "div", "||"]
COMPARISONS = ["=", "<", ">", "!=", "<=>"]
FUNCTIONS = [
    "element_at(array(1, 2), {0})",
    "to_date({0}) < date '2026-03-02'",
    "make_date(2026, cast({0} AS INT), 1) IS NOT NULL",
    "cast({0} AS DECIMAL(3, 2)) > 0",
    "cast({0} AS TIMESTAMP) IS NULL",
    "exists(array({0}, {1}), each -> 1 / each > 0)",
    "get_json_object({0}, '$.a') IS NULL",
    "hex(cast({0} AS STRING)) > '0'",
    "{0} BETWEEN {1} AND {0}",
    "case when {0} > 0 then {1} / 0 else 1 end > 0",
]


@st.composite
def conditions(draw: st.DrawFn, operands: Sequence[str]) -> str:
    """Return an SQL condition; many raise errors for some rows, and some do not compile."""
    operand = st.sampled_from(operands)

    def value() -> str:
        left, operator, right = draw(operand), draw(st.sampled_from(OPERATORS)), draw(operand)
        return f"({left} {operator} {right})" if draw(st.booleans()) else left

    kind = draw(st.integers(0, 2))
    if kind == 0:
        return f"{value()} {draw(st.sampled_from(COMPARISONS))} {value()}"
    if kind == 1:
        return draw(st.sampled_from(FUNCTIONS)).format(value(), value())
    repeated = value()
    return f"{repeated} > 0 OR {repeated} < -1 AND {value()} = {value()}"


def outcome(row: DataFrame, condition: str) -> bool | None:
    """Return whether a single row meets a condition; None if the condition raises an error.

    As a column rather than a filter, and without constant folding: filters of non-null values come
    before a filter, and folding raises the error of a constant part that no row needs.
    """
    folding = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
    excluded = {"spark.sql.optimizer.excludedRules": folding}
    try:
        with with_settings(row.sparkSession, excluded):
            return row.select(F.expr(condition)).collect()[0][0] is True
    except PySparkException:
        return None
