"""The checks of an input's rows: its `where` and its rules, and what happens to rows that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from typing import Any, ClassVar, Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import (
    nondeterministic_error,
    parse_condition,
    quoted_column,
    require_choice,
    require_condition_text,
    require_instance,
)
from ..errors import ArgumentError
from ..jvm import nondeterministic_part, try_expression

OnError: TypeAlias = Literal["dead_letter", "drop", "stop"]
FAILED_CHECK = "__tidegate_failed_check"
"""The check that a row fails: the number of a rule, WHERE, or that of an expression by
`_expression_number`; null for a row that passes."""
WHERE = -1
"""The number of `where` among the checks: its condition raises for the row."""
_MATCHES = "__tidegate_matches"
_RULE_METRIC = "rule "


@dataclass(frozen=True)
class Rule:
    """An expectation on the rows of an input.

    A row violates the rule if the condition is false, null, or raises an error, such as a division
    by zero.

    name: identifies the rule in counts, metrics and dead letters.
    condition: a deterministic row condition in Spark SQL over the columns of the good rows.
    on_error: the action for a row that violates the rule. "dead_letter" writes the record to the
        dead letters, with the stage "rule". "drop" only counts it. "stop" fails the batch before
        anything of it is written.

    Raises ArgumentError, at construction, for an empty name or condition.

    >>> Rule("positive_amount", "amount > 0").on_error
    'dead_letter'
    """

    plan_name: ClassVar[str] = "rule"
    name: str
    condition: str
    _: KW_ONLY
    on_error: OnError = "dead_letter"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ArgumentError(
                f"invalid name: {self.name!r}", "the name of the rule as text", '"positive_amount"'
            )
        if self.condition is None:
            raise ArgumentError(
                f"invalid condition: {self.condition!r}", "a condition as text", '"amount > 0"'
            )
        require_condition_text(self.condition, "condition")
        require_choice(self.on_error, "on_error", OnError)


@dataclass(frozen=True)
class RowChecks:
    """The checks of an input's rows, in this order: `where`, the expressions, then the rules.

    A row that `where` drops is not checked further. The first rule that a row violates decides what
    happens to it.

    on_error: what happens to a row for which `where` or an expression raises an error, and to a
        record that the format or the event time rejects.
    expressions: what the job's transform evaluates for each row.
    """

    where: str | None
    rules: Sequence[Rule]
    on_error: OnError
    expressions: Sequence[str | Column] = ()

    def require(self) -> None:
        """Validate the arguments.

        Raises ArgumentError and ColumnTypeError.
        """
        require_condition_text(self.where)
        require_choice(self.on_error, "on_error", OnError)
        example = 'rules=[Rule("positive_amount", "amount > 0")]'
        if not isinstance(self.rules, Sequence) or isinstance(self.rules, str):
            raise ArgumentError(f"invalid rules: {self.rules!r}", "a list of rules", example)
        for rule in self.rules:
            require_instance(rule, "rules", Rule, example)
        names = [rule.name for rule in self.rules]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ArgumentError(
                f"invalid rules: repeated name {repeated[0]!r}", "each rule with a name of its own"
            )

    def with_verdicts(
        self, decoded: DataFrame, is_checked: Column, columns: Sequence[str], filtered: str
    ) -> DataFrame:
        """Add FAILED_CHECK, and with `where` the flag `filtered` of rows that it drops.

        is_checked: whether a row is checked; other rows pass. columns: those that the conditions
        can use.
        """
        if self._is_empty:
            return decoded
        spark = decoded.sparkSession
        rows = decoded.select(*map(quoted_column, columns))
        failures: list[tuple[Column, int]] = []
        if self.where is not None:
            predicate = parse_deterministic(rows, self.where)
            condition = F.coalesce(predicate, F.lit(False))
            matches = try_expression(spark, condition, guard=is_checked)
            decoded = decoded.withColumn(_MATCHES, matches)
            matches_value = quoted_column(_MATCHES)["value"]
            decoded = decoded.withColumn(filtered, F.coalesce(~matches_value, F.lit(False)))
            failures.append((quoted_column(_MATCHES).isNull(), WHERE))
            is_checked = F.coalesce(matches_value, F.lit(False))
        for index, expression in enumerate(self.expressions):
            if isinstance(expression, str) and expression in columns:
                continue
            value = F.expr(expression) if isinstance(expression, str) else expression
            _require_deterministic(rows, value, str(expression), "expression of the transform")
            attempt = try_expression(spark, value, guard=is_checked)
            failures.append((attempt.isNull(), _expression_number(index)))
        for number, rule in enumerate(self.rules):
            label = f"condition of the rule {rule.name!r}"
            condition = parse_deterministic(rows, rule.condition, label)
            satisfied = try_expression(spark, condition, guard=is_checked)["value"]
            failures.append((is_checked & ~F.coalesce(satisfied, F.lit(False)), number))
        no_failure = F.when(F.lit(False), F.lit(0))
        failed_check = reduce(lambda cases, case: cases.when(*case), failures, no_failure)
        return decoded.withColumn(FAILED_CHECK, failed_check).drop(_MATCHES)

    @property
    def _is_empty(self) -> bool:
        return self.where is None and not self.rules and not self.expressions

    def has_action(self, action: OnError) -> bool:
        """Return whether a row that is not good can have this action."""
        return action in {self.on_error, *(rule.on_error for rule in self.rules)}

    def is_action(self, action: OnError) -> Column:
        """Return whether a row that is not good has this action."""
        is_default = F.lit(self.on_error == action)
        if not self.rules:
            return is_default
        numbers = [number for number, rule in enumerate(self.rules) if rule.on_error == action]
        is_rule = F.coalesce(quoted_column(FAILED_CHECK) >= 0, F.lit(False))
        return F.when(is_rule, quoted_column(FAILED_CHECK).isin(numbers)).otherwise(is_default)

    def stage_and_reason(self) -> tuple[Column, Column]:
        """Return the stage and the reason of a dead letter that fails a check, else null."""
        stage, reason = F.lit(None).cast("string"), F.lit(None).cast("string")
        if self._is_empty:
            return stage, reason
        failed = quoted_column(FAILED_CHECK)
        stage = (
            F.when(failed == WHERE, "where")
            .when(failed >= 0, "rule")
            .when(failed < WHERE, "expression")
        )
        reasons = F.when(failed == WHERE, f"the condition raises an error: {self.where}")
        for index, expression in enumerate(self.expressions):
            text = f"an expression of the transform raises an error: {expression!s}"
            reasons = reasons.when(failed == _expression_number(index), text)
        for number, rule in enumerate(self.rules):
            reasons = reasons.when(failed == number, f"{rule.name}: not {rule.condition}")
        return stage, reasons

    def metrics(self, is_counted: Column) -> list[Column]:
        """Return the number of counted rows that violate each rule, as aggregates."""
        failed = quoted_column(FAILED_CHECK)
        return [
            F.count_if(is_counted & (failed == number)).alias(f"{_RULE_METRIC}{rule.name}")
            for number, rule in enumerate(self.rules)
        ]


def parse_deterministic(rows: DataFrame, condition: str, label: str = "where") -> Column:
    """Return the Column of a deterministic row condition written in Spark SQL.

    Raises ArgumentError, ColumnError and ColumnTypeError.
    """
    predicate = parse_condition(rows, condition, label)
    _require_deterministic(rows, predicate, condition, label)
    return predicate


def _require_deterministic(rows: DataFrame, value: Column, text: str, label: str) -> None:
    part = nondeterministic_part(rows, value)
    if part is not None:
        raise nondeterministic_error(text, part, label)


def _expression_number(index: int) -> int:
    return WHERE - 1 - index


def rule_violations(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of violations of each rule among the observed metrics of an input."""
    return {
        name.removeprefix(_RULE_METRIC): count or 0
        for name, count in metrics.items()
        if name.startswith(_RULE_METRIC)
    }
