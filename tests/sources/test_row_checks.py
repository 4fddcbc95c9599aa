"""Conditions that raise errors for some rows flag these rows, and leave the others as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.row_conditions import conditions, outcome
from tidegate.errors import ArgumentError, TidegateError
from tidegate.sources.row_checks import FAILED_CHECK, WHERE, RowChecks, Rule

SCHEMA = "number INT, item STRING, amount DOUBLE, qty INT, code STRING"
COLUMNS = ["item", "amount", "qty", "code"]
OPERANDS = ["amount", "qty", "cast(code AS INT)", "item", "length(item)", "1", "0", "null", "'x'"]

ORDER_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "", None, "é", "x" * 300]),
        st.sampled_from([0.0, -1.5, 1e308, None]),
        st.sampled_from([0, 1, -(2**31), 2**31 - 1, None]),
        st.sampled_from(["1", "abc", "", "99999999999", None]),
    ),
    min_size=1,
    max_size=8,
)
OrderRow = tuple[str | None, float | None, int | None, str | None]


@pytest.mark.draws
@given(condition=conditions(OPERANDS), orders=ORDER_ROWS)
@example(condition="amount / qty > 3 OR amount / qty < -3", orders=[("a", 1.0, 0, "1")])
@example(condition="amount > 0 OR amount < -1 AND 'x' = amount", orders=[("a", 0.0, 0, "1")])
@few(6)
def test_each_row_has_the_outcome_that_it_has_alone(
    condition: str, orders: list[OrderRow], spark: SparkSession
) -> None:
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(orders)], SCHEMA)
    checks = RowChecks(condition, [Rule("same", condition)], "dead_letter")
    try:
        checked = checks.with_verdicts(frame, F.col("number") >= 0, COLUMNS, "filtered")
    except TidegateError:
        return
    found = checked.select("number", "filtered", FAILED_CHECK).orderBy("number").collect()
    verdicts = {row["number"]: (row["filtered"], row[FAILED_CHECK]) for row in found}
    expected: dict[bool | None, Any] = {
        True: (False, None),
        False: (True, None),
        None: (False, WHERE),
    }
    assert verdicts == {
        number: expected[outcome(frame.where(F.col("number") == number), condition)]
        for number in range(len(orders))
    }


def test_rows_that_are_not_checked_pass_and_are_not_evaluated(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0, "a", 1.0, 0, "1"), (1, "b", 1.0, 0, "1")], SCHEMA)
    checks = RowChecks("amount / qty > 3", [Rule("no", "false")], "dead_letter")
    checked = checks.with_verdicts(frame, F.col("number") > 0, COLUMNS, "filtered")
    found = checked.select("filtered", FAILED_CHECK).orderBy("number").collect()
    assert [tuple(row) for row in found] == [(False, None), (False, WHERE)]


CLOCKS = [
    "current_timestamp() > timestamp '2026-03-02'",
    "now() > timestamp '2026-03-02'",
    "to_date(code) < current_date()",
    "curdate() > date '2026-03-02'",
    "localtimestamp() IS NULL",
    "unix_timestamp() > qty",
    "current_user() = item",
    "timestamp 'now' > to_timestamp(code)",
    "cast('today' AS DATE) > to_date(code)",
    "amount > rand()",
    "item = uuid()",
    "monotonically_increasing_id() % 2 = 0",
    "exists(array(qty), q -> q > rand(1))",
    "shuffle(array(qty, 2))[0] = 2",
]
DETERMINISTIC = [
    "item = 'now' OR code = 'rand()'",
    "to_date(code) < date '2026-03-02'",
    "cast('2026-03-02' AS DATE) > to_date(code)",
    "hash(item) % 10 = 0",
]


def verdicts(spark: SparkSession, checks: RowChecks) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    checks.with_verdicts(frame, F.col("number") >= 0, COLUMNS, "filtered")


@pytest.mark.parametrize("condition", CLOCKS)
def test_a_condition_that_can_change_when_a_batch_runs_again_is_refused(
    condition: str, spark: SparkSession
) -> None:
    for checks, label in (
        (RowChecks(condition, [], "dead_letter"), "where"),
        (RowChecks(None, [Rule("r", condition)], "dead_letter"), "condition of the rule 'r'"),
        (RowChecks(None, [], "dead_letter", [condition]), "expression of the transform"),
    ):
        if label == "expression of the transform" and condition.startswith("timestamp"):
            continue
        with pytest.raises(ArgumentError, match="is not deterministic") as refused:
            verdicts(spark, checks)
        assert refused.value.problem.startswith(f"invalid {label}: {condition!r}")
        assert "a batch can run again after a crash" in refused.value.detail
        assert "event_time" in refused.value.remedy


@pytest.mark.parametrize("condition", DETERMINISTIC)
def test_a_deterministic_condition_is_accepted(condition: str, spark: SparkSession) -> None:
    verdicts(spark, RowChecks(condition, [Rule("same", condition)], "dead_letter", [condition]))
